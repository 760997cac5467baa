/*
 * What tdp-run holds beside the scratch of its passes: receives that are posted (exec/groups.c, receives_post), results
 * until they are sent, what waits for the next pass on its own rank, weights from when they may be gathered, tokens on the
 * device, a table that embedding and head share, and rows of a spread vocabulary (exec/work_spread.c). Of other software
 * nothing is known of these.
 */
#include "program/build.h"

static double boundary_bytes(const ProgramBuild *b)
{
  return op_boundary_bytes(b->model, &b->layout->passes);
}

/* The row of the stage before a chunk's, or behind it; -1: there is none. */
static int neighbour(const ProgramBuild *b, int rank, int chunk, gboolean behind)
{
  const PipelineLayout *p = &b->layout->pipeline;
  int stage = program_stage(b, rank, chunk) + (behind ? 1 : -1);

  return stage >= 0 && stage < b->stages ? pipeline_rank(p, stage, schedule_copy(p->schedule, chunk)) : -1;
}

static double spread_rows_bytes(const ProgramBuild *b)
{
  const PassLayout *p = &b->layout->passes;
  return op_tokens(p) * b->model->hidden * dtype_bytes[p->formats.precision];
}

static gboolean is_last_row(const ProgramBuild *b, int rank)
{
  return rank == pipeline_rank(&b->layout->pipeline, b->stages - 1, 0);
}

/* Each row adds up what it looks up for others in one place, and has a place for the last row's normed output ahead. */
double beside_bytes(const ProgramBuild *b, int rank)
{
  double received = is_last_row(b, rank) ? 0 : boundary_bytes(b);

  if (!executor_memory(b) || !b->shares)
    return 0;
  return op_tokens(&b->layout->passes) * sizeof(gint32) + spread_rows_bytes(b) + received;
}

/* What the first stage takes was looked up; the last one leaves a normed output for its own share. */
static void hold_spread(const ProgramBuild *b, const Chunk *chunk, Segment *s)
{
  gboolean ends = s->first_layer + s->n_layers == b->model->n_layers - 1;

  if (!b->shares)
    return;
  if (s->pass == PASS_FORWARD && s->first_layer == 0)
    s->alloc_bytes -= spread_rows_bytes(b);
  if (s->pass == PASS_FORWARD && ends)
    s->free_bytes -= boundary_bytes(b);
  if (s->pass == PASS_LOGITS && is_last_row(b, chunk->rank))
    s->alloc_bytes -= boundary_bytes(b);
}

/* Tokens and labels of a micro-batch come with the first pass that reads either, and go with the chunk's last (exec/
 * work.c, tokens_load and drop_tokens). */
static void hold_tokens(const ProgramBuild *b, Piece whole, Segment *s)
{
  double bytes = 2 * op_tokens(&b->layout->passes) * sizeof(gint32);
  int end = b->model->n_layers, reads = whole.first_layer == 0 ? 0 : end - 1;
  gboolean ends = whole.first_layer == 0 || whole.first_layer + whole.n_layers == end;

  if (b->shares) {
    s->alloc_bytes += s->pass == PASS_LOGITS ? bytes : 0;
    s->free_bytes += s->pass == PASS_VOCAB ? bytes : 0;
  } else if (ends) {
    gboolean comes = s->pass == PASS_FORWARD && s->first_layer <= reads && s->first_layer + s->n_layers > reads;
    gboolean goes = pass_makes_weight_gradient(s->pass) && s->first_layer == whole.first_layer;
    s->alloc_bytes += comes ? bytes : 0;
    s->free_bytes += goes ? bytes : 0;
  }
}

void beside_pass(const ProgramBuild *b, const Chunk *chunk, Segment *s)
{
  gboolean backward = pass_is_backward(s->pass);
  Piece whole = chunk_whole(chunk);
  gboolean first = s->first_layer == whole.first_layer;
  gboolean last = s->first_layer + s->n_layers == whole.first_layer + whole.n_layers;

  if (!executor_memory(b))
    return;
  hold_tokens(b, whole, s);
  hold_spread(b, chunk, s);
  if (!backward && s->pass != PASS_FORWARD)
    return;
  int from = (backward ? last : first) ? neighbour(b, chunk->rank, chunk->index, backward) : -1;
  int to = (backward ? first : last) ? neighbour(b, chunk->rank, chunk->index, !backward) : -1;
  if (from >= 0)
    s->alloc_bytes -= boundary_bytes(b);
  if (to >= 0)
    s->free_bytes -= boundary_bytes(b);
}

void beside_send(const ProgramBuild *b, Segment *s)
{
  s->free_bytes += executor_memory(b) ? boundary_bytes(b) : 0;
}

/* What tasks of computation take beside what is theirs: when they begin, for the host takes it before the first of a row;
 * when they end, for it goes on then and waits with what it has for the next. */
typedef struct {
  double begin, end;
} Taken;

static void take(const Program *p, Taken *taken, int row, int before, double bytes)
{
  int first = p->lane_first[row * LANE_COUNT + LANE_COMPUTE];

  if (before > first)
    taken[p->lane_tasks[before - 1]].end += bytes;
  else
    taken[p->lane_tasks[first]].begin += bytes;
}

static void take_receives(const ProgramBuild *b, Taken *taken)
{
  const Program *p = b->program;
  g_autoptr(ProgramReceives) receives = program_receives_new(p);

  for (int pair = 0; pair < p->n_rows * p->n_rows; pair++) {
    int row = pair % p->n_rows, before = 0, *posted = receives->posted[pair];
    const int *lane = &p->lane_first[row * LANE_COUNT + LANE_COMPUTE];
    for (int i = lane[0]; i < lane[1] && posted; i++) {
      take(p, taken, row, i, (posted[i - lane[0]] - before) * boundary_bytes(b));
      before = posted[i - lane[0]];
    }
  }
}

/* The place on its row's lane of computation before which a task is issued, if not before `least`: behind all that it waits
 * for there. */
static int issued_before(const Program *p, const Task *t, const int *place, int least)
{
  for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++) {
    const Task *dep = &g_array_index(p->tasks, Task, p->deps[d]);
    if (dep->row == t->row && dep->lane == LANE_COMPUTE)
      least = MAX(least, place[p->deps[d]] + 1);
  }
  return least;
}

/* What a task beside passes takes when it is issued: gathered weights; of the first row, rows that are looked up. */
static double issued_bytes(const ProgramBuild *b, const Task *t)
{
  const Segment *s = &g_array_index(b->program->segments, Segment, t->segment);

  if (t->kind == TASK_VOCAB && s->exchange == EXCHANGE_LOOKUP)
    return spread_rows_bytes(b);
  return t->kind == TASK_GATHER ? s->alloc_bytes : 0;
}

/* Tasks of a lane are issued as early as that (exec/walk.c), though others before them may still be under way. */
static void take_issued(const ProgramBuild *b, Taken *taken, Lane lane)
{
  const Program *p = b->program;
  g_autofree int *place = g_new0(int, MAX(p->tasks->len, 1));

  for (int row = 0; row < p->n_rows; row++) {
    const int *passes = &p->lane_first[row * LANE_COUNT + LANE_COMPUTE], *tasks = passes + lane - LANE_COMPUTE;
    int before = passes[0];
    for (int i = passes[0]; i < passes[1]; i++)
      place[p->lane_tasks[i]] = i;
    for (int i = tasks[0]; i < tasks[1]; i++) {
      const Task *t = &g_array_index(p->tasks, Task, p->lane_tasks[i]);
      before = issued_before(p, t, place, before);
      take(p, taken, row, before, issued_bytes(b, t));
    }
  }
}

/* A table that embedding and head share on a row: gathered, it stays from its first use to the optimizer, and its gradient
 * is whole from the head's pass on, not only in the embedding's, behind which it is summed (exec/work.c, close_weights and
 * open_gradients). */
static void take_table(const ProgramBuild *b, Taken *taken, int row)
{
  const Program *p = b->program;
  const StateLayout *states = own_states(b);
  double params = table_params(b->model, &b->layout->passes);
  double weights = states->fetches_weights ? op_gathered_bytes(states, params, 0) : 0;
  double gradient = states->drops_gradients ? params * states->gradient_bytes : 0;
  const int *lane = &p->lane_first[row * LANE_COUNT + LANE_COMPUTE];
  double held = 0, whole = 0;

  for (int i = lane[0]; i < lane[1]; i++) {
    Taken *t = &taken[p->lane_tasks[i]];
    const Segment *s = &g_array_index(p->segments, Segment, g_array_index(p->tasks, Task, p->lane_tasks[i]).segment);
    gboolean embedding = s->kind == TASK_PASS && s->first_layer == 0;
    gboolean head = s->kind == TASK_PASS && s->first_layer + s->n_layers == b->model->n_layers;
    if (embedding) {
      t->end += weights - held;
      held = weights;
    }
    if ((embedding || head) && pass_makes_weight_gradient(s->pass)) {
      double ahead = embedding ? 0 : gradient; /* the embedding's pass takes its own */
      t->begin += ahead - whole;
      whole = ahead;
    }
    if (s->kind == TASK_OPTIMIZER)
      t->end -= held + whole;
  }
}

/* The segment with that, made once. */
static int segment_with(ProgramBuild *b, GHashTable *made, int segment, const Taken *taken)
{
  g_autofree char *key = g_strdup_printf("%d %a %a", segment, taken->begin, taken->end);
  gpointer found;

  if (g_hash_table_lookup_extended(made, key, NULL, &found))
    return GPOINTER_TO_INT(found);
  Segment s = g_array_index(b->program->segments, Segment, segment);
  if (s.passes)
    g_array_ref(s.passes);
  s.alloc_bytes += taken->begin;
  s.free_bytes -= taken->end;
  int added = program_add_segment(b, s);
  g_hash_table_insert(made, g_steal_pointer(&key), GINT_TO_POINTER(added));
  return added;
}

void beside_issue(ProgramBuild *b)
{
  Program *p = b->program;
  g_autoptr(GHashTable) made = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  g_autofree Taken *taken = g_new0(Taken, MAX(p->tasks->len, 1));

  if (!executor_memory(b))
    return;
  take_receives(b, taken);
  take_issued(b, taken, LANE_DATA);
  take_issued(b, taken, LANE_PIPELINE);
  for (int row = 0; row < p->n_rows && b->model->tied_embeddings && b->layout->passes.ends_meet; row++)
    take_table(b, taken, row);
  for (guint i = 0; i < p->segments->len; i++)
    if (g_array_index(p->segments, Segment, i).kind == TASK_GATHER)
      g_array_index(p->segments, Segment, i).alloc_bytes = 0;
  for (guint i = 0; i < p->tasks->len; i++) {
    Task *t = &g_array_index(p->tasks, Task, i);
    if (taken[i].begin != 0 || taken[i].end != 0)
      t->segment = segment_with(b, made, t->segment, &taken[i]);
  }
}
