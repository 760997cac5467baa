/*
 * Which rank does what: ranks count tensor coordinates fastest, then context,
 * then data, pipeline slowest (Megatron's default order tp-cp-ep-dp-pp), and a
 * cluster's devices are numbered so that neighbours share a node. With
 * Plan.pipeline_inner the pipeline comes before data (Megatron's order
 * tp-cp-ep-pp-dp, use_tp_pp_dp_mapping): stages stand closer together, and data
 * parallel ranks further apart.
 *
 * A place numbers the ranks of one stage, tensor coordinates fastest, then context,
 * then data, in either order. Ranks that hold the same weights are tensor x
 * context places apart where context is passed, so over context and data they
 * lie in two steps with the pipeline between (group_shape_nested).
 *
 * Experts divide the ranks of a pipeline stage on a grid of their own (folding,
 * Liu et al. 2025, arXiv 2504.14960): coordinates within an expert's matrices
 * fastest, then which experts, then copies of these (Megatron Core's order for
 * experts, etp-ep-edp-pp). The place r of a stage holds experts
 * [i E/ep, (i+1) E/ep) with i = r / etp % ep. With pipeline_inner both grids have
 * as many copies (plan_check), etp x ep = tp x cp.
 */
#ifndef TDP_PLAN_MESH_H
#define TDP_PLAN_MESH_H

#include "hardware/group.h"
#include "plan/plan.h"

typedef enum { AXIS_TENSOR, AXIS_CONTEXT, AXIS_DATA, AXIS_PIPELINE, AXIS_COUNT, AXIS_EXPERT = AXIS_COUNT } Axis;
/* AXIS_EXPERT is none of the grid: it names communication on the experts' own. */

typedef enum { EXPERT_TENSOR, EXPERT_PARALLEL, EXPERT_DATA, EXPERT_AXIS_COUNT } ExpertAxis;

int mesh_size(const Plan *plan, Axis axis);
int mesh_stride(const Plan *plan, Axis axis);
int mesh_rank(const Plan *plan, const int coordinates[AXIS_COUNT]);
void mesh_coordinates(const Plan *plan, int rank, int coordinates[AXIS_COUNT]);

/* A rank's place in its pipeline stage, and the rank at a place of a stage. */
int mesh_place(const Plan *plan, int rank);
int mesh_rank_at(const Plan *plan, int stage, int place);

/* Ranks of a stage, "4 to 7 of each 16" where the pipeline stands between them. Newly allocated. */
char *mesh_stage_text(const Plan *plan, int stage);

/* Whether the pipeline comes before data, and both are there. */
gboolean mesh_is_inner(const Plan *plan);

/* Shape of the groups along an axis. */
GroupShape mesh_group(const Plan *plan, const Cluster *cluster, Axis axis);

/* Shape of the groups of ranks that hold the same weights: context and data together. */
GroupShape mesh_replicas(const Plan *plan, const Cluster *cluster);

/* Of these, the groups over which ZeRO divides (neighbours), and those that hold the same part. */
GroupShape mesh_shards(const Plan *plan, const Cluster *cluster);
GroupShape mesh_shard_copies(const Plan *plan, const Cluster *cluster);

/* Of the former, those that share a second copy of weights for backwards; one rank if none do. */
GroupShape mesh_secondary(const Plan *plan, const Cluster *cluster);

/* Of ranks that hold the same experts, those among these neighbours. */
GroupShape mesh_expert_secondary(const Plan *plan, const Cluster *cluster);

/* The experts' grid within a pipeline stage; strides count places. */
int mesh_expert_size(const Plan *plan, ExpertAxis axis);
int mesh_expert_stride(const Plan *plan, ExpertAxis axis);
void mesh_expert_coordinates(const Plan *plan, int rank, int coordinates[EXPERT_AXIS_COUNT]);
GroupShape mesh_expert_group(const Plan *plan, const Cluster *cluster, ExpertAxis axis);

/* Of ranks that hold one copy of all experts of a layer: neighbours. */
GroupShape mesh_expert_block(const Plan *plan, const Cluster *cluster);

/* Of ranks that hold the same experts, those over which ZeRO divides, and those with the same part. */
GroupShape mesh_expert_shards(const Plan *plan, const Cluster *cluster);
GroupShape mesh_expert_shard_copies(const Plan *plan, const Cluster *cluster);

/* Shape of the pairs that two pipeline ranks form: apart wherever at least one
 * of their pairs is apart. */
GroupShape mesh_pair(const Plan *plan, const Cluster *cluster, int from, int to);

/*
 * Mixed clusters: pipeline ranks of one node type stand side by side, in the
 * plan's order of the types, and each lies on alike devices (plan_check). The
 * type of a rank, and the cluster that prices what happens on it: the cluster
 * itself where nodes are alike.
 */
int mesh_node_type(const Plan *plan, const Cluster *cluster, int pipeline_rank);
const Cluster *mesh_site(const Plan *plan, const Cluster *cluster, int pipeline_rank);

/* What prices transfers between two pipeline ranks, and the shape of their pairs on it. */
const Cluster *mesh_pair_site(const Plan *plan, const Cluster *cluster, int from, int to, GroupShape *shape);

#endif
