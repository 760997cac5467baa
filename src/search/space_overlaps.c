/* Overlaps that a plan of the space may do without. */
#include "search/space.h"

guint space_switches(const Plan *p)
{
  return plan_overlaps(p) & overlap_bits(&p->overlap) & OVERLAP_SWITCHES;
}

void space_switch_off(Plan *plan, guint off)
{
  plan->overlap.gradients &= !(off & OVERLAP_GRADIENTS);
  plan->overlap.parameters &= !(off & OVERLAP_PARAMETERS);
  plan->overlap.pipeline &= !(off & OVERLAP_PIPELINE);
  plan->overlap.tensor &= !(off & OVERLAP_TENSOR);
}

gboolean space_without(const SearchOptions *options, PriceCache *prices, const Plan *plan, PassLayout *without)
{
  PassLayout with;

  if (options->fixed.value[KEY_OVERLAP] >= 0 || !(space_switches(plan) & OVERLAP_TENSOR))
    return FALSE;
  Plan other = *plan;
  space_switch_off(&other, OVERLAP_TENSOR);
  pass_layout_init(&with, plan);
  pass_layout_init(without, &other);
  PassLayout keeps = with, keeps_without = *without;
  if (plan->scope.modules) { /* they are made again before the backward's own ops, for as long */
    pass_layout_keep(&keeps);
    pass_layout_keep(&keeps_without);
  }
  return !price_cache_never_less(prices, &keeps_without, &keeps);
}

const PriceSums *space_sums_without(const SearchOptions *options, PriceCache *prices, const Plan *plan)
{
  PassLayout without;

  return space_without(options, prices, plan, &without) ? price_cache_sums(prices, &without) : NULL;
}
