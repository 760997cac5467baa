/* What the file of a framework excludes (plan/feature.h), in a space: no plan with it, unless each of its features is
 * fixed, which says that the plan is wanted all the same. */
#ifndef TDP_SEARCH_EXCLUDED_H
#define TDP_SEARCH_EXCLUDED_H

#include "plan/excludes.h"
#include "plan/plan.h"
#include "search/search.h"

/* The exclusions all features of which are fixed: bit i is entry i of the framework's. */
guint64 excluded_asked(const SearchOptions *options);

/* plan_check_part(), and RULE_FRAMEWORK for exclusions of that part other than those asked for. */
PlanRule excluded_check_part(const Plan *plan, const Model *model, const Cluster *cluster, PlanPart part,
                             guint64 asked);

/* Whether the plan's passes have their part of an exclusion of passes with states: its states are not turned down
 * whatever its passes are. */
gboolean excluded_reads_passes(const Plan *plan, const Model *model, const Cluster *cluster);

/* Ranks that ZeRO divides over at most: 0 = all that hold the same weights, or the most of them in equal groups whose
 * parts the plan's framework can make and place; 0 where no group is such. */
int excluded_shards(const Plan *plan, const Model *model, const Cluster *cluster);

/* Whether a change of a plan made it one that is excluded. */
static inline gboolean excluded_newly(const Plan *plan, const Plan *before, const Model *model, const Cluster *cluster)
{
  return plan_excluded(plan, model, cluster, plan->framework) &
         ~plan_excluded(before, model, cluster, before->framework);
}

#endif
