#include "search/recompute_counts.h"

#include "plan/plan.h"
#include "search/excluded.h"
#include "search/rounds.h"

#include <math.h>

static int largest_stage(const Plan *plan, const Model *model)
{
  const Layout layout = layout_of(plan);
  const StageCut *cut = &layout.pipeline.cut;
  int most = 0;

  for (int stage = 0; stage < cut->stages; stage++) {
    StageBlocks blocks = stage_blocks(cut, model, stage);
    most = MAX(most, blocks.end - blocks.first);
  }
  return MIN(most, SPLIT_LAYERS_MAX);
}

static Plan with_count(const Plan *plan, int layers)
{
  Plan p = *plan;

  p.recompute = RECOMPUTE_FULL;
  p.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .layers = layers };
  return p;
}

static double least_bytes(const Refine *r, const Plan *plan)
{
  const Layout layout = layout_of(plan);

  return bound_memory_by_order(r->model, &layout, price_cache_sums(r->prices, &layout.passes));
}

static gboolean may_fit(const Refine *r, const Plan *plan)
{
  return least_bytes(r, plan) <= r->cluster->device.memory_bytes;
}

/* The smallest count of which the memory bound fits; `most` + 1 if none does. */
static int least_count(const Refine *r, const Plan *plan, int most)
{
  int low = 1, high = most + 1;

  while (low < high && !stop_asked(r->stop)) {
    int middle = (low + high) / 2;
    Plan p = with_count(plan, middle);
    if (may_fit(r, &p))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static double bound_s_of(const Refine *r, const Plan *plan)
{
  const Layout layout = layout_of(plan);

  return bound_time(r->model, &layout, r->cluster, price_cache_sums(r->prices, &layout.passes), NULL);
}

static gboolean may_count(const Refine *r, const Plan *plan)
{
  Plan one = with_count(plan, 1);

  return plan_check(&one, r->model, r->cluster, NULL) == RULE_NONE && !excluded_newly(&one, plan, r->model, r->cluster);
}

double refine_bound_s(const Refine *r, const Plan *plan)
{
  int most = largest_stage(plan, r->model);

  if (!may_count(r, plan) || bound_s_of(r, plan) >= r->step_s)
    return INFINITY;
  int least = least_count(r, plan, most - 1);
  Plan p = with_count(plan, least);
  return least < most ? bound_s_of(r, &p) : INFINITY;
}

/* Bounds of memory miss what transfers hold: more layers are tried, as many at once as free what was lacking. */
#define COUNT_TRIES 4

static int more_layers(const Refine *r, const Plan *plan, int n, int most, double lacking_bytes)
{
  Plan some = with_count(plan, n), all = with_count(plan, most);
  double each = (least_bytes(r, &some) - least_bytes(r, &all)) / (most - n);

  return each > 0 ? (int)fmin(fmax(1, floor(lacking_bytes / each)), most - n) : 1;
}

gboolean refine_recompute(const Refine *r, const Plan *plan, Found *out)
{
  int most = largest_stage(plan, r->model);

  if (!may_count(r, plan))
    return FALSE;
  for (int n = least_count(r, plan, most - 1), tries = 0; n < most && tries < COUNT_TRIES; tries++) {
    Plan p = with_count(plan, n);
    double bound_s = bound_s_of(r, &p);
    if (bound_s >= r->step_s || stop_asked(r->stop))
      return FALSE;
    Simulation simulation = { .plan = p };
    g_autoptr(PriceTable) prices = price_cache_own(r->prices, &p);
    simulation_complete(r->model, r->cluster, prices, &simulation);
    *out = (Found) { .plan = p, .metrics = simulation.metrics, .bound_s = bound_s };
    if (out->metrics.peak_memory_bytes <= out->metrics.capacity_bytes)
      return out->metrics.iteration_s < r->step_s;
    n += more_layers(r, plan, n, most, out->metrics.peak_memory_bytes - out->metrics.capacity_bytes);
  }
  return FALSE;
}
