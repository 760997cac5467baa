#include "layout/mesh.h"

#include "plan/plan.h"

#include <string.h>

Mesh mesh_of(const Plan *p)
{
  int block = p->tp * p->cp, places = block * p->dp, etp = plan_expert_tensor(p), experts = etp * p->ep;
  gboolean inner = plan_pipeline_inside(p);
  Mesh m = {
    .ranks = places * p->pp,
    .dense = { { p->tp, 1 }, { p->cp, p->tp }, { p->dp, inner ? block * p->pp : block },
               { p->pp, plan_pipeline_stride(p) } },
    .experts = { { etp, 1 }, { p->ep, etp }, { plan_expert_replicas(p), experts } },
    .places = places, .block = block, .inner = inner,
  };

  memcpy(m.types, p->types, sizeof m.types);
  return m;
}

int mesh_rank(const Mesh *m, const int coordinates[AXIS_COUNT])
{
  int rank = 0;
  for (int a = 0; a < AXIS_COUNT; a++)
    rank += coordinates[a] * m->dense[a].stride;
  return rank;
}

void mesh_coordinates(const Mesh *m, int rank, int coordinates[AXIS_COUNT])
{
  for (int a = 0; a < AXIS_COUNT; a++)
    coordinates[a] = rank / m->dense[a].stride % m->dense[a].size;
}

int mesh_place(const Mesh *m, int rank)
{
  if (!m->inner)
    return rank % m->places;
  return rank % m->block + rank / m->dense[AXIS_DATA].stride * m->block;
}

int mesh_rank_at(const Mesh *m, int stage, int place)
{
  if (!m->inner)
    return stage * m->places + place;
  return place % m->block + stage * m->block + place / m->block * m->dense[AXIS_DATA].stride;
}

char *mesh_stage_text(const Mesh *m, int stage)
{
  int apart = m->inner ? m->dense[AXIS_DATA].stride : 0, first = mesh_rank_at(m, stage, 0);
  int last = first + (apart ? m->block : m->places) - 1;
  g_autofree char *each = apart ? g_strdup_printf(" of each %d", apart) : g_strdup("");

  return last > first ? g_strdup_printf("%d to %d%s", first, last, each) : g_strdup_printf("%d%s", first, each);
}

GroupShape mesh_places(const Mesh *m, const Cluster *cluster, int size, int stride)
{
  int apart = m->dense[AXIS_DATA].stride, inside = m->block / stride;

  if (!m->inner || size == 1 || m->block % ((gint64)size * stride) == 0)
    return group_shape(cluster, size, stride);
  if (stride % m->block == 0)
    return group_shape(cluster, size, stride / m->block * apart);
  g_assert(m->block % stride == 0 && size % inside == 0);
  return group_shape_nested(cluster, inside, stride, size / inside, apart);
}

GroupShape mesh_group(const Mesh *m, const Cluster *cluster, Axis axis)
{
  return group_shape(cluster, m->dense[axis].size, m->dense[axis].stride);
}

void mesh_expert_coordinates(const Mesh *m, int rank, int coordinates[EXPERT_AXIS_COUNT])
{
  int place = mesh_place(m, rank);

  for (int a = 0; a < EXPERT_AXIS_COUNT; a++)
    coordinates[a] = place / m->experts[a].stride % m->experts[a].size;
}

/* Whether each rank of one stage shares a domain with its partner in the other. */
static gboolean stages_share(const Mesh *mesh, int from, int to, int domain)
{
  for (int place = 0; place < mesh->places; place++)
    if (mesh_rank_at(mesh, from, place) / domain != mesh_rank_at(mesh, to, place) / domain)
      return FALSE;
  return TRUE;
}

GroupShape mesh_pair(const Mesh *mesh, const Cluster *cluster, int from, int to)
{
  GroupShape shape = { .size = 2 };

  for (int t = 0; t < cluster->n_tiers; t++)
    shape.per_domain[t] =
        t == cluster->n_tiers - 1 || stages_share(mesh, from, to, cluster->tiers[t].devices) ? 2 : 1;
  return shape;
}

/* Index of the type that stands i-th along the pipeline. */
static int type_at(const Mesh *mesh, const Cluster *cluster, int i)
{
  if (!mesh->types[0])
    return i;
  for (int type = 0; type < cluster->n_types; type++)
    if (g_str_equal(cluster->types[type]->name, mesh->types[i]))
      return type;
  g_assert_not_reached();
}

/* The rank's type, and in `first` the first rank of that type. */
static int find_type(const Mesh *mesh, const Cluster *cluster, int rank, int *first)
{
  int stride = mesh->dense[AXIS_PIPELINE].stride, type = 0;

  *first = 0;
  for (int i = 0; i < cluster->n_types; i++) {
    type = type_at(mesh, cluster, i);
    int ranks = cluster->types[type]->devices / stride;
    if (rank < *first + ranks)
      break;
    *first += ranks;
  }
  return type;
}

int mesh_node_type(const Mesh *mesh, const Cluster *cluster, int rank)
{
  int first;
  return cluster->n_types == 0 ? 0 : find_type(mesh, cluster, rank, &first);
}

const Cluster *mesh_site(const Mesh *mesh, const Cluster *cluster, int rank)
{
  return cluster->n_types == 0 ? cluster : cluster->types[mesh_node_type(mesh, cluster, rank)];
}

/* Of the node with that number, in what one of its ranks needs; ranks of pipeline rank `first` are the first. */
static double needs_of_node(const Mesh *mesh, int node, int size, int first, const double *needs, double own)
{
  const MeshAxis *pipeline = &mesh->dense[AXIS_PIPELINE];
  double sum = 0;

  for (int rank = node * size; rank < (node + 1) * size && rank < mesh->ranks; rank++) {
    int at = first + rank / pipeline->stride % pipeline->size;
    sum += at < pipeline->size ? MIN(1, needs[at] / own) : 0;
  }
  return sum;
}

double mesh_node_sharers(const Mesh *mesh, const Cluster *cluster, int rank, const double *needs)
{
  int first = 0, size = mesh_site(mesh, cluster, rank)->devices_per_node, last = -1;
  double most = 1;

  if (needs[rank] <= 0)
    return 1;
  if (mesh->dense[AXIS_PIPELINE].size == 1 || (!mesh->inner && mesh->places % size == 0))
    return MIN(size, mesh->ranks);
  if (cluster->n_types > 0)
    find_type(mesh, cluster, rank, &first);
  for (int place = 0; place < mesh->places; place++) {
    int node = mesh_rank_at(mesh, rank - first, place) / size;
    if (node != last)
      most = MAX(most, needs_of_node(mesh, node, size, first, needs, needs[rank]));
    last = node;
  }
  return most;
}

const Cluster *mesh_pair_site(const Mesh *mesh, const Cluster *cluster, int from, int to, GroupShape *shape)
{
  int first, type = cluster->n_types == 0 ? -1 : find_type(mesh, cluster, from, &first);

  if (type >= 0 && type == mesh_node_type(mesh, cluster, to)) {
    *shape = mesh_pair(mesh, cluster->types[type], from - first, to - first);
    return cluster->types[type];
  }
  *shape = mesh_pair(mesh, cluster, from, to);
  for (int t = 0; type >= 0 && t < cluster->n_tiers - 1; t++)
    shape->per_domain[t] = 1;
  return cluster;
}
