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

/* A rule: FALSE and the error where the plan breaks it. */
typedef gboolean Rule(const Subject *subject, GError **error);

/* Of check_sharding.c: switches are those of plan_pass_switches(); of choices from one to another, the framework runs
 * those that are taken. */
Rule check_process, check_sharding, check_offload, check_switches, check_activations;
gboolean check_engine(const Subject *subject, int from, int to, GError **error);

/* What a rank's blocks that go to the host keep there in a micro-batch, bytes: about LayerWork.saved_bytes of the floor above. */
double plan_offloaded_bytes(const Plan *plan, const Model *model);

/* Of check_optimizer.c: precision is of the formats, then of blocks in 16 bits. */
Rule check_optimizer, check_precision, check_formats;

/* Of check_experts.c: exchanges are as Megatron Core's transformer_config.py has them. */
Rule check_experts, check_graph, check_expert_rows, check_exchange, check_expert_copies;

/* Of check_adapter.c: of model, degrees and formats; of schedules; of passes; of states. */
Rule check_adapter, check_adapter_schedule, check_adapter_passes, check_adapter_states;

/* Of check_strategies.c and check_family.c. */
Rule check_strategies, check_family, check_shared_weights, check_stacks, check_sparse, check_vocabulary, check_chunks,
    check_mtp;

#endif
