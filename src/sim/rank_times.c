#include "sim/rank_times.h"

#include <string.h>

#define STEPS_MAX 64 /* swept at once: more gains nothing */

enum { JOIN_NONE, JOIN_TENSOR, JOIN_DATA, JOIN_ALL };

static const int joins[TASK_KIND_COUNT] = {
  [TASK_PASS] = JOIN_TENSOR, [TASK_GATHER] = JOIN_DATA, [TASK_REDUCE] = JOIN_DATA, [TASK_NORM] = JOIN_ALL,
};

/* Ranks that wait for each other within a pass: groups that overlap, whole. */
static int pass_neighbours(const PassLayout *p)
{
  int dense = p->tp * p->cp, experts = p->experts_apart ? p->etp * p->ep : 1;
  return dense / group_divisor(dense, experts) * experts;
}

/* Ranks that gather or sum the same weights: those over which ZeRO divides them are neighbours among their replicas,
 * those that hold the same part stand so far apart. */
static RankJoin data_join(const Layout *view, const Segment *s)
{
  const StateLayout *states = &view->states[s->experts != 0];

  return (RankJoin) { s->group.size, s->across ? states->stride * states->shards : states->stride };
}

/* Without folding. */
static RankJoin join_of(const RankTimes *t, const Segment *s)
{
  Layout room;
  const Layout *view = layout_of_layer(t->layout, s->first_layer, &room);

  switch (joins[s->kind]) {
  case JOIN_TENSOR:
    return (RankJoin) { pass_neighbours(&view->passes), 1 };
  case JOIN_DATA:
    return data_join(view, s);
  case JOIN_ALL:
    return (RankJoin) { t->layout->mesh.places, 1 };
  default:
    return (RankJoin) { 1, 1 };
  }
}

RankJoin rank_join_of(const RankTimes *t, const Segment *s)
{
  RankJoin join = join_of(t, s);

  if (join.stride == 1)
    return (RankJoin) { MAX(join.size / t->fold, 1), 1 };
  return (RankJoin) { join.size, join.stride / t->fold };
}

/* Neighbours that wait for one another in each pass, and meet the others as one. */
static int neighbours_alike(const RankTimes *t)
{
  const Program *p = t->program;
  int alike = t->layout->mesh.places;

  for (guint i = 0; i < p->segments->len; i++) {
    const Segment *s = &g_array_index(p->segments, Segment, i);
    RankJoin join = join_of(t, s);
    if (joins[s->kind] != JOIN_NONE && join.size > 1)
      alike = group_divisor(alike, joins[s->kind] == JOIN_DATA ? join.stride : join.size);
    else if (s->kind == TASK_PASS)
      alike = 1;
  }
  return alike;
}

/* Two ranks, wherever they are. */
static GroupShape pair_shape(const Cluster *cluster, int a, int b)
{
  GroupShape shape = { .size = 2 };

  for (int t = 0; t < cluster->n_tiers; t++)
    shape.per_domain[t] =
        t == cluster->n_tiers - 1 || a / cluster->tiers[t].devices == b / cluster->tiers[t].devices ? 2 : 1;
  return shape;
}

/* That of the ranks which share a replica's weights or its part of them; the row's where they lie in two steps, with
 * the pipeline between. */
static GroupShape data_shape(const RankTimes *t, const Layout *view, int row, int replica, const Segment *s)
{
  RankJoin join = data_join(view, s);
  int block = join.size * join.stride, first = replica / block * block + replica % join.stride, stride = join.stride;
  const Mesh *mesh = &t->layout->mesh;

  if (mesh->inner && stride % mesh->block != 0)
    return s->group;
  if (mesh->inner)
    stride = stride / mesh->block * mesh->dense[AXIS_DATA].stride;
  return group_shape_at(t->cluster, mesh_rank_at(mesh, row, first), join.size, stride);
}

/* The shape of the group that a replica's task really has; FALSE if it is the row's. */
static gboolean own_shape(const RankTimes *t, const Task *task, int to, int replica, GroupShape *shape)
{
  const Segment *s = &g_array_index(t->program->segments, Segment, task->segment);
  Layout room;
  const Layout *view = layout_of_layer(t->layout, s->first_layer, &room);
  int rank = mesh_rank_at(&t->layout->mesh, task->row, replica);

  if (joins[task->kind] == JOIN_DATA && s->experts)
    *shape = s->group;
  else if (joins[task->kind] == JOIN_DATA)
    *shape = data_shape(t, view, task->row, replica, s);
  else if (to >= 0 && to != task->row && s->group.size == 2)
    *shape = pair_shape(t->cluster, rank, mesh_rank_at(&t->layout->mesh, to, replica));
  else
    return FALSE;
  return memcmp(shape, &s->group, sizeof *shape) != 0;
}

static double priced(const RankTimes *t, const Segment *s, const GroupShape *shape)
{
  return collective_cost(t->cluster, s->collective, s->comm_bytes, shape).seconds;
}

void rank_join_slowest(double *values, int replicas, RankJoin group)
{
  int block = group.size * group.stride;

  for (int first = 0; first < replicas && group.size > 1; first += block)
    for (int offset = first; offset < first + group.stride; offset++) {
      double last = values[offset];
      for (int i = offset; i < offset + block; i += group.stride)
        last = MAX(last, values[i]);
      for (int i = offset; i < offset + block; i += group.stride)
        values[i] = last;
    }
}

/* A group's transfer is as slow as its slowest member's. */
static void slow_links(const RankTimes *t, const Task *task, double *seconds)
{
  const Segment *s = &g_array_index(t->program->segments, Segment, task->segment);
  g_autofree double *slowest = g_memdup2(t->link + (gsize)task->row * t->replicas, t->replicas * sizeof *slowest);

  rank_join_slowest(slowest, t->replicas, rank_join_of(t, s));
  for (int r = 0; r < t->replicas; r++)
    seconds[r] *= slowest[r];
}

/* Seconds of each replica's transfer; all of one shape are priced once. */
static double *transfer_seconds(const RankTimes *t, const Task *task, int to)
{
  const Segment *s = &g_array_index(t->program->segments, Segment, task->segment);
  g_autofree double *seconds = g_new(double, t->replicas);
  double folded = priced(t, s, &s->group), own = folded;
  GroupShape shape, last = s->group;
  gboolean differs = t->link != NULL;

  for (int r = 0; r < t->places; r++) {
    seconds[r] = s->seconds;
    if (!own_shape(t, task, to, r * t->fold, &shape))
      continue;
    if (memcmp(&shape, &last, sizeof shape) != 0)
      own = priced(t, s, &shape);
    last = shape;
    seconds[r] += own - folded;
    differs = TRUE;
  }
  for (int r = t->places; r < t->replicas; r++)
    seconds[r] = seconds[r - t->places];
  if (t->link)
    slow_links(t, task, seconds);
  return differs ? g_steal_pointer(&seconds) : NULL;
}

/* A pass waits for the slowest of its neighbours; other computation for nobody. */
static double *compute_seconds(const RankTimes *t, const Task *task)
{
  const Segment *s = &g_array_index(t->program->segments, Segment, task->segment);
  const double *factor = t->factor + (gsize)task->row * t->replicas;
  int size = rank_join_of(t, s).size;
  g_autofree double *seconds = g_new(double, t->replicas);
  gboolean differs = FALSE;

  for (int first = 0; first < t->replicas; first += size) {
    double slowest = factor[first];
    for (int r = first; r < first + size; r++)
      slowest = MAX(slowest, factor[r]);
    for (int r = first; r < first + size; r++)
      seconds[r] = s->seconds + segment_behind(s, slowest - 1);
    differs |= slowest != 1;
  }
  return differs ? g_steal_pointer(&seconds) : NULL;
}

/* The row that each task exchanges with: a send's receiver, or the other row
 * that has a task of the same segment; -1 = none. */
static int *find_partners(const Program *p)
{
  const Task *tasks = (const Task *)p->tasks->data;
  int *partner = program_receivers(p), n = p->tasks->len;
  g_autofree int *rows = g_new(int, 2 * MAX(p->segments->len, 1));

  for (int i = n - 1; i >= 0; i--)
    rows[2 * tasks[i].segment] = rows[2 * tasks[i].segment + 1] = tasks[i].row;
  for (int i = 0; i < n; i++)
    if (tasks[i].row != rows[2 * tasks[i].segment])
      rows[2 * tasks[i].segment + 1] = tasks[i].row;
  for (int i = 0; i < n; i++) {
    const int *two = &rows[2 * tasks[i].segment];
    if (partner[i] >= 0)
      partner[i] = tasks[partner[i]].row;
    else if (two[0] != two[1])
      partner[i] = tasks[i].row == two[0] ? two[1] : two[0];
  }
  return partner;
}

gsize rank_times_slot(const RankTimes *t, int rank, int step)
{
  int at[AXIS_COUNT];

  mesh_coordinates(&t->layout->mesh, rank, at);
  return (gsize)at[AXIS_PIPELINE] * t->replicas + step * t->places + mesh_place(&t->layout->mesh, rank) / t->fold;
}

static void start(RankTimes *t, int steps)
{
  gsize n = (gsize)t->program->n_rows * (t->replicas = steps * t->places);

  t->factor = g_new(double, n);
  t->seconds = g_new0(double *, (gsize)MAX(t->program->segments->len, 1) * t->program->n_rows);
  for (gsize i = 0; i < n; i++)
    t->factor[i] = 1;
}

void rank_times_init(RankTimes *t, const Program *p, const Layout *layout, const Cluster *cluster,
                     const Straggler *stragglers, int n_stragglers)
{
  *t = (RankTimes) { .program = p, .layout = layout, .cluster = cluster, .fold = 1, .places = layout->mesh.places };
  start(t, 1);
  for (int i = 0; i < n_stragglers; i++)
    t->factor[rank_times_slot(t, stragglers[i].rank, 0)] *= stragglers[i].factor;
  rank_times_price(t);
}

void rank_times_init_steps(RankTimes *t, const Program *p, const Layout *layout, const Cluster *cluster, int most,
                           gboolean links)
{
  *t = (RankTimes) { .program = p, .layout = layout, .cluster = cluster, .fold = 1 };
  t->fold = neighbours_alike(t);
  t->places = layout->mesh.places / t->fold;
  start(t, CLAMP(most / t->places, 1, STEPS_MAX));
  t->link = links ? g_new(double, (gsize)p->n_rows * t->replicas) : NULL;
}

static void forget_seconds(RankTimes *t)
{
  for (gsize i = 0; i < (gsize)t->program->segments->len * t->program->n_rows; i++)
    g_clear_pointer(&t->seconds[i], g_free);
}

void rank_times_price(RankTimes *t)
{
  const Program *p = t->program;
  g_autofree gboolean *known = g_new0(gboolean, (gsize)MAX(p->segments->len, 1) * p->n_rows);
  g_autofree int *partner = find_partners(p);

  forget_seconds(t);
  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *task = &g_array_index(p->tasks, Task, i);
    gsize key = (gsize)task->segment * p->n_rows + task->row;
    gboolean computes = task->kind == TASK_PASS || task->kind == TASK_OPTIMIZER;
    if (!known[key])
      t->seconds[key] = computes ? compute_seconds(t, task) : transfer_seconds(t, task, partner[i]);
    known[key] = TRUE;
  }
}

void rank_times_clear(RankTimes *t)
{
  forget_seconds(t);
  g_free(t->seconds);
  g_free(t->factor);
  g_free(t->link);
}

const double *rank_times_of(const RankTimes *t, int task)
{
  const Task *at = &g_array_index(t->program->tasks, Task, task);
  return t->seconds[(gsize)at->segment * t->program->n_rows + at->row];
}
