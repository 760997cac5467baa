/*
 * Which rank does what: ranks count tensor coordinates fastest, then context,
 * then data, pipeline slowest (Megatron's default order tp-cp-ep-dp-pp), and a
 * cluster's devices are numbered so that neighbours share a node.
 */
#ifndef TDP_PLAN_MESH_H
#define TDP_PLAN_MESH_H

#include "hardware/group.h"
#include "plan/plan.h"

typedef enum { AXIS_TENSOR, AXIS_CONTEXT, AXIS_DATA, AXIS_PIPELINE, AXIS_COUNT } Axis;

int mesh_size(const Plan *plan, Axis axis);
int mesh_stride(const Plan *plan, Axis axis);
int mesh_rank(const Plan *plan, const int coordinates[AXIS_COUNT]);
void mesh_coordinates(const Plan *plan, int rank, int coordinates[AXIS_COUNT]);

/* Shape of the groups along an axis. */
GroupShape mesh_group(const Plan *plan, const Cluster *cluster, Axis axis);

/* Shape of the groups of ranks that hold the same weights: context and data together. */
GroupShape mesh_replicas(const Plan *plan, const Cluster *cluster);

/* Of these, the groups over which ZeRO divides (neighbours), and those that hold the same part. */
GroupShape mesh_shards(const Plan *plan, const Cluster *cluster);
GroupShape mesh_shard_copies(const Plan *plan, const Cluster *cluster);

/* Of the former, those that share a second copy of weights for backwards; one rank if none do. */
GroupShape mesh_secondary(const Plan *plan, const Cluster *cluster);

/* Shape of the pairs that two pipeline ranks form: apart wherever at least one
 * of their pairs is apart. */
GroupShape mesh_pair(const Plan *plan, const Cluster *cluster, int from, int to);

#endif
