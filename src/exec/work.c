/* What tasks of the pipeline do: passes and sends. */
#include "exec/rank.h"

static MicroState *micro_of(Exec *x, int task)
{
  const Task *t = exec_task(x, task);
  return &x->chunks[t->chunk].micro[t->micro];
}

/* Micro-batches are dealt to the data-parallel ranks in turn; of a sequence this rank
 * has its context-parallel places. */
int32_t *tokens_host(const Exec *x, int micro)
{
  const LayerShape *shape = &x->shape;
  int seq = x->tokens.seq, dealt = micro * x->layout->mesh.dense[AXIS_DATA].size + x->coordinates[AXIS_DATA];
  guint64 first = (guint64)(x->step - 1) * x->layout->global_batch + (guint64)dealt * shape->micro_batch;
  g_autofree int32_t *whole = g_new(int32_t, 2 * seq);
  int32_t *host = g_new(int32_t, 2 * (gsize)shape->tokens);

  for (int i = 0; i < shape->micro_batch; i++) {
    tokens_sequence(&x->tokens, first + i, whole, whole + seq);
    for (int row = 0; row < shape->seq; row++) {
      int place = exec_place(&shape->places, row), at = i * shape->seq + row;
      host[at] = whole[place];
      host[shape->tokens + at] = whole[seq + place];
    }
  }
  return host;
}

void tokens_load(Exec *x, MicroState *m, int micro)
{
  gsize bytes = 2 * (gsize)x->shape.tokens * sizeof(int32_t);

  if (m->tokens)
    return;
  g_autofree int32_t *host = tokens_host(x, micro);
  m->tokens = memory_alloc(&x->memory, x->run.s, PART_BUFFERS, bytes);
  x->b->upload(x->b, x->run.s, m->tokens, host, bytes);
}

static LayerState *state_of(Exec *x, int task, int layer)
{
  const ChunkState *chunk = &x->chunks[exec_task(x, task)->chunk];
  MicroState *m = micro_of(x, task);
  LayerState *state = &m->layers[layer - chunk->first_layer];

  if (model_layer(x->model, layer)->kind != LAYER_BLOCK && !x->shape.spread) {
    tokens_load(x, m, exec_task(x, task)->micro);
    state->tokens = m->tokens;
    state->labels = m->tokens + x->shape.tokens;
  }
  return state;
}

/* Hands a chunk's result to the next stage on this rank, or leaves it for a send. */
static void deliver(Exec *x, int task, gboolean backward, void *result)
{
  const Task *t = exec_task(x, task);
  const ChunkState *chunk = &x->chunks[t->chunk];
  ChunkState *next = chunk_find(x, chunk->stage + (backward ? -1 : 1), chunk->copy);

  if (next)
    next->micro[t->micro].in[backward] = result;
  else
    chunk->micro[t->micro].out[backward] = result;
}

/* Where a piece's input comes from and its result goes. */
static void *take_flow(Exec *x, int task, gboolean backward, gboolean entry)
{
  MicroState *m = micro_of(x, task);
  void **from = entry ? &m->in[backward] : &m->between[backward];
  return g_steal_pointer(from);
}

static void give_flow(Exec *x, int task, gboolean backward, gboolean exit, void *result)
{
  if (exit && result)
    deliver(x, task, backward, result);
  else
    micro_of(x, task)->between[backward] = result;
}

/* Whether the stage hands its output to a spread head. */
static gboolean feeds_shares(const Exec *x, const ChunkState *chunk, int end_layer)
{
  return x->shape.final_norm && end_layer == chunk->end_layer;
}

/* The final norm as the last stage keeps it: behind its layers. */
static LayerState *norm_state(Exec *x, int task)
{
  const ChunkState *chunk = &x->chunks[exec_task(x, task)->chunk];

  return &micro_of(x, task)->layers[chunk->end_layer - chunk->first_layer];
}

static void forward(Exec *x, int task)
{
  const Segment *s = exec_segment(x, task);
  const ChunkState *chunk = &x->chunks[exec_task(x, task)->chunk];
  int end = s->first_layer + s->n_layers;
  void *flow = take_flow(x, task, FALSE, s->first_layer == chunk->first_layer);

  if (flow)
    memory_retag(&x->memory, flow, PART_ACTIVATIONS);
  for (int layer = s->first_layer; layer < end; layer++) {
    LayerWeights w = shards_weights(&x->shards, layer);
    flow = layer_forward(&x->run, &w, state_of(x, task, layer), flow, chunk->keeps);
  }
  if (feeds_shares(x, chunk, end)) {
    LayerWeights w = exec_head_weights(x);
    x->share.micro[exec_task(x, task)->micro].in[0] = spread_norm(&x->run, &w, norm_state(x, task), flow);
    return;
  }
  if (flow && end == chunk->end_layer)
    memory_retag(&x->memory, flow, PART_BUFFERS);
  give_flow(x, task, FALSE, end == chunk->end_layer, flow);
}

static void backward(Exec *x, int task)
{
  const Segment *s = exec_segment(x, task);
  const ChunkState *chunk = &x->chunks[exec_task(x, task)->chunk];
  int end = s->first_layer + s->n_layers;
  void *flow = take_flow(x, task, TRUE, end == chunk->end_layer);
  LayerRun run = x->run;

  run.overlaps = s->pass == PASS_BACKWARD && exec_overlaps_sums(x);
  if (feeds_shares(x, chunk, end)) {
    LayerWeights w = exec_head_weights(x);
    flow = spread_norm_backward(&x->run, &w, norm_state(x, task), flow);
  }
  for (int layer = end - 1; layer >= s->first_layer; layer--) {
    LayerWeights w = shards_weights(&x->shards, layer);
    LayerState *state = state_of(x, task, layer);
    flow = layer_backward_input(&run, &w, state, flow);
    if (s->pass == PASS_BACKWARD)
      layer_backward_weight(&run, &w, state);
    else
      layer_defer(&run, state);
    if (state->gathered)
      flow = g_steal_pointer(&state->gathered);
  }
  give_flow(x, task, TRUE, s->first_layer == chunk->first_layer, flow);
}

static void remake(Exec *x, int task)
{
  const Segment *s = exec_segment(x, task);

  for (int layer = s->first_layer; layer < s->first_layer + s->n_layers; layer++) {
    LayerWeights w = shards_weights(&x->shards, layer);
    layer_remake(&x->run, &w, state_of(x, task, layer));
  }
}

static void weight(Exec *x, int task)
{
  const Segment *s = exec_segment(x, task);

  for (int layer = s->first_layer + s->n_layers - 1; layer >= s->first_layer; layer--) {
    LayerWeights w = shards_weights(&x->shards, layer);
    layer_backward_weight(&x->run, &w, state_of(x, task, layer));
  }
}

/* Whole gradients of ZeRO-2 and 3, from the first pass that makes weights' until they are reduced. */
static void open_gradients(Exec *x, const Segment *s)
{
  void (*open)(Shards *, Unit *, BackendStream *) = s->pass == PASS_INPUT ? shards_open_early : shards_open;
  gboolean head = s->first_layer + s->n_layers == x->model->n_layers;

  for (Unit *u = shards_next(&x->shards, NULL, 0, 0); u; u = shards_next(&x->shards, u, 0, 0)) {
    gboolean mine = u->first_layer >= s->first_layer && u->end_layer <= s->first_layer + s->n_layers;
    gboolean table = x->shards.share_table && head && unit_is_table(u);
    if (mine || table)
      open(&x->shards, u, x->run.s);
  }
}

/* Gathered weights of ZeRO-3 have served; one copy of a shared table stays for the head. */
static void close_weights(Exec *x, const Segment *s)
{
  for (Unit *u = shards_next(&x->shards, NULL, s->first_layer, s->n_layers); u;
       u = shards_next(&x->shards, u, s->first_layer, s->n_layers)) {
    if (u->states->weight_parts == 1)
      continue;
    void *used = g_queue_pop_head(u->gathered);
    if (x->shards.share_table && unit_is_table(u) && !u->held)
      u->held = used;
    else
      memory_release(&x->memory, x->run.s, used);
  }
}

static void drop_tokens(Exec *x, int task)
{
  const ChunkState *chunk = &x->chunks[exec_task(x, task)->chunk];
  MicroState *m = micro_of(x, task);

  if (exec_segment(x, task)->first_layer == chunk->first_layer)
    memory_release(&x->memory, x->run.s, g_steal_pointer(&m->tokens));
}

static void work_pass(Exec *x, int task, BackendStream *stream)
{
  static void (*const passes[PASS_COUNT])(Exec *, int) = {
    [PASS_FORWARD] = forward, [PASS_BACKWARD] = backward, [PASS_INPUT] = backward, [PASS_WEIGHT] = weight,
    [PASS_RECOMPUTE] = remake, [PASS_LOGITS] = pass_logits, [PASS_VOCAB] = pass_vocabulary,
  };
  const Segment *s = exec_segment(x, task);
  gboolean makes_gradients = s->pass == PASS_BACKWARD || s->pass == PASS_WEIGHT;

  g_assert(stream == x->run.s);
  if (s->pass != PASS_FORWARD && s->pass != PASS_RECOMPUTE)
    open_gradients(x, s);
  passes[s->pass](x, task);
  if (s->pass != PASS_WEIGHT)
    close_weights(x, s);
  if (makes_gradients)
    drop_tokens(x, task);
}

static int row_after(const Exec *x, int task)
{
  const ChunkState *chunk = &x->chunks[exec_task(x, task)->chunk];
  int stage = chunk->stage + (exec_task(x, task)->pass == PASS_FORWARD ? 1 : -1);

  return pipeline_rank(&x->layout->pipeline, stage, chunk->copy);
}

static void work_send(Exec *x, int task, BackendStream *s)
{
  gboolean backward = exec_task(x, task)->pass != PASS_FORWARD;
  gboolean scatter = x->layout->pipeline.scatters_sends;
  gsize n = (gsize)x->shape.rows * x->shape.hidden / (scatter ? x->shape.tp : 1);
  char *buffer = g_steal_pointer(&micro_of(x, task)->out[backward]);

  x->b->send(x->b, x->outgoing[row_after(x, task)], s, buffer + (scatter ? n * x->shape.tp_rank * x->run.bytes : 0), n,
             x->b->dtype, 1);
  x->runs[task].moved += n;
  memory_release(&x->memory, s, buffer);
}

void (*const task_work[TASK_KIND_COUNT])(Exec *, int, BackendStream *) = {
  [TASK_PASS] = work_pass, [TASK_SEND] = work_send, [TASK_GATHER] = work_gather, [TASK_REDUCE] = work_reduce,
  [TASK_TIED] = work_tied, [TASK_COPIES] = work_copies, [TASK_NORM] = work_norm, [TASK_OPTIMIZER] = work_optimizer,
  [TASK_VOCAB] = work_exchange,
};
