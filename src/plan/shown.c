#include "plan/describe.h"
#include "plan/keys.h"

static const PlanKeyId shown[PLAN_SHOWN] = { KEY_CONTEXT, KEY_DISPATCH, KEY_EXCHANGE, KEY_TYPES, KEY_GRAPH,
                                              KEY_OFFLOAD };

const char *plan_shown_name(int i)
{
  return plan_key_of(shown[i])->shorter;
}

static const char *offloaded(const Offload *offload)
{
  g_autofree char *label = offload_label(offload);
  return label ? g_intern_string(label) : "none";
}

/* Of both exchanges also how many ranks share in each. */
static const char *exchanged(const Plan *plan)
{
  if (plan->context != CONTEXT_BOTH)
    return context_exchange_names[plan->context];
  g_autofree char *both = g_strdup_printf("a2a %d, p2p %d", plan->context_inner, plan->cp / plan->context_inner);
  return g_intern_string(both);
}

static const char *ordered(const Plan *plan)
{
  g_autofree char *types = plan_types_text(plan);
  return *types ? g_intern_string(types) : NULL;
}

static const char *recorded(const Plan *p)
{
  g_autofree char *text = recorded_text(p->graph, p->graph_modules);
  return g_intern_string(text);
}

const char *plan_shown(const Plan *plan, int i)
{
  if (shown[i] == KEY_TYPES)
    return ordered(plan);
  if (shown[i] == KEY_OFFLOAD)
    return offloaded(&plan->offload);
  if (shown[i] == KEY_GRAPH)
    return recorded(plan);
  const PlanKey *key = plan_key_of(shown[i]);
  const PlanFile file = plan_as_file(plan);
  int value = G_STRUCT_MEMBER(int, &file, key->field.offset);

  if (shown[i] == KEY_EXCHANGE)
    return !plan_experts_apart(plan) ? NULL : value ? "on" : "off";
  if (shown[i] == KEY_CONTEXT && key->matters(plan))
    return exchanged(plan);
  return !key->matters || key->matters(plan) ? key->field.names[value] : NULL;
}
