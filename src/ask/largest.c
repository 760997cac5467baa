#include "ask/largest.h"

#include "base/units.h"
#include "plan/excludes.h"
#include "sim/simulate.h"

#define NEGLIGIBLE 0.01 /* of the step */

/* ---- parts, and switches of plans ---- */

static double host(const Result *r) { return r->parts.compute_s[COMPUTE_HOST]; }
static double again(const Result *r) { return r->parts.compute_s[COMPUTE_AGAIN]; }
static double uneven(const Result *r) { return r->parts.compute_s[COMPUTE_UNEVEN]; }
static double slowed(const Result *r) { return r->parts.compute_s[COMPUTE_SLOWED]; }
static double tensor(const Result *r) { return r->metrics.tensor_comm_s; }
static double context(const Result *r) { return r->metrics.context_comm_s; }
static double experts(const Result *r) { return r->metrics.expert_comm_s; }
static double data(const Result *r) { return r->metrics.data_comm_s; }
static double copies(const Result *r) { return r->metrics.offload_s; }
static double stages(const Result *r) { return r->metrics.pipeline_comm_s + r->metrics.idle_s; }

static gboolean records_parts(Plan *p)
{
  plan_set_graph(p, GRAPH_PARTIAL);
  return p->framework->graphs >> GRAPH_PARTIAL & 1;
}

static gboolean records_all(Plan *p)
{
  plan_set_graph(p, GRAPH_FULL);
  return p->framework->graphs >> GRAPH_FULL & 1;
}

static gboolean keeps_all(Plan *p)
{
  p->recompute = RECOMPUTE_NONE;
  p->scope = (RecomputeScope) { 0 };
  return TRUE;
}

static gboolean overlaps_nothing(Plan *p)
{
  p->overlap = (Overlap) { .experts = p->overlap.experts, .exchange = p->overlap.exchange };
  return TRUE;
}

static gboolean waits_for_exchange(Plan *p)
{
  p->overlap.exchange = FALSE;
  return TRUE;
}

static gboolean overlaps_exchange(Plan *p)
{
  p->overlap.exchange = TRUE;
  return TRUE;
}

typedef struct {
  gboolean (*turn)(Plan *plan); /* FALSE: the framework has it not */
  const char *fix;              /* as --fix has it */
} Switch;

enum { TURNS = 2 };

static const struct {
  const char *name, *key; /* name: NULL = of whoever ends the step (result_data_adjective) */
  double (*seconds)(const Result *result);
  Switch switches[TURNS];
} parts[] = {
  { "waits for the host, which launches kernels", "host", host,
    { { records_parts, "graph=partial" }, { records_all, "graph=full" } } },
  { "recomputation", "recompute", again, { { keeps_all, "recompute=none" } } },
  { "rows of the busiest experts beyond an even share", "uneven", uneven, { { NULL, NULL } } },
  { "kernels slowed by what runs beside them", "slowed", slowed,
    { { overlaps_nothing, "overlap=0" }, { waits_for_exchange, "ep_overlap=0" } } },
  { "exposed tensor-parallel communication", "tensor_comm", tensor, { { NULL, NULL } } },
  { "exposed context-parallel communication", "context_comm", context, { { NULL, NULL } } },
  { "the exposed exchange of experts' tokens", "expert_comm", experts, { { overlaps_exchange, "ep_overlap=1" } } },
  { NULL, "data_comm", data, { { NULL, NULL } } },
  { "exposed copies to and from the host", "offload", copies, { { NULL, NULL } } },
  { "waits for other stages", "stages", stages, { { NULL, NULL } } },
};

typedef struct {
  gsize part;
  double seconds;
  int n; /* switches that the plan may turn */
  const char *fix[TURNS];
  Metrics metrics[TURNS]; /* with each alone */
} Largest;

/* FALSE where the plan is not another one with it, or not one that may run. */
static gboolean try_switch(const Result *r, const Switch *s, Metrics *out)
{
  Plan plan = *r->plan;
  const Plan *own = r->plan;

  if (!s->turn || !s->turn(&plan) || plan_check(&plan, r->model, r->cluster, NULL) != RULE_NONE ||
      plan_excluded(&plan, r->model, r->cluster, plan.framework))
    return FALSE;
  g_autofree char *before = plan_label(own), *after = plan_label(&plan);
  if (g_str_equal(before, after))
    return FALSE;
  g_autoptr(Trace) trace = simulate_plan(r->model, r->cluster, &plan);
  trace_metrics(trace, out);
  return TRUE;
}

static gboolean find_largest(const Result *r, Largest *l)
{
  *l = (Largest) { .seconds = NEGLIGIBLE * r->metrics.iteration_s };
  gboolean found = FALSE;

  for (gsize i = 0; i < G_N_ELEMENTS(parts) && r->parts.known; i++) {
    double seconds = parts[i].seconds(r);
    if (seconds < l->seconds)
      continue;
    *l = (Largest) { .part = i, .seconds = seconds };
    found = TRUE;
  }
  for (int i = 0; i < TURNS && found; i++) {
    const Switch *s = &parts[l->part].switches[i];
    if (try_switch(r, s, &l->metrics[l->n]))
      l->fix[l->n++] = s->fix;
  }
  return found;
}

/* ---- what is said of it ---- */

static void say_switch(GString *s, const Result *r, const Largest *l, int i)
{
  const Metrics *m = &l->metrics[i];
  g_autofree char *step = format_seconds(m->iteration_s), *need = format_bytes(m->peak_memory_bytes);
  g_autofree char *usable = format_bytes(m->capacity_bytes);

  g_string_append_printf(s, i == 0 ? " With %s the same plan takes %s (%+.1f %%)" : "; with %s %s (%+.1f %%)", l->fix[i],
                         step,
                         100 * (m->iteration_s / r->metrics.iteration_s - 1));
  if (m->peak_memory_bytes > m->capacity_bytes)
    g_string_append_printf(s, ", but needs %s a GPU, of which %s are usable", need, usable);
}

/* Newly allocated. */
static char *name_of(const Result *r, gsize part)
{
  g_autofree char *ends = result_data_adjective(r);
  return parts[part].name ? g_strdup(parts[part].name) : g_strdup_printf("exposed %s communication", ends);
}

char *largest_text(const Result *r)
{
  GString *s = g_string_new(NULL);
  Largest l;

  if (!find_largest(r, &l))
    return g_string_free(s, FALSE);
  g_autofree char *seconds = format_seconds(l.seconds), *name = name_of(r, l.part);
  g_string_append_printf(s, "Of what another choice would change, most goes to %s: %s, %.1f %% of the step.",
                         name, seconds, 100 * l.seconds / r->metrics.iteration_s);
  for (int i = 0; i < l.n; i++)
    say_switch(s, r, &l, i);
  g_string_append(s, l.n > 0 ? ".\n" : "\n");
  return g_string_free(s, FALSE);
}

void largest_write(const Result *r, JsonWriter *w)
{
  Largest l;

  if (!find_largest(r, &l))
    return;
  json_open(w, "largest", '{');
  json_put_string(w, "part", parts[l.part].key);
  json_put_real(w, "seconds", l.seconds);
  json_open(w, "with", '[');
  for (int i = 0; i < l.n; i++) {
    json_open(w, NULL, '{');
    json_put_string(w, "fix", l.fix[i]);
    json_put_real(w, "iteration_s", l.metrics[i].iteration_s);
    json_put_real(w, "peak_memory_bytes", l.metrics[i].peak_memory_bytes);
    json_put_real(w, "usable_bytes", l.metrics[i].capacity_bytes);
    json_close(w, '}');
  }
  json_close(w, ']');
  json_close(w, '}');
}
