#include "plan/mesh.h"

int mesh_size(const Plan *plan, Axis axis)
{
  const int sizes[AXIS_COUNT] = { plan->tp, plan->cp, plan->dp, plan->pp };
  return sizes[axis];
}

gboolean mesh_is_inner(const Plan *plan)
{
  return plan->pipeline_inner && plan->pp > 1 && plan->dp > 1;
}

int mesh_stride(const Plan *plan, Axis axis)
{
  int context = plan->tp * plan->cp;
  const int strides[AXIS_COUNT] = { 1, plan->tp, mesh_is_inner(plan) ? context * plan->pp : context,
                                    mesh_is_inner(plan) ? context : context * plan->dp };
  return strides[axis];
}

int mesh_rank(const Plan *plan, const int coordinates[AXIS_COUNT])
{
  int rank = 0;
  for (int a = 0; a < AXIS_COUNT; a++)
    rank += coordinates[a] * mesh_stride(plan, a);
  return rank;
}

void mesh_coordinates(const Plan *plan, int rank, int coordinates[AXIS_COUNT])
{
  for (int a = 0; a < AXIS_COUNT; a++)
    coordinates[a] = rank / mesh_stride(plan, a) % mesh_size(plan, a);
}

int mesh_place(const Plan *plan, int rank)
{
  int context = plan->tp * plan->cp;

  if (!mesh_is_inner(plan))
    return rank % mesh_stride(plan, AXIS_PIPELINE);
  return rank % context + rank / mesh_stride(plan, AXIS_DATA) * context;
}

int mesh_rank_at(const Plan *plan, int stage, int place)
{
  int context = plan->tp * plan->cp;

  if (!mesh_is_inner(plan))
    return stage * mesh_stride(plan, AXIS_PIPELINE) + place;
  return place % context + stage * context + place / context * mesh_stride(plan, AXIS_DATA);
}

char *mesh_stage_text(const Plan *plan, int stage)
{
  int apart = mesh_is_inner(plan) ? mesh_stride(plan, AXIS_DATA) : 0, first = mesh_rank_at(plan, stage, 0);
  int last = first + mesh_stride(plan, apart ? AXIS_PIPELINE : AXIS_DATA) * (apart ? 1 : plan->dp) - 1;
  g_autofree char *each = apart ? g_strdup_printf(" of each %d", apart) : g_strdup("");

  return last > first ? g_strdup_printf("%d to %d%s", first, last, each) : g_strdup_printf("%d%s", first, each);
}

/* Shape of the groups of `size` places of a stage `stride` apart, beginning at multiples of their block. */
static GroupShape places_shape(const Plan *plan, const Cluster *cluster, int size, int stride)
{
  int context = plan->tp * plan->cp, apart = mesh_stride(plan, AXIS_DATA);

  if (!mesh_is_inner(plan) || size == 1 || context % ((gint64)size * stride) == 0)
    return group_shape(cluster, size, stride);
  if (stride % context == 0)
    return group_shape(cluster, size, stride / context * apart);
  g_assert(context % stride == 0 && size % (context / stride) == 0);
  return group_shape_nested(cluster, context / stride, stride, size / (context / stride), apart);
}

GroupShape mesh_group(const Plan *plan, const Cluster *cluster, Axis axis)
{
  return group_shape(cluster, mesh_size(plan, axis), mesh_stride(plan, axis));
}

GroupShape mesh_replicas(const Plan *plan, const Cluster *cluster)
{
  return places_shape(plan, cluster, plan_replicas(plan), plan->tp);
}

GroupShape mesh_shards(const Plan *plan, const Cluster *cluster)
{
  return places_shape(plan, cluster, plan_shards(plan), plan->tp);
}

GroupShape mesh_shard_copies(const Plan *plan, const Cluster *cluster)
{
  return places_shape(plan, cluster, plan_replicas(plan) / plan_shards(plan), plan->tp * plan_shards(plan));
}

GroupShape mesh_secondary(const Plan *plan, const Cluster *cluster)
{
  return places_shape(plan, cluster, MAX(plan->sharding.secondary, 1), plan->tp);
}

GroupShape mesh_expert_secondary(const Plan *plan, const Cluster *cluster)
{
  return places_shape(plan, cluster, MAX(plan_expert_secondary(plan), 1), mesh_expert_stride(plan, EXPERT_DATA));
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
  int place = mesh_place(plan, rank);

  for (int a = 0; a < EXPERT_AXIS_COUNT; a++) {
    coordinates[a] = place % mesh_expert_size(plan, a);
    place /= mesh_expert_size(plan, a);
  }
}

GroupShape mesh_expert_group(const Plan *plan, const Cluster *cluster, ExpertAxis axis)
{
  return places_shape(plan, cluster, mesh_expert_size(plan, axis), mesh_expert_stride(plan, axis));
}

GroupShape mesh_expert_block(const Plan *plan, const Cluster *cluster)
{
  return places_shape(plan, cluster, mesh_expert_stride(plan, EXPERT_DATA), 1);
}

GroupShape mesh_expert_shards(const Plan *plan, const Cluster *cluster)
{
  return places_shape(plan, cluster, plan_expert_shards(plan), mesh_expert_stride(plan, EXPERT_DATA));
}

GroupShape mesh_expert_shard_copies(const Plan *plan, const Cluster *cluster)
{
  return places_shape(plan, cluster, plan_expert_replicas(plan) / plan_expert_shards(plan),
                      mesh_expert_stride(plan, EXPERT_DATA) * plan_expert_shards(plan));
}

/* Whether each rank of one stage shares a domain with its partner in the other. */
static gboolean stages_share(const Plan *plan, int from, int to, int domain)
{
  int places = plan->tp * plan->cp * plan->dp;

  for (int place = 0; place < places; place++)
    if (mesh_rank_at(plan, from, place) / domain != mesh_rank_at(plan, to, place) / domain)
      return FALSE;
  return TRUE;
}

GroupShape mesh_pair(const Plan *plan, const Cluster *cluster, int from, int to)
{
  GroupShape shape = { .size = 2 };

  for (int t = 0; t < cluster->n_tiers; t++)
    shape.per_domain[t] =
        t == cluster->n_tiers - 1 || stages_share(plan, from, to, cluster->tiers[t].devices) ? 2 : 1;
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
