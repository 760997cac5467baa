#include "plan/describe.h"
#include "plan/keys.h"

static const PlanKeyId shown[PLAN_SHOWN] = { KEY_CONTEXT, KEY_DISPATCH, KEY_EXCHANGE, KEY_GRAPH,
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

const char *plan_shown(const Plan *plan, int i)
{
  if (shown[i] == KEY_OFFLOAD)
    return offloaded(&plan->offload);
  const PlanKey *key = plan_key_of(shown[i]);
  const PlanFile file = plan_as_file(plan);
  int value = G_STRUCT_MEMBER(int, &file, key->field.offset);

  if (shown[i] == KEY_EXCHANGE)
    return !plan_experts_apart(plan) ? NULL : value ? "on" : "off";
  return !key->matters || key->matters(plan) ? key->field.names[value] : NULL;
}
