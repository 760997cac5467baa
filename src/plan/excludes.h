/* Plans that a framework has no way to be told: its exclusions (feature.h) against a plan. */
#ifndef TDP_PLAN_EXCLUDES_H
#define TDP_PLAN_EXCLUDES_H

#include "plan/keys.h"

/* Whether the plan has all features of an exclusion. */
gboolean plan_has_all(const Plan *plan, const Model *model, const Cluster *cluster, const Exclusion *exclusion);

/* The exclusions of a framework, which need not be the plan's, that the plan has all features of: bit i is entry i. */
guint64 plan_excluded(const Plan *plan, const Model *model, const Cluster *cluster, const Framework *framework);

/* "zero_stage: 0 with tensor_model_parallel_size: 2", of a plan that has all of it; newly allocated. */
char *exclusion_text(const Plan *plan, const Model *model, const Cluster *cluster, const Exclusion *exclusion);

/* What stands for "expected" of such a plan where nothing else than degrees, the batch or the model would do. */
const char *exclusion_expected(const Exclusion *exclusion);

/* The key whose value makes a plan have the feature; KEY_OTHER where no one does. */
PlanKeyId feature_key(Feature feature);

/* The part of a plan that says whether it has the feature, with those before it. */
PlanPart feature_part(Feature feature);

/* By its name in a framework's file; FEATURE_COUNT if there is none. */
Feature feature_named(const char *name);

/* Takes the feature from a plan that has it; FALSE if nothing can: degrees and models stay, and stages of ZeRO, which
 * each framework has its own of. */
gboolean plan_drop(Plan *plan, Feature feature);

/* What stands for "expected" where devices lack the plan's format or what its recipe scales by, newly allocated; NULL if
 * they have both. */
char *plan_devices_expect(const Plan *plan, const Cluster *cluster);

/* Whether its framework and format can have the plan's blocks in 16 bits, whatever its degrees; the error is a rule's. */
gboolean plan_check_wide(const Plan *plan, const Model *model, const Cluster *cluster, GError **error);

/* Has a plan that is to be searched from take the kernel that its framework runs in its format on the cluster. */
void plan_settle_attention(Plan *plan, const Model *model, const Cluster *cluster);

#endif
