/* Plans that a framework has no way to be told: its exclusions (feature.h) against a plan. */
#ifndef TDP_PLAN_EXCLUDES_H
#define TDP_PLAN_EXCLUDES_H

#include "plan/plan.h"

/* Whether the plan has all features of an exclusion. */
gboolean plan_has_all(const Plan *plan, const Model *model, const Cluster *cluster, const Exclusion *exclusion);

/* The exclusions of a framework, which need not be the plan's, that the plan has all features of: bit i is entry i. */
guint64 plan_excluded(const Plan *plan, const Model *model, const Cluster *cluster, const Framework *framework);

/* "zero_0 with tensor", newly allocated. */
char *exclusion_text(const Exclusion *exclusion);

/* Takes the feature from a plan that has it; FALSE if nothing can: degrees and models stay. */
gboolean plan_drop(Plan *plan, Feature feature);

#endif
