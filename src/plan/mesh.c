#include "plan/mesh.h"

int mesh_size(const Plan *plan, Axis axis)
{
  const int sizes[AXIS_COUNT] = { plan->tp, plan->cp, plan->dp, plan->pp };
  return sizes[axis];
}

int mesh_stride(const Plan *plan, Axis axis)
{
  int stride = 1;
  for (int a = 0; a < (int)axis; a++)
    stride *= mesh_size(plan, a);
  return stride;
}

int mesh_rank(const Plan *plan, const int coordinates[AXIS_COUNT])
{
  int rank = 0;
  for (int a = AXIS_COUNT - 1; a >= 0; a--)
    rank = rank * mesh_size(plan, a) + coordinates[a];
  return rank;
}

void mesh_coordinates(const Plan *plan, int rank, int coordinates[AXIS_COUNT])
{
  for (int a = 0; a < AXIS_COUNT; a++) {
    coordinates[a] = rank % mesh_size(plan, a);
    rank /= mesh_size(plan, a);
  }
}

GroupShape mesh_group(const Plan *plan, const Cluster *cluster, Axis axis)
{
  return group_shape(cluster, mesh_size(plan, axis), mesh_stride(plan, axis));
}

GroupShape mesh_replicas(const Plan *plan, const Cluster *cluster)
{
  return group_shape(cluster, plan_replicas(plan), mesh_stride(plan, AXIS_CONTEXT));
}

GroupShape mesh_shards(const Plan *plan, const Cluster *cluster)
{
  return group_shape(cluster, plan_shards(plan), mesh_stride(plan, AXIS_CONTEXT));
}

GroupShape mesh_shard_copies(const Plan *plan, const Cluster *cluster)
{
  return group_shape(cluster, plan_replicas(plan) / plan_shards(plan),
                     mesh_stride(plan, AXIS_CONTEXT) * plan_shards(plan));
}

GroupShape mesh_secondary(const Plan *plan, const Cluster *cluster)
{
  return group_shape(cluster, MAX(plan->sharding.secondary, 1), mesh_stride(plan, AXIS_CONTEXT));
}

GroupShape mesh_expert_secondary(const Plan *plan, const Cluster *cluster)
{
  return group_shape(cluster, MAX(plan_expert_secondary(plan), 1), mesh_expert_stride(plan, EXPERT_DATA));
}

int mesh_expert_size(const Plan *plan, ExpertAxis axis)
{
  const int sizes[EXPERT_AXIS_COUNT] = { plan_expert_tensor(plan), plan->ep, plan_expert_replicas(plan) };
  return sizes[axis];
}

int mesh_expert_stride(const Plan *plan, ExpertAxis axis)
{
  int stride = 1;
  for (int a = 0; a < (int)axis; a++)
    stride *= mesh_expert_size(plan, a);
  return stride;
}

void mesh_expert_coordinates(const Plan *plan, int rank, int coordinates[EXPERT_AXIS_COUNT])
{
  rank %= mesh_stride(plan, AXIS_PIPELINE);
  for (int a = 0; a < EXPERT_AXIS_COUNT; a++) {
    coordinates[a] = rank % mesh_expert_size(plan, a);
    rank /= mesh_expert_size(plan, a);
  }
}

GroupShape mesh_expert_group(const Plan *plan, const Cluster *cluster, ExpertAxis axis)
{
  return group_shape(cluster, mesh_expert_size(plan, axis), mesh_expert_stride(plan, axis));
}

GroupShape mesh_expert_block(const Plan *plan, const Cluster *cluster)
{
  return group_shape(cluster, mesh_expert_stride(plan, EXPERT_DATA), 1);
}

GroupShape mesh_expert_shards(const Plan *plan, const Cluster *cluster)
{
  return group_shape(cluster, plan_expert_shards(plan), mesh_expert_stride(plan, EXPERT_DATA));
}

GroupShape mesh_expert_shard_copies(const Plan *plan, const Cluster *cluster)
{
  return group_shape(cluster, plan_expert_replicas(plan) / plan_expert_shards(plan),
                     mesh_expert_stride(plan, EXPERT_DATA) * plan_expert_shards(plan));
}

/* Whether each rank of one stage shares a domain with its partner in the other. */
static gboolean stages_share(int stride, int from, int to, int domain)
{
  for (int i = 0; i < stride; i++)
    if ((from * (gint64)stride + i) / domain != (to * (gint64)stride + i) / domain)
      return FALSE;
  return TRUE;
}

GroupShape mesh_pair(const Plan *plan, const Cluster *cluster, int from, int to)
{
  int stride = mesh_stride(plan, AXIS_PIPELINE);
  GroupShape shape = { .size = 2 };

  for (int t = 0; t < cluster->n_tiers; t++)
    shape.per_domain[t] =
        t == cluster->n_tiers - 1 || stages_share(stride, from, to, cluster->tiers[t].devices) ? 2 : 1;
  return shape;
}

/* Index of the type that stands i-th along the pipeline. */
static int type_at(const Plan *plan, const Cluster *cluster, int i)
{
  if (!plan->types[0])
    return i;
  for (int type = 0; type < cluster->n_types; type++)
    if (g_str_equal(cluster->types[type]->name, plan->types[i]))
      return type;
  g_assert_not_reached();
}

/* The rank's type, and in `first` the first rank of that type. */
static int find_type(const Plan *plan, const Cluster *cluster, int rank, int *first)
{
  int stride = mesh_stride(plan, AXIS_PIPELINE), type = 0;

  *first = 0;
  for (int i = 0; i < cluster->n_types; i++) {
    type = type_at(plan, cluster, i);
    int ranks = cluster->types[type]->devices / stride;
    if (rank < *first + ranks)
      break;
    *first += ranks;
  }
  return type;
}

int mesh_node_type(const Plan *plan, const Cluster *cluster, int rank)
{
  int first;
  return cluster->n_types == 0 ? 0 : find_type(plan, cluster, rank, &first);
}

const Cluster *mesh_site(const Plan *plan, const Cluster *cluster, int rank)
{
  return cluster->n_types == 0 ? cluster : cluster->types[mesh_node_type(plan, cluster, rank)];
}

const Cluster *mesh_pair_site(const Plan *plan, const Cluster *cluster, int from, int to, GroupShape *shape)
{
  int first, type = cluster->n_types == 0 ? -1 : find_type(plan, cluster, from, &first);

  if (type >= 0 && type == mesh_node_type(plan, cluster, to)) {
    *shape = mesh_pair(plan, cluster->types[type], from - first, to - first);
    return cluster->types[type];
  }
  *shape = mesh_pair(plan, cluster, from, to);
  for (int t = 0; type >= 0 && t < cluster->n_tiers - 1; t++)
    shape->per_domain[t] = 1;
  return cluster;
}
