#include "ask/layer_strategies.h"

#include "base/table.h"
#include "base/units.h"
#include "plan/plan.h"
#include "search/layerwise.h"
#include "sim/simulate.h"

#include <math.h>
#include <string.h>

/* One way to run the plan's stages. */
typedef struct {
  StageTime *times; /* by stage */
  double bytes;     /* of the fullest stage */
} Pipeline;

typedef struct {
  const Result *result;
  Table *table;
  Pipeline own, best;
  LayerStrategies strategies; /* of the best */
  gboolean holds;   /* a plan can say these */
  gboolean differs; /* some layer has another strategy than the plan's own */
  Stop *stop;
} Layerwise;

static char *strategy_text(const Plan *v)
{
  return g_strdup_printf("tp %d%s dp %d zero %d recompute %s", v->tp, v->sequence_parallel ? "+sp" : "", v->dp, v->zero,
                         recompute_names[v->recompute]);
}

/* "12 x tp 4 ..., 4 x ...": layers in a row that share a strategy. */
static char *runs_text(const LayerwiseProblem *p, const int *choice, const GArray *variants)
{
  GString *s = g_string_new(NULL);

  for (int i = 0, next; i < p->layers; i = next) {
    for (next = i + 1; next < p->layers && choice[next] == choice[i]; next++)
      ;
    g_autofree char *strategy = strategy_text(&g_array_index(variants, Plan, choice[i]));
    g_string_append_printf(s, "%s%d x %s", i ? ", " : "", next - i, strategy);
  }
  return g_string_free(s, FALSE);
}

static void add_stage(Pipeline *pipeline, int stage, const LayerwiseProblem *p, const GArray *variants,
                      const int *choice)
{
  int micro = plan_micro_batches(&g_array_index(variants, Plan, 0));

  pipeline->times[stage] = layerwise_stage_time(p, choice, micro);
  pipeline->bytes = MAX(pipeline->bytes, layerwise_stage_bytes(p, variants, choice));
}

/* What the simulated plan needs beyond the sums over its layers, which only one stage tells. */
static double missing_bytes(const Result *r, const LayerwiseProblem *p, const GArray *variants, const int *own)
{
  return r->layout.pipeline.cut.stages > 1
             ? 0
             : MAX(0, r->metrics.peak_memory_bytes - layerwise_stage_bytes(p, variants, own));
}

static void try_stage(Layerwise *l, int stage)
{
  const Result *r = l->result;
  g_autoptr(GArray) variants = g_array_new(FALSE, FALSE, sizeof(Plan));
  g_autoptr(LayerwiseProblem) p = layerwise_of_stage(r->model, r->cluster, r->plan, stage, variants, l->stop);
  g_autofree int *choice = g_new0(int, MAX(p->layers, 1));
  double uniform = layerwise_seconds(p, choice), needs = layerwise_bytes(p, choice), seconds = uniform;

  add_stage(&l->own, stage, p, variants, choice);
  p->room -= missing_bytes(r, p, variants, choice);
  if (!layerwise_solve_stage(p, variants, choice, &seconds) || seconds > uniform) {
    memset(choice, 0, p->layers * sizeof *choice);
    seconds = uniform;
  }
  for (int i = 0; i < p->layers; i++)
    l->differs |= choice[i] != 0;
  add_stage(&l->best, stage, p, variants, choice);
  l->holds &= layerwise_append(p, choice, variants, &l->strategies);
  table_add(l->table, "%d", stage);
  table_take(l->table, format_seconds(uniform));
  table_take(l->table, format_seconds(seconds));
  table_take(l->table, format_bytes(needs));
  table_take(l->table, format_bytes(layerwise_bytes(p, choice)));
  table_take(l->table, format_bytes(p->room));
  table_take(l->table, runs_text(p, choice, variants));
}

static void add_row(Table *t, const char *name, double estimate_s, double estimate_bytes, const Result *simulated)
{
  double off = 100 * (estimate_s / simulated->metrics.iteration_s - 1);
  double off_bytes = 100 * (estimate_bytes / simulated->metrics.peak_memory_bytes - 1);

  table_add(t, "%s", name);
  table_take(t, format_seconds(estimate_s));
  table_take(t, format_seconds(simulated->metrics.iteration_s));
  table_add(t, "%+.1f %%", off);
  table_take(t, format_bytes(estimate_bytes));
  table_take(t, format_bytes(simulated->metrics.peak_memory_bytes));
  table_add(t, "%+.1f %%", off_bytes);
}

/* The plan with the strategies that were found, simulated beside the given one. */
static char *simulate_both(const Layerwise *l, double step_s, Plan *better)
{
  const Result *r = l->result;
  g_autoptr(Table) t = table_new("<layers|step: estimate|simulated|off|memory: estimate|simulated|off");
  g_autoptr(GError) error = NULL;
  Plan plan = *r->plan;

  plan.strategies = l->strategies;
  if (plan_check(&plan, r->model, r->cluster, &error) != RULE_NONE)
    return g_strdup_printf("Not simulated: %s\n", error->message);
  g_autoptr(Trace) trace = simulate_plan(r->model, r->cluster, &plan);
  Result layered = result_of(r->model, r->cluster, &plan, trace);
  add_row(t, "alike", layerwise_step_s(&r->layout, l->own.times), l->own.bytes, r);
  add_row(t, "each its own", layerwise_step_s(&layered.layout, l->best.times), l->best.bytes, &layered);
  g_autofree char *rows = table_text(t, 2);
  if (layered.fits && layered.metrics.iteration_s < step_s)
    *better = plan;
  return g_strdup_printf("The whole step\n%sSimulated, strategies by layer take %.1f %% %s%s.\n", rows,
                         100 * fabs(1 - layered.metrics.iteration_s / r->metrics.iteration_s),
                         layered.metrics.iteration_s < r->metrics.iteration_s ? "less" : "more",
                         layered.fits ? "" : ", and do not fit");
}

static char *outcome(const Layerwise *l, double step_s, Plan *better)
{
  const Framework *framework = l->result->layout.passes.framework;

  if (!framework->strategies)
    return g_strdup_printf("%s runs one strategy for all layers: --framework galvatron simulates such plans.\n",
                           framework->name);
  if (!l->differs)
    return g_strdup("No layer is faster with another strategy in the memory there is: nothing to simulate.\n");
  if (!l->holds)
    return g_strdup_printf("Not simulated: more than the %d runs of layers that a plan can hold.\n", STRATEGY_RUNS_MAX);
  return simulate_both(l, step_s, better);
}

char *explain_layerwise(const Result *r, double step_s, Stop *stop, Plan *better)
{
  g_autoptr(Table) table = table_new("stage|own|best|own needs|best needs|of|<strategies of its blocks");
  const Schedule *schedule = r->layout.pipeline.schedule;
  int stages = r->layout.pipeline.cut.stages;
  g_autofree StageTime *own = g_new(StageTime, stages), *best = g_new(StageTime, stages);
  Layerwise l = { .result = r, .table = table, .own = { own, 0 }, .best = { best, 0 }, .holds = TRUE, .stop = stop };

  if (r->plan->pipeline_inner)
    return g_strdup("Strategies by layer: not of plans with use_tp_pp_dp_mapping.\n");
  if (r->layout.passes.experts_apart || schedule_copies(schedule) > 1 || schedule->vocabulary)
    return g_strdup("Strategies by layer: not of plans with experts apart, two copies of the model "
                    "or a spread vocabulary.\n");
  for (int stage = 0; stage < stages && !stop_asked(stop); stage++)
    try_stage(&l, stage);
  if (stop_heard(stop))
    return g_strdup("Strategies by layer: stopped before all stages had theirs.\n");
  double before = layerwise_step_s(&r->layout, own), after = layerwise_step_s(&r->layout, best);
  g_autofree char *rows = table_text(table, 2), *from = format_seconds(before), *to = format_seconds(after);
  g_autofree char *says = outcome(&l, step_s, better);
  return g_strdup_printf("Strategies by layer: the blocks of each stage, by sums over the layers\n%s"
                         "The step would take %s instead of %s, %.1f %% less, by these sums.\n%s",
                         rows, to, from, before > 0 ? 100 * (1 - after / before) : 0, says);
}
