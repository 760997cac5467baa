/* Plans whose file asks for the best split of their layers. */
#ifndef TDP_SEARCH_BALANCED_H
#define TDP_SEARCH_BALANCED_H

#include "plan/plan.h"

/* Fills in the split of a plan whose file asks for the best one, balance_by_room(), and does nothing to others. If no
 * split fits, memory is ignored: the simulation says then what is missing. TDP_ERROR_INPUT if the framework can run no
 * split at all. */
gboolean balance_plan(const Model *model, const Cluster *cluster, Plan *plan, GError **error);

#endif
