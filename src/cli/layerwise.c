#include "cli/layerwise.h"

#include "base/table.h"
#include "base/units.h"
#include "search/layerwise.h"

#include <string.h>

/* Sums over the stages. */
typedef struct {
  double sum, most;
} Pipeline;

static void add_stage(Pipeline *p, double seconds)
{
  p->sum += seconds;
  p->most = MAX(p->most, seconds);
}

/* Of the pipeline phase: a stage's seconds are those of all micro-batches. */
static double phase_s(const Pipeline *p, int micro)
{
  return ((micro - 1) * p->most + p->sum) / micro;
}

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

static void add_taken(Table *table, char *cell)
{
  table_add(table, "%s", cell);
  g_free(cell);
}

/* One stage's line; the pipelines of the plan's own choice and of the best one. */
static void try_stage(const Result *r, int stage, Table *table, Pipeline *own, Pipeline *best)
{
  g_autoptr(GArray) variants = g_array_new(FALSE, FALSE, sizeof(Plan));
  g_autoptr(LayerwiseProblem) p = layerwise_of_stage(r->model, r->cluster, &r->plan, stage, variants);
  g_autofree int *choice = g_new0(int, MAX(p->layers, 1));
  double uniform = layerwise_seconds(p, choice), needs = layerwise_bytes(p, choice), seconds = uniform;

  if (!layerwise_solve(p, choice, &seconds) || seconds > uniform) {
    memset(choice, 0, p->layers * sizeof *choice);
    seconds = uniform;
  }
  add_stage(own, uniform);
  add_stage(best, seconds);
  table_add(table, "%d", stage);
  add_taken(table, format_seconds(uniform));
  add_taken(table, format_seconds(seconds));
  add_taken(table, format_bytes(needs));
  add_taken(table, format_bytes(layerwise_bytes(p, choice)));
  add_taken(table, format_bytes(p->room));
  add_taken(table, runs_text(p, choice, variants));
}

char *explain_layerwise(const Result *r)
{
  g_autoptr(Table) table = table_new("stage|own|best|own needs|best needs|of|<strategies of its blocks");
  Pipeline own = { 0 }, best = { 0 };
  int stages = plan_stages(&r->plan), micro = plan_micro_batches(&r->plan);

  if (plan_experts_apart(&r->plan) || schedule_copies(r->plan.schedule) > 1 || r->plan.schedule->vocabulary)
    return g_strdup("Strategies by layer: not of plans with experts apart, two copies of the model "
                    "or a spread vocabulary.\n");
  for (int stage = 0; stage < stages; stage++)
    try_stage(r, stage, table, &own, &best);
  double before = phase_s(&own, micro), after = phase_s(&best, micro);
  g_autofree char *rows = table_text(table, 2), *from = format_seconds(before), *to = format_seconds(after);
  return g_strdup_printf("Strategies by layer (an estimate by sums over the layers, not simulated)\n%s"
                         "The blocks' part of the pipeline phase would take %s instead of %s, %.1f %% less.\n",
                         rows, to, from, before > 0 ? 100 * (1 - after / before) : 0);
}
