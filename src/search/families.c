/* Variants of what was simulated: their bounds, and which of them are to be simulated too. */
#include "search/bound.h"
#include "search/search_parts.h"

#include <math.h>

/* Bounds of a variant, the one by order if need be, or if stopped what is known; whether they promise something. */
static gboolean variant_bounded(Search *s, Variants *v, guint off, const Plan *plan, gboolean stopped, double *value,
                                double *known_s)
{
  const Layout layout = layout_of(plan);
  const PriceSums *sums = stopped ? NULL : price_cache_sums(s->prices, &layout.passes);
  double bound = sums ? bound_time(s->model, &layout, s->cluster, sums, NULL) : 0, memory = v->base.memory_bytes;

  *known_s = bound = MAX(bound, v->base.bound_s);
  for (int closer = 0;; closer++) {
    bound = fmax(bound, variant_bound(v, off));
    *value = search_value(s, s->objective, &layout, bound, memory);
    if (!search_variant_promises(s, *value, search_second(s, &layout, bound, memory)))
      return FALSE;
    if (closer || v->order_s[off] > 0 || stopped)
      return TRUE;
    v->order_s[off] = search_order_s(s, plan, &layout, sums);
    *known_s = MAX(*known_s, v->order_s[off]);
  }
}

/* Settles the variant if its bounds allow, returning FALSE. */
static gboolean variant_open(Search *s, Variants *v, guint off, gboolean stopped, Plan *plan)
{
  double value, bound_s;

  *plan = v->plan;
  space_switch_off(plan, off);
  gboolean promising = variant_bounded(s, v, off, plan, stopped, &value, &bound_s);
  if (promising && !stopped)
    return TRUE;
  search_skip(s, plan, value, promising, 1);
  search_note(s, &v->base, bound_s);
  v->settled |= 1u << off;
  return FALSE;
}

int search_pick_variants(Search *s, gboolean stopped, guint *which, guint *offs, Simulation *simulations)
{
  int n = 0;

  for (guint i = 0; i < s->families->len; i++) {
    Variants *v = &g_array_index(s->families, Variants, i);
    for (guint off = 1; off <= v->base.switches && n < ROUND; off++) {
      Plan plan;
      if (!stopped && search_stops(s))
        return n;
      if (variant_settled(v, off) || !variant_open(s, v, off, stopped, &plan) || variant_waits(v, off))
        continue;
      simulations[n] = (Simulation) { .plan = plan, .index = variant_index(v, off) };
      which[n] = i;
      offs[n++] = off;
    }
  }
  return n;
}
