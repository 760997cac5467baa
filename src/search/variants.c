#include "search/variants.h"

Variants variants_of(PriceCache *prices, const Candidate *base, const Plan *plan)
{
  Variants v = { .base = *base, .plan = *plan, .settled = 1 };
  Plan without = v.plan;
  PassLayout passes, others;

  space_switch_off(&without, OVERLAP_TENSOR);
  pass_layout_init(&passes, &v.plan);
  pass_layout_init(&others, &without);
  v.tensor_slower = !v.plan.schedule->by_time && !v.plan.schedule->vocabulary &&
                    price_cache_never_less(prices, &others, &passes);
  return v;
}

void variant_known(Variants *v, guint off, const Simulation *simulated)
{
  v->known[off] = (VariantTimes) { simulated->metrics.iteration_s, simulated->slack_s, simulated->gradients_s,
                                   simulated->parameters_s };
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

/* What the time of a simulated variant says of one that has `more` overlaps off beside. */
static double bound_from(const VariantTimes *t, guint more)
{
  double gain = t->slack_s + (more & OVERLAP_GRADIENTS ? t->gradients_s : 0) +
                (more & OVERLAP_PARAMETERS ? t->parameters_s : 0);
  return (t->step_s - gain) * (1 - 1e-9);
}

double variant_bound(const Variants *v, guint off)
{
  double longest = v->order_s[off];

  for (guint less = 0; less < off; less++) {
    guint more = off & ~less;
    if ((less & ~off) || (more & OVERLAP_TENSOR && !v->tensor_slower))
      continue;
    if (v->simulated >> less & 1)
      longest = MAX(longest, bound_from(&v->known[less], more));
    if (!(more & (OVERLAP_GRADIENTS | OVERLAP_PARAMETERS)))
      longest = MAX(longest, v->order_s[less]);
  }
  return longest;
}
