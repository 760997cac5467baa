/* Who talks to whom: communicators of the mesh's axes, of pipeline pairs, and what arrives. */
#include "exec/rank.h"

#include "base/error.h"

static BackendComm *split(Exec *x, int color, int key, GError **error)
{
  char message[EXEC_ERROR_SIZE] = "";
  BackendComm *comm = *error ? NULL : x->b->comm_new(x->b, color, key, message);

  if (!comm && message[0])
    runtime_error(error, "%s", message);
  return comm;
}

/* The rank with the coordinates of two axes, or of one twice, set to 0: names the group. */
static int group_color(const Exec *x, Axis one, Axis other)
{
  int at[AXIS_COUNT];

  memcpy(at, x->coordinates, sizeof at);
  at[one] = at[other] = 0;
  return mesh_rank(&x->layout->mesh, at);
}

static BackendComm *axis_comm(Exec *x, Axis axis, GError **error)
{
  return split(x, group_color(x, axis, axis), x->coordinates[axis], error);
}

/* Ranks of the row that differ by what is `own` of this rank's place. */
static BackendComm *place_comm(Exec *x, int own, GError **error)
{
  int place = mesh_place(&x->layout->mesh, x->b->rank);

  return split(x, mesh_rank_at(&x->layout->mesh, x->row, place - own), own, error);
}

static BackendComm *expert_comm(Exec *x, ExpertAxis axis, GError **error)
{
  return place_comm(x, x->expert_coordinates[axis] * x->layout->mesh.experts[axis].stride, error);
}

/* The ranks of two rows with equal other coordinates. */
static BackendComm *pair_comm(Exec *x, int first, int second, GError **error)
{
  gboolean in = x->row == first || x->row == second;

  return split(x, in ? group_color(x, AXIS_PIPELINE, AXIS_PIPELINE) : -1, x->row == first ? 0 : 1, error);
}

/* The two rows that sum a tied table, -1 = none do. */
static void find_tied(const Program *p, int rows[2])
{
  int n = 0;

  rows[0] = rows[1] = -1;
  for (guint i = 0; i < p->tasks->len; i++)
    if (g_array_index(p->tasks, Task, i).kind == TASK_TIED)
      rows[n++] = g_array_index(p->tasks, Task, i).row;
}

/* Ranks of the rows r and p-1-r, which hold the same stages of two copies. */
static BackendComm *copies_comm(Exec *x, GError **error)
{
  int other = x->program->n_rows - 1 - x->row;

  return split(x, group_color(x, AXIS_PIPELINE, AXIS_PIPELINE) + MIN(x->row, other) * x->layout->mesh.ranks,
               x->row < other ? 0 : 1, error);
}

ChunkState *chunk_find(const Exec *x, int stage, int copy)
{
  for (int c = 0; c < x->layout->pipeline.shape.chunks; c++)
    if (x->chunks[c].stage == stage && x->chunks[c].copy == copy)
      return &x->chunks[c];
  return NULL;
}

/* The pairs of rows that exchange, in the order of first use, and what comes here. */
static gboolean init_pairs(Exec *x, GError **error)
{
  const Program *p = x->program;
  g_autofree gboolean *known = g_new0(gboolean, p->n_rows * p->n_rows);
  g_autofree int *taker = program_receivers(p);

  for (int from = 0; from < p->n_rows && !*error; from++) {
    int lane = from * LANE_COUNT + LANE_PIPELINE;
    for (int i = p->lane_first[lane]; i < p->lane_first[lane + 1] && !*error; i++) {
      Arrival arrival = { .send = p->lane_tasks[i], .taker = taker[p->lane_tasks[i]] };
      if (exec_task(x, arrival.send)->kind != TASK_SEND)
        continue;
      int to = exec_task(x, arrival.taker)->row;
      if (!known[from * p->n_rows + to]) {
        BackendComm *comm = pair_comm(x, from, to, error);
        BackendComm *gather = x->layout->pipeline.scatters_sends ? axis_comm(x, AXIS_TENSOR, error) : NULL;
        known[from * p->n_rows + to] = TRUE;
        if (x->row == from)
          x->outgoing[to] = comm;
        if (x->row == to) {
          x->incoming[from] = (Incoming) { .comm = comm, .gather = gather, .stream = x->b->stream_new(x->b, FALSE),
                                           .arrivals = g_array_new(FALSE, FALSE, sizeof(Arrival)) };
        } else if (gather)
          x->b->comm_free(x->b, gather);
      }
      if (to != x->row)
        continue;
      arrival.event = x->b->event_new(x->b);
      g_array_append_val(x->incoming[from].arrivals, arrival);
      x->runs[arrival.send].arrives = TRUE;
    }
  }
  return !*error;
}

/* One element to each rank of a group and from it. */
static void greet_all(Exec *x, BackendComm *comm, int ranks, int32_t *words)
{
  g_autofree gsize *each = g_new(gsize, ranks);

  for (int i = 0; i < ranks; i++)
    each[i] = 1;
  x->b->all_to_all(x->b, comm, x->lanes[LANE_COMPUTE], words, words + ranks, (ExecCounts) { each, each },
                   EXEC_I32);
}

static void greet_pair(Exec *x, int from, int to, int32_t *word)
{
  BackendStream *s = x->lanes[LANE_COMPUTE];

  if (x->row == from && x->outgoing[to])
    x->b->send(x->b, x->outgoing[to], s, word, 1, EXEC_I32, 1);
  if (x->row == to && x->incoming[from].comm)
    x->b->recv(x->b, x->incoming[from].comm, s, word, 1, EXEC_I32, 0);
}

/* The first message between two ranks connects them, and may hold each until the other sends its part: a receive
 * that is posted ahead would hold this rank for as long as its sender. So all ranks send one over each group here, in
 * one order. */
static gboolean meet(Exec *x, GError **error)
{
  const PassLayout *p = &x->layout->passes;
  BackendComm *const comms[] = { x->context, x->expert, x->expert_tensor };
  const int ranks[] = { p->cp, p->ep, p->experts_apart ? p->etp : 1 };
  BackendStream *s = x->lanes[LANE_COMPUTE];
  gsize bytes = 2 * (gsize)x->layout->mesh.ranks * sizeof(int32_t);
  int32_t *words = memory_alloc_zero(&x->memory, s, PART_BUFFERS, bytes);

  for (gsize i = 0; i < G_N_ELEMENTS(comms); i++)
    if (ranks[i] > 1)
      greet_all(x, comms[i], ranks[i], words);
  for (int from = 0; from < x->program->n_rows; from++)
    for (int to = 0; to < x->program->n_rows; to++)
      greet_pair(x, from, to, words);
  x->b->barrier(x->b, x->world, s);
  memory_release(&x->memory, s, words);
  x->b->sync(x->b, s);
  if (!x->b->failed(x->b))
    return TRUE;
  return runtime_error(error, "%s", x->b->failed(x->b));
}

gboolean groups_init(Exec *x, GError **error)
{
  const Mesh *mesh = &x->layout->mesh;
  g_autoptr(GError) found = NULL;
  int tied[2];

  find_tied(x->program, tied);
  x->outgoing = g_new0(BackendComm *, x->program->n_rows);
  x->incoming = g_new0(Incoming, x->program->n_rows);
  x->receives = program_receives_new(x->program);
  x->world = split(x, 0, x->b->rank, &found);
  x->tensor = axis_comm(x, AXIS_TENSOR, &found);
  x->tensor_late = axis_comm(x, AXIS_TENSOR, &found);
  if (exec_overlaps_sums(x))
    x->tensor_beside = axis_comm(x, AXIS_TENSOR, &found);
  x->context = axis_comm(x, AXIS_CONTEXT, &found);
  x->data = split(x, group_color(x, AXIS_CONTEXT, AXIS_DATA), exec_replica(x), &found);
  x->expert = expert_comm(x, EXPERT_PARALLEL, &found);
  x->expert_data = expert_comm(x, EXPERT_DATA, &found);
  x->expert_tensor = expert_comm(x, EXPERT_TENSOR, &found);
  x->expert_block = place_comm(x, mesh_place(mesh, x->b->rank) % mesh->experts[EXPERT_DATA].stride, &found);
  if (tied[0] >= 0)
    x->tied = pair_comm(x, tied[0], tied[1], &found);
  if (schedule_copies(x->layout->pipeline.schedule) == 2)
    x->copies = copies_comm(x, &found);
  for (int i = 0; i < 2 && x->shape.spread; i++)
    x->shares[i] = axis_comm(x, AXIS_PIPELINE, &found);
  if (!found && init_pairs(x, &found) && meet(x, &found))
    return TRUE;
  g_propagate_error(error, g_steal_pointer(&found));
  return FALSE;
}

void groups_clear(Exec *x)
{
  BackendComm *const comms[] = { x->world, x->tensor, x->tensor_late, x->tensor_beside, x->context, x->data, x->expert,
                                 x->expert_data, x->expert_tensor, x->expert_block, x->tied, x->copies, x->shares[0],
                                 x->shares[1] };

  for (int row = 0; row < x->program->n_rows; row++) {
    Incoming *in = &x->incoming[row];
    x->b->comm_free(x->b, x->outgoing[row]);
    x->b->comm_free(x->b, in->comm);
    x->b->comm_free(x->b, in->gather);
    for (guint i = 0; in->arrivals && i < in->arrivals->len; i++)
      x->b->event_free(x->b, g_array_index(in->arrivals, Arrival, i).event);
    if (in->arrivals) {
      x->b->stream_free(x->b, in->stream);
      g_array_unref(in->arrivals);
    }
  }
  for (gsize i = 0; i < G_N_ELEMENTS(comms); i++)
    x->b->comm_free(x->b, comms[i]);
  program_receives_free(x->receives);
  g_free(x->outgoing);
  g_free(x->incoming);
}

static void post(Exec *x, Incoming *in, Arrival *a)
{
  gsize n = (gsize)x->shape.rows * x->shape.hidden, part = n / (in->gather ? x->shape.tp : 1);
  gsize bytes = x->run.bytes;

  a->buffer = memory_alloc(&x->memory, in->stream, PART_BUFFERS, n * bytes);
  char *own = (char *)a->buffer + (in->gather ? part * x->shape.tp_rank * bytes : 0);
  x->b->recv(x->b, in->comm, in->stream, own, part, x->b->dtype, 0);
  x->runs[a->send].moved += part;
  if (in->gather)
    x->b->all_gather(x->b, in->gather, in->stream, own, a->buffer, part, x->b->dtype);
  x->b->event_record(x->b, a->event, in->stream);
}

/* Index behind the last arrival that the task takes, 0 if it takes none. */
static guint wanted(const Incoming *in, int taker)
{
  for (guint i = in->arrivals->len; i > 0; i--)
    if (g_array_index(in->arrivals, Arrival, i - 1).taker == taker)
      return i;
  return 0;
}

/* None ahead in the first step, in which kernels may be loaded and memory may be got: that waits for what runs. A host
 * that waits posts ahead all the same (receives_more). */
void receives_post(Exec *x, int taker)
{
  int rows = x->program->n_rows;

  for (int row = 0; row < rows; row++) {
    Incoming *in = &x->incoming[row];
    if (!in->arrivals)
      continue;
    in->allowed = x->receives->posted[row * rows + x->row][in->begun++];
    guint end = x->step > 1 ? in->allowed : wanted(in, taker);
    for (; in->posted < end; in->posted++)
      post(x, in, &g_array_index(in->arrivals, Arrival, in->posted));
  }
}

/* While the rank waits in a step: where all that was posted has come, there may be more
 * on the way, which its sender waits to get rid of, as far as the program allows. */
void receives_more(void *data)
{
  Exec *x = data;

  __atomic_add_fetch(&x->waits, 1, __ATOMIC_RELAXED);
  if (g_atomic_int_get(&x->current) < 0)
    return;
  for (int row = 0; row < x->program->n_rows; row++) {
    Incoming *in = &x->incoming[row];
    guint n = in->posted;
    if (!in->arrivals || n >= in->allowed)
      continue;
    if (n == 0 || x->b->event_done(x->b, g_array_index(in->arrivals, Arrival, n - 1).event)) {
      post(x, in, &g_array_index(in->arrivals, Arrival, n));
      in->posted++;
    }
  }
}

/* To the chunk that continues what the sender's did. */
static void hand_over(Exec *x, Arrival *a)
{
  const Task *send = exec_task(x, a->send);
  gboolean backward = send->pass != PASS_FORWARD;
  const PipelineLayout *p = &x->layout->pipeline;
  int stage = schedule_stage(p->schedule, &p->shape, send->row, send->chunk) + (backward ? -1 : 1);
  ChunkState *chunk = chunk_find(x, stage, schedule_copy(p->schedule, send->chunk));

  chunk->micro[send->micro].in[backward] = g_steal_pointer(&a->buffer);
}

void receives_take(Exec *x, int taker, BackendStream *s)
{
  for (int row = 0; row < x->program->n_rows; row++) {
    Incoming *in = &x->incoming[row];
    for (guint i = 0; in->arrivals && i < in->posted; i++) {
      Arrival *a = &g_array_index(in->arrivals, Arrival, i);
      if (a->taker != taker || !a->buffer)
        continue;
      x->b->event_wait(x->b, a->event, s);
      hand_over(x, a);
    }
  }
}
