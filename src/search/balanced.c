#include "search/balanced.h"

#include "base/error.h"
#include "program/balance.h"

gboolean balance_plan(const Model *model, const Cluster *cluster, Plan *plan, GError **error)
{
  Plan whole = *plan; /* a count of recomputed layers asks for the split */

  if (!plan->balanced)
    return TRUE;
  PlanRule rule = plan_check(plan, model, cluster, NULL);
  if (rule != RULE_NONE && rule != RULE_LAYERS)
    return plan_check(plan, model, cluster, error) == RULE_NONE;
  whole.scope = (RecomputeScope) { .modules = plan->scope.modules };
  const Layout layout = layout_of(plan), counted = layout_of(&whole);
  g_autoptr(PriceTable) prices = price_table_new(model, &counted, cluster);
  if (balance_by_room(model, cluster, &layout, prices, &plan->split))
    return TRUE;
  return input_error(error, "plan: layer_split: \"balanced\": expected %d layers that %s can split into %d stages",
                     model->blocks, plan->framework->name, plan_stages(plan));
}
