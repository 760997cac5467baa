#include "exec/rank.h"

#include "base/error.h"

const char *const exec_fault_names[] = { "kill", "stop", "hang", "memory", "error", "nan", NULL };

ExecOptions exec_options_default(void)
{
  return (ExecOptions) { .seed = 1, .rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .max_norm = 1,
                         .fault_at = -1 };
}

static gboolean *present_layers(const Exec *x)
{
  gboolean *present = g_new0(gboolean, x->model->n_layers);

  for (int c = 0; c < x->layout->pipeline.shape.chunks; c++)
    for (int layer = x->chunks[c].first_layer; layer < x->chunks[c].end_layer; layer++)
      present[layer] = TRUE;
  present[x->model->n_layers - 1] |= x->shape.spread;
  return present;
}

/* Where a task starts or ends within the model. Of all rows, since two copies of a
 * stage must lie alike. */
static gboolean *cut_layers(const Exec *x)
{
  gboolean *cuts = g_new0(gboolean, x->model->n_layers + 1);

  for (guint i = 0; i < x->program->tasks->len; i++) {
    const Segment *s = exec_segment(x, i);
    if (s->n_layers == 0)
      continue;
    cuts[s->first_layer] = TRUE;
    cuts[s->first_layer + s->n_layers] = TRUE;
  }
  return cuts;
}

/* States of the chunk's layers and of a norm behind them. */
static void init_micro(Exec *x, ChunkState *chunk)
{
  chunk->micro = g_new0(MicroState, x->layout->pipeline.shape.micro);
  for (int m = 0; m < x->layout->pipeline.shape.micro; m++)
    chunk->micro[m].layers = g_new0(LayerState, chunk->end_layer - chunk->first_layer + 1);
}

static void init_chunks(Exec *x)
{
  const PipelineLayout *p = &x->layout->pipeline;

  x->chunks = g_new0(ChunkState, p->shape.chunks);
  for (int c = 0; c < p->shape.chunks; c++) {
    ChunkState *chunk = &x->chunks[c];
    chunk->stage = schedule_stage(p->schedule, &p->shape, x->row, c);
    chunk->copy = schedule_copy(p->schedule, c);
    chunk->keeps = x->program->remakes && chunk->stage == p->cut.stages - 1;
    chunk->first_layer = stage_first_layer(&p->cut, x->model, chunk->stage);
    chunk->end_layer = MIN(stage_first_layer(&p->cut, x->model, chunk->stage + 1),
                           x->model->n_layers - x->shape.spread);
    init_micro(x, chunk);
  }
  if (x->shape.spread)
    init_micro(x, &x->share);
}

/* Appends a row's tasks of a lane, or only its exchanges, which are everyone's. */
static void append_lane(Exec *x, int row, Lane lane, gboolean exchanges, int to)
{
  int at = row * LANE_COUNT + lane;

  for (int i = x->program->lane_first[at]; i < x->program->lane_first[at + 1]; i++)
    if (!exchanges || exec_task(x, x->program->lane_tasks[i])->kind == TASK_VOCAB)
      g_array_append_val(x->order[to], x->program->lane_tasks[i]);
}

/* The norm is a task of one row and a collective of all: the others take their
 * part behind the last of their own tasks that it waits for. */
static void join_norm(Exec *x)
{
  const Task *norm;
  GArray *order = x->order[LANE_DATA];
  guint place = 0;

  for (guint i = 0; i < x->program->tasks->len; i++)
    if (exec_task(x, i)->kind == TASK_NORM)
      x->norm_task = i;
  g_assert(x->norm_task >= 0);
  norm = exec_task(x, x->norm_task);
  if (norm->row == x->row)
    return;
  for (guint i = 0; i < order->len; i++)
    for (int d = norm->first_dep; d < norm->first_dep + norm->n_deps; d++)
      if (x->program->deps[d] == g_array_index(order, int, i))
        place = i + 1;
  g_array_insert_val(order, place, x->norm_task);
}

static void init_runs(Exec *x)
{
  x->runs = g_new0(TaskRun, x->program->tasks->len);
  for (int lane = 0; lane < ALL_LANES; lane++)
    x->order[lane] = g_array_new(FALSE, FALSE, sizeof(int));
  for (int lane = 0; lane < LANE_COUNT; lane++)
    append_lane(x, x->row, lane, FALSE, lane);
  if (x->shape.spread && x->row > 0)
    append_lane(x, 0, LANE_PIPELINE, TRUE, LANE_LOOKUPS);
  if (x->shape.spread && x->row < x->program->n_rows - 1)
    append_lane(x, x->program->n_rows - 1, LANE_PIPELINE, TRUE, LANE_SHARES);
  join_norm(x);
  for (int lane = 0; lane < ALL_LANES; lane++)
    for (guint i = 0; i < x->order[lane]->len; i++) {
      TaskRun *run = &x->runs[g_array_index(x->order[lane], int, i)];
      run->start = x->b->event_new(x->b);
      run->end = x->b->event_new(x->b);
    }
  x->begin = x->b->event_new(x->b);
}

/* None without work: a device has few queues. */
static void init_streams(Exec *x)
{
  for (int lane = 0; lane < ALL_LANES; lane++)
    if (lane == LANE_COMPUTE || x->order[lane]->len > 0)
      x->lanes[lane] = x->b->stream_new(x->b, lane == LANE_COMPUTE);
  if (x->layout->passes.cp > 1 || exec_overlaps_sums(x))
    x->beside = x->b->stream_new(x->b, FALSE);
}

static void init_parameters(Exec *x)
{
  g_autofree gboolean *present = present_layers(x), *cuts = cut_layers(x);
  const int numbers[] = { exec_replica(x), x->expert_coordinates[EXPERT_DATA] };

  shards_init(&x->shards, &x->shape, &x->memory, numbers, present, cuts);
  shards_allocate(&x->shards, x->run.s, x->options.seed);
  x->sums = memory_alloc_zero(&x->memory, x->run.s, PART_BUFFERS, SUM_COUNT * sizeof(double));
  if (!x->shape.spread)
    return;
  x->spread_rows = memory_alloc(&x->memory, x->run.s, PART_BUFFERS,
                                (gsize)x->shape.tokens * x->shape.hidden * x->run.bytes);
  x->spread_tokens = memory_alloc(&x->memory, x->run.s, PART_BUFFERS, x->shape.tokens * sizeof *x->spread_tokens);
}

static void init_run(Exec *x)
{
  Backend *b = x->b;

  x->run = (LayerRun) {
    .shape = x->shape, .b = b, .s = x->lanes[LANE_COMPUTE], .memory = &x->memory,
    .groups = { [GROUP_TENSOR] = x->tensor, [GROUP_TENSOR_BESIDE] = x->tensor_beside,
                [GROUP_CONTEXT] = x->context, [GROUP_EXPERT] = x->expert,
                [GROUP_EXPERT_TENSOR] = x->expert_tensor, [GROUP_EXPERT_BLOCK] = x->expert_block },
    .exposure = &x->exposure,
    .beside = x->beside, .ready = x->b->event_new(x->b), .arrived = x->b->event_new(x->b),
    .kept_as = PART_ACTIVATIONS,
    .bytes = exec_type_bytes(b->dtype), .wide_bytes = exec_type_bytes(exec_wide(b->dtype)),
    .token_share = 1.0 / ((double)x->layout->global_batch * x->tokens.seq),
  };
}

/* Products and lookups add to a tied share from two streams. */
static gboolean check_backend(const Model *model, const Layout *layout, const Backend *backend, GError **error)
{
  if (!layout->passes.spread_vocabulary || !model->tied_embeddings || !backend->concurrent)
    return TRUE;
  return input_error(error, "plan: pipeline_schedule: %s: expected untied embeddings to execute on %s",
                     layout->pipeline.schedule->name, backend->name);
}

Exec *exec_new(const Model *model, const Layout *layout, const Program *program, Backend *backend,
               const ExecOptions *options, GError **error)
{
  Exec *x;

  if (!check_backend(model, layout, backend, error))
    return NULL;
  x = g_new0(Exec, 1);
  *x = (Exec) { .model = model, .layout = layout, .program = program, .options = *options, .b = backend,
                .norm_task = -1, .current = -1 };
  mesh_coordinates(&x->layout->mesh, backend->rank, x->coordinates);
  mesh_expert_coordinates(&x->layout->mesh, backend->rank, x->expert_coordinates);
  x->row = x->coordinates[AXIS_PIPELINE];
  x->shape = layer_shape(model, layout, backend->rank);
  if (layout->passes.spread_vocabulary)
    layer_shape_spread(&x->shape, x->row);
  memory_init(&x->memory, backend, options->memory_limit);
  x->memory.fatal = options->fatal;
  x->memory.data = options->data;
  exposure_init(&x->exposure, backend);
  init_chunks(x);
  init_runs(x);
  init_streams(x);
  x->memory.computes = backend->concurrent ? NULL : x->lanes[LANE_COMPUTE];
  if (!tokens_init(&x->tokens, options->tokens, options->seed, model->vocab, layout->passes.seq, error) ||
      !groups_init(x, error)) {
    exec_free(x);
    return NULL;
  }
  init_run(x);
  init_parameters(x);
  outcome_init(x);
  x->run.loss = x->sums + SUM_LOSS;
  x->run.remade = &x->remade;
  backend->poll = receives_more;
  backend->poll_data = x;
  return x;
}

static void clear_micro(const Exec *x, ChunkState *chunk)
{
  for (int m = 0; chunk->micro && m < x->layout->pipeline.shape.micro; m++)
    g_free(chunk->micro[m].layers);
  g_free(chunk->micro);
}

static void free_chunks(Exec *x)
{
  for (int c = 0; c < x->layout->pipeline.shape.chunks; c++)
    clear_micro(x, &x->chunks[c]);
  clear_micro(x, &x->share);
  g_free(x->chunks);
}

static void free_runs(Exec *x)
{
  for (int lane = 0; lane < ALL_LANES; lane++) {
    for (guint i = 0; i < x->order[lane]->len; i++) {
      TaskRun *run = &x->runs[g_array_index(x->order[lane], int, i)];
      x->b->event_free(x->b, run->start);
      x->b->event_free(x->b, run->end);
    }
    g_array_unref(x->order[lane]);
  }
  x->b->event_free(x->b, x->begin);
  g_free(x->runs);
}

void exec_free(Exec *x)
{
  if (!x)
    return;
  x->b->poll = NULL;
  memory_clear(&x->memory);
  if (x->shards.units)
    shards_clear(&x->shards);
  tokens_clear(&x->tokens);
  if (x->outgoing)
    groups_clear(x);
  free_chunks(x);
  free_runs(x);
  exposure_clear(&x->exposure);
  for (int lane = 0; lane < ALL_LANES; lane++)
    if (x->lanes[lane])
      x->b->stream_free(x->b, x->lanes[lane]);
  if (x->beside)
    x->b->stream_free(x->b, x->beside);
  if (x->run.ready) {
    x->b->event_free(x->b, x->run.ready);
    x->b->event_free(x->b, x->run.arrived);
  }
  g_free(x);
}

guint64 exec_progress(const Exec *x)
{
  guint64 tasks = __atomic_load_n(&x->progress, __ATOMIC_RELAXED);

  return tasks > 0 ? tasks + __atomic_load_n(&x->b->activity, __ATOMIC_RELAXED) : 0;
}

guint64 exec_waits(const Exec *x)
{
  return __atomic_load_n(&x->waits, __ATOMIC_RELAXED);
}

void exec_phase(const Exec *x, char *text, gsize size)
{
  int current = g_atomic_int_get(&x->current);

  if (current < 0) {
    g_snprintf(text, size, "between steps %d and %d", x->step, x->step + 1);
    return;
  }
  const Task *t = exec_task(x, current);
  if (t->kind == TASK_PASS)
    g_snprintf(text, size, "step %d, %s of micro-batch %u, layers %d to %d", x->step, pass_names[t->pass], t->micro,
               exec_segment(x, current)->first_layer,
               exec_segment(x, current)->first_layer + exec_segment(x, current)->n_layers - 1);
  else
    g_snprintf(text, size, "step %d, %s", x->step, task_kind_names[t->kind]);
}
