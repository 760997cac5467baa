#include "search/variants.h"

Variants variants_of(PriceCache *prices, const Candidate *base, const Simulation *simulated)
{
  Variants v = { .base = *base, .plan = simulated->plan };
  Plan without = v.plan;

  space_switch_off(&without, OFF_TENSOR);
  v.tensor_slower = !v.plan.schedule->by_time && !v.plan.schedule->vocabulary &&
                    price_cache_never_less(prices, &without, &v.plan);
  variant_known(&v, 0, simulated);
  return v;
}

void variant_known(Variants *v, guint off, const Simulation *simulated)
{
  v->known[off] = *simulated;
  v->simulated |= 1u << off;
  v->settled |= 1u << off;
}

gboolean variant_settled(const Variants *v, guint off)
{
  return (off & ~v->base.switches) || v->settled >> off & 1;
}

gboolean variant_waits(const Variants *v, guint off)
{
  for (guint less = 0; less < off; less++)
    if (!(less & ~off) && !variant_settled(v, less))
      return TRUE;
  return FALSE;
}

gboolean variants_open(const Variants *v)
{
  for (guint off = 0; off <= v->base.switches; off++)
    if (!variant_settled(v, off))
      return TRUE;
  return FALSE;
}

gint64 variant_index(const Variants *v, guint off)
{
  int place = 0, bit = 0;

  for (guint which = 1; which < VARIANTS_MAX; which <<= 1)
    if (v->base.switches & which)
      place |= (off & which ? 1 : 0) << bit++;
  return v->base.index + place;
}

double variant_bound(const Variants *v, guint off)
{
  double longest = 0;

  for (guint less = 0; less < off; less++) {
    guint more = off & ~less;
    if ((less & ~off) || !(v->simulated >> less & 1) || (more & OFF_TENSOR && !v->tensor_slower))
      continue;
    const Simulation *s = &v->known[less];
    double gain = s->slack_s + (more & OFF_GRADIENTS ? s->gradients_s : 0) +
                  (more & OFF_PARAMETERS ? s->parameters_s : 0);
    longest = MAX(longest, (s->metrics.iteration_s - gain) * (1 - 1e-9));
  }
  return longest;
}
