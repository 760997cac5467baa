/* What the files of rules share; private to this folder. */
#ifndef TDP_PLAN_CHECK_H
#define TDP_PLAN_CHECK_H

#include "base/error.h"
#include "plan/plan.h"

typedef struct {
  const Plan *plan;
  const Model *model;
  const Cluster *cluster;
} Subject;

/* Sets the error, which may be NULL, and returns FALSE. */
#define broken(error, format, ...) input_error(error, "plan: " format, ##__VA_ARGS__)

/* Rules of check_sharding.c; the first of them: of choices from one to another, the framework runs those that are taken. */
gboolean check_engine(const Subject *subject, int from, int to, GError **error);
gboolean check_process(const Subject *subject, GError **error);
gboolean check_sharding(const Subject *subject, GError **error);
gboolean check_optimizer(const Subject *subject, GError **error); /* check_optimizer.c */
gboolean check_precision(const Subject *subject, GError **error); /* likewise; of the formats, then of blocks in 16 bits */
gboolean check_formats(const Subject *subject, GError **error);
gboolean check_wide(const Subject *subject, GError **error);
gboolean check_offload(const Subject *subject, GError **error);

/* What a rank's blocks that go to the host keep there in a micro-batch, bytes: about LayerWork.saved_bytes of the floor above. */
double plan_offloaded_bytes(const Plan *plan, const Model *model);
gboolean check_switches(const Subject *subject, GError **error); /* plan_pass_switches() */
gboolean check_activations(const Subject *subject, GError **error);

/* Of check_experts.c. */
gboolean check_experts(const Subject *subject, GError **error);
gboolean check_graph(const Subject *subject, GError **error);
gboolean check_expert_rows(const Subject *subject, GError **error);
gboolean check_exchange(const Subject *subject, GError **error); /* as Megatron Core's transformer_config.py has it */
gboolean check_expert_copies(const Subject *subject, GError **error);

/* Of check_adapter.c: of model, degrees and formats; of schedules; of passes; of states. */
gboolean check_adapter(const Subject *subject, GError **error);
gboolean check_adapter_schedule(const Subject *subject, GError **error);
gboolean check_adapter_passes(const Subject *subject, GError **error);
gboolean check_adapter_states(const Subject *subject, GError **error);

/* Of check_strategies.c. */
gboolean check_strategies(const Subject *subject, GError **error);

/* Rules of check_family.c. */
gboolean check_family(const Subject *subject, GError **error);
gboolean check_shared_weights(const Subject *subject, GError **error);
gboolean check_stacks(const Subject *subject, GError **error);
gboolean check_sparse(const Subject *subject, GError **error);
gboolean check_vocabulary(const Subject *subject, GError **error);
gboolean check_chunks(const Subject *subject, GError **error);
gboolean check_mtp(const Subject *subject, GError **error);

#endif
