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

static double bytes_with(const Refine *r, const Plan *plan, int layers)
{
  Plan p = with_count(plan, layers);

  return least_bytes(r, &p);
}

/* The smallest count of which the memory bound fits; `most` + 1 if none does. Bytes fall nearly evenly with the count:
 * the next one looked at is where they would be the device's, and in the middle where two such have left more than half. */
static int least_count(const Refine *r, const Plan *plan, int most)
{
  const double device = r->cluster->device.memory_bytes;
  int low = 1, high = most; /* the first does not fit, the last does */
  double low_bytes, high_bytes;

  if (most < 1 || (high_bytes = bytes_with(r, plan, high)) > device)
    return most + 1;
  if (most == 1 || (low_bytes = bytes_with(r, plan, low)) <= device)
    return 1;
  for (int step = 0, before = high - low; high - low > 1 && !stop_asked(r->stop); step++) {
    double part = (low_bytes - device) / (low_bytes - high_bytes);
    int n = low + (int)ceil(part * (high - low));
    if (step % 2 == 0 && step > 0) {
      n = high - low > before / 2 ? (low + high) / 2 : n;
      before = high - low;
    }
    n = CLAMP(n, low + 1, high - 1);
    double bytes = bytes_with(r, plan, n);
    if (bytes <= device) {
      high = n;
      high_bytes = bytes;
    } else {
      low = n;
      low_bytes = bytes;
    }
  }
  return high;
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

/* Whether a layer more that is made again may take less time: where it brings passes back into a cache. */
static gboolean caches_gain(const Cluster *c)
{
  gboolean gain = FALSE;

  for (int type = 0; type < cluster_types(c); type++)
    gain |= cluster_type(c, type)->device.beyond_l2_bytes_per_s > 0;
  return gain;
}

/* The plan with so many; FALSE if its bound is no less than that, or on a stop. */
static gboolean try_count(const Refine *r, const Plan *plan, int n, double step_s, Found *out)
{
  Simulation simulation = { .plan = with_count(plan, n) };
  double bound_s = bound_s_of(r, &simulation.plan);

  if (bound_s >= step_s || stop_asked(r->stop))
    return FALSE;
  g_autoptr(PriceTable) prices = price_cache_own(r->prices, &simulation.plan);
  simulation_complete(r->model, r->cluster, prices, &simulation);
  *out = (Found) { .plan = simulation.plan, .metrics = simulation.metrics, .bound_s = bound_s };
  return TRUE;
}

gboolean refine_recompute(const Refine *r, const Plan *plan, Found *out)
{
  int most = largest_stage(plan, r->model);
  double best_s = r->step_s;
  Found found;

  if (!may_count(r, plan))
    return FALSE;
  /* bounds know of no cache: they rise with the count */
  for (int n = least_count(r, plan, most - 1), tries = 0; n < most && tries < COUNT_TRIES;) {
    if (!try_count(r, plan, n, best_s, &found))
      break;
    double lacking_bytes = found.metrics.peak_memory_bytes - found.metrics.capacity_bytes;
    if (lacking_bytes > 0) {
      tries++;
      n += more_layers(r, plan, n, most, lacking_bytes);
      continue;
    }
    if (found.metrics.iteration_s < best_s) {
      *out = found;
      best_s = found.metrics.iteration_s;
    }
    n = caches_gain(r->cluster) ? n + 1 : most;
  }
  return best_s < r->step_s;
}
