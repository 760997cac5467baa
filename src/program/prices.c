/* What passes take and hold: layers' prices summed, and the memory of a rank. */
#include "program/build.h"

#include "cost/orthogonal.h"

#include <math.h>
#include <string.h>

/* A tensor-parallel rank's part of the embedding. */
static Tensor table_of(const Model *model, const PassLayout *p)
{
  return (Tensor) { op_vocab(model, p) / (double)p->tp, model->embed_dim ? model->embed_dim : model->hidden, 1 };
}

double table_params(const Model *model, const PassLayout *p)
{
  Tensor table = table_of(model, p);
  return table.rows * table.columns;
}

static double table_state_bytes(const Model *model, const PassLayout *p)
{
  Tensor table = table_of(model, p);
  return optimizer_tensor_bytes(&p->optimizer, &table);
}

/* The same where it is not trained. */
static Frozen frozen_table(const Model *model, const PassLayout *p)
{
  double params = table_params(model, p);
  return (Frozen) { params, params * adapter_frozen_bytes(&p->adapter, p->formats.precision, FALSE) };
}

/* Adds the table to a layer, or takes it away. */
static void move_table(const ProgramBuild *b, const Model *model, LayerPrice *layer, int sign)
{
  layer->params += sign * table_params(model, &b->layout->passes);
  layer->optimizer[0].state_bytes += sign * table_state_bytes(model, &b->layout->passes);
}

/* Prices that describe as much as the layout's own. */
static PriceTable *new_prices(const ProgramBuild *b, const Model *model, const Layout *layout)
{
  return (b->prices->ops ? price_table_described : price_table_new)(model, layout, b->cluster);
}

static gboolean runs(const GArray *ops, const char *name)
{
  for (guint i = 0; i < ops->len; i++)
    if (g_str_equal(g_array_index(ops, PassOp, i).op.name, name))
      return TRUE;
  return FALSE;
}

/* What the passes of one layer run beyond those of another. */
static LayerOps *ops_difference(const LayerOps *a, const LayerOps *b)
{
  LayerOps *more = g_new0(LayerOps, 1);

  for (int pass = 0; pass < PASS_COUNT; pass++) {
    if (!a->pass[pass])
      continue;
    pass_parts_add(&more->parts[pass], &a->parts[pass], 1);
    pass_parts_add(&more->parts[pass], &b->parts[pass], -1);
    more->pass[pass] = g_array_new(FALSE, FALSE, sizeof(PassOp));
    for (guint i = 0; i < a->pass[pass]->len; i++) {
      const PassOp *op = &g_array_index(a->pass[pass], PassOp, i);
      if (!runs(b->pass[pass], op->op.name))
        g_array_append_vals(more->pass[pass], op, 1);
    }
  }
  return more;
}

static LayerPrice price_difference(LayerPrice a, const LayerPrice *b)
{
  for (int i = 0; i < PASS_COUNT; i++) {
    a.pass[i].seconds -= b->pass[i].seconds;
    a.pass[i].compute_s -= b->pass[i].compute_s;
    a.pass[i].tensor_s -= b->pass[i].tensor_s;
    a.pass[i].context_s -= b->pass[i].context_s;
    a.pass[i].expert_s -= b->pass[i].expert_s;
    a.pass[i].alone_s -= b->pass[i].alone_s;
    a.pass[i].crowded_s -= b->pass[i].crowded_s;
    a.pass[i].flops -= b->pass[i].flops;
    a.pass[i].idle_s -= b->pass[i].idle_s;
    a.pass[i].host_s -= b->pass[i].host_s;
    a.pass[i].slack_s -= b->pass[i].slack_s;
  }
  a.params -= b->params;
  a.optimizer[0].state_bytes -= b->optimizer[0].state_bytes;
  a.saved_bytes -= b->saved_bytes;
  a.deferred_bytes -= b->deferred_bytes;
  return a;
}

/* Embedding and head of a vocabulary divided over the ranks: the share's matrix
 * joins the head's share, the lookup keeps what else it holds, the final norm
 * stays with the last stage. */
static PriceTable *shares_new(ProgramBuild *b)
{
  Model share = *b->model;
  int last = share.layers[share.n_layers - 1], end = share.n_layers - 1;
  int type = b->sites[pipeline_rank(&b->layout->pipeline, b->stages - 1, 0)].type;

  share.vocab = (b->model->vocab + b->shape.ranks - 1) / b->shape.ranks;
  g_autoptr(PriceTable) normed = new_prices(b, &share, b->layout);
  share.specs = g_memdup2(share.specs, share.n_specs * sizeof *share.specs);
  share.specs[last].norms = 0;
  PriceTable *prices = new_prices(b, &share, b->layout);
  const LayerPrice *bare = price_of_layer(prices, &share, type, end);
  b->final_norm = price_difference(*price_of_layer(normed, &share, type, end), bare);
  if (prices->ops) {
    LayerOps *norm = ops_difference(b->final_norm.ops, bare->ops);
    g_ptr_array_add(prices->ops, norm);
    b->final_norm.ops = norm;
  }
  move_table(b, &share, price_of_layer(prices, &share, 0, 0), -1);
  move_table(b, &share, price_of_layer(prices, &share, 0, end), 1);
  g_free(share.specs);
  return prices;
}

void prices_init(ProgramBuild *b)
{
  Layout keeping = layout_keeping(b->layout);

  if (b->program->remakes)
    b->stored = new_prices(b, b->model, &keeping);
  if (b->layout->pipeline.schedule->vocabulary)
    b->shares = shares_new(b);
}

void prices_clear(ProgramBuild *b)
{
  g_clear_pointer(&b->stored, price_table_free);
  g_clear_pointer(&b->shares, price_table_free);
}

/* The layer's price in a table that may replace the layout's own for the ends. */
const LayerPrice *price_of(const ProgramBuild *b, int node_type, int layer)
{
  gboolean end = layer == 0 || layer == b->model->n_layers - 1;
  const PriceTable *prices = end && b->shares ? b->shares : b->prices;

  return price_of_layer(prices, b->model, node_type, layer);
}

/* Whether the layer's stage keeps a copy of the embedding's table. */
static gboolean copies_table(const ProgramBuild *b, int layer)
{
  return model_layer(b->model, layer)->entry && pipeline_entry_copies(&b->layout->pipeline, b->model);
}

static double copied_params(const ProgramBuild *b, int layer)
{
  gboolean trained = !adapter_freezes(&b->layout->passes.adapter);

  return trained && copies_table(b, layer) ? table_params(b->model, &b->layout->passes) : 0;
}

static Frozen frozen_of_layer(const ProgramBuild *b, int layer, gboolean experts)
{
  gboolean copied = !experts && adapter_freezes(&b->layout->passes.adapter) && copies_table(b, layer);
  Frozen own = price_of(b, 0, layer)->frozen[experts != 0];

  return copied ? frozen_sum(own, frozen_table(b->model, &b->layout->passes)) : own;
}

/* Parameters are the same on all devices. */
double params_of(const ProgramBuild *b, Piece piece, gboolean experts)
{
  double params = 0;
  for (int i = piece.first_layer; i < piece.first_layer + piece.n_layers; i++)
    params += experts ? price_of(b, 0, i)->expert_params : price_of(b, 0, i)->params + copied_params(b, i);
  return params;
}

double narrow_of(const ProgramBuild *b, Piece piece, gboolean experts)
{
  double narrow = 0;

  for (int i = piece.first_layer; i < piece.first_layer + piece.n_layers; i++)
    narrow += price_of(b, 0, i)->narrow[experts];
  return narrow;
}

Frozen frozen_of(const ProgramBuild *b, Piece piece, gboolean experts)
{
  Frozen frozen = { 0 };

  for (int i = piece.first_layer; i < piece.first_layer + piece.n_layers; i++)
    frozen = frozen_sum(frozen, frozen_of_layer(b, i, experts));
  return frozen;
}

Frozen fetched_frozen(const ProgramBuild *b, Piece piece, gboolean experts)
{
  const StateLayout *states = states_of(b, piece.strategy, experts);

  return states->zero == 3 || states->framework->single_process ? frozen_of(b, piece, experts) : (Frozen) { 0 };
}

double gathered_params(const ProgramBuild *b, Piece piece, gboolean experts)
{
  double params = params_of(b, piece, experts);

  for (int i = piece.first_layer; i < piece.first_layer + piece.n_layers && !experts; i++)
    params -= price_of(b, 0, i)->whole;
  return params;
}

/* Prices of a layer's passes without their recomputation. */
static const LayerPrice *stored_of(const ProgramBuild *b, int node_type, int layer)
{
  return b->stored ? price_of_layer(b->stored, b->model, node_type, layer) : price_of(b, node_type, layer);
}

void segment_clear(gpointer segment)
{
  g_clear_pointer(&((Segment *)segment)->passes, g_array_unref);
}

static void clear_pass(gpointer pass)
{
  g_array_unref(((LayerPass *)pass)->ops);
}

static void add_pass(Segment *s, LayerPass run)
{
  gboolean backward = pass_is_backward(s->pass) || s->pass == PASS_WEIGHT;

  if (!s->passes) {
    s->passes = g_array_new(FALSE, FALSE, sizeof(LayerPass));
    g_array_set_clear_func(s->passes, clear_pass);
  }
  if (backward) /* the last layer comes first */
    g_array_prepend_val(s->passes, run);
  else
    g_array_append_val(s->passes, run);
}

/* Forwards that a slot of their own makes again. */
static void make_again(PassParts *p)
{
  static const ComputePart made[] = { COMPUTE_PRODUCTS, COMPUTE_ATTENTION, COMPUTE_MEMORY, COMPUTE_UNEVEN };

  for (gsize i = 0; i < G_N_ELEMENTS(made); i++) {
    p->seconds[COMPUTE_AGAIN] += p->seconds[made[i]];
    p->seconds[made[i]] = 0;
  }
  memset(p->peak_s, 0, sizeof p->peak_s);
}

gboolean segment_parts(const Segment *s, PassParts *out)
{
  double sum = 0;

  *out = (PassParts) { 0 };
  for (guint i = 0; s->passes && i < s->passes->len; i++)
    pass_parts_add(out, &g_array_index(s->passes, LayerPass, i).parts, 1);
  if (s->pass == PASS_RECOMPUTE)
    make_again(out);
  out->seconds[COMPUTE_SLOWED] += s->beyond_s;
  for (int i = 0; i < COMPUTE_COUNT; i++)
    sum += out->seconds[i];
  out->seconds[COMPUTE_SLOWEST] += s->compute_s - sum; /* program_meet() */
  return s->passes != NULL || s->compute_s == 0;
}

static void add_price(Segment *s, int layer, const LayerPrice *priced, Pass pass)
{
  const PassPrice *price = &priced->pass[pass];

  if (priced->ops)
    add_pass(s, (LayerPass) { layer, pass, price->seconds, g_array_ref(priced->ops->pass[pass]),
                              priced->ops->parts[pass] });
  s->seconds += price->seconds;
  s->compute_s += price->compute_s;
  s->slack_s += price->slack_s;
  s->tensor_s += price->tensor_s;
  s->crowded_s += price->crowded_s;
  s->context_s += price->context_s;
  s->expert_s += price->expert_s;
  s->alone_s += price->alone_s;
  s->hardware_flops += price->flops;
}

/* S and T of the share; with one barrier S makes the input gradient already. */
static void add_vocabulary(const ProgramBuild *b, Segment *s, int layer, const LayerPrice *price, Pass pass)
{
  gboolean early = b->layout->pipeline.schedule->vocabulary == 1;

  if (pass == PASS_LOGITS) {
    add_price(s, layer, price, PASS_FORWARD);
    if (early)
      add_price(s, layer, price, PASS_INPUT);
  } else {
    add_price(s, layer, price, early ? PASS_WEIGHT : PASS_BACKWARD);
  }
}

double held_bytes(const LayerPrice *price, const LayerPrice *stored, const Chunk *chunk, Pass pass)
{
  switch (pass) {
  case PASS_FORWARD:
    return chunk->remade ? price->saved_bytes : stored->saved_bytes;
  case PASS_RECOMPUTE:
    return stored->saved_bytes - price->saved_bytes;
  case PASS_INPUT:
    return price->deferred_bytes - price->saved_bytes;
  case PASS_WEIGHT:
    return -price->deferred_bytes;
  case PASS_LOGITS:
    return price->saved_bytes;
  default:
    return -stored->saved_bytes;
  }
}

double layer_held(const ProgramBuild *b, const Chunk *chunk, int layer, Pass pass)
{
  int type = b->sites[chunk->rank].type;

  return held_bytes(price_of(b, type, layer), stored_of(b, type, layer), chunk, pass);
}

static gboolean is_forward(Pass pass)
{
  return pass == PASS_FORWARD || pass == PASS_RECOMPUTE || pass == PASS_LOGITS;
}

/* Activations of the segment that are not there while a layer runs: a forward has yet to reach the layers behind it,
 * a backward has been there. Only of tdp-run, whose scratch is known to the byte; others' is the worst of a layer
 * beside all activations, as it was compared with what they held. */
static double absent_bytes(const ProgramBuild *b, const Chunk *chunk, const Segment *s, int layer)
{
  double behind = 0;

  if (!executor_memory(b))
    return 0;
  for (int i = layer + 1; i < s->first_layer + s->n_layers; i++)
    behind += layer_held(b, chunk, i, s->pass);
  return is_forward(s->pass) ? behind : MAX(s->activation_bytes, 0) - behind;
}

/* What a layer's pass of tdp-run holds for a while (op/scratch.c). A forward has what is made again later until its
 * layer ends; where weights' gradients are made behind, all is there but their inputs' rows of other ranks. */
static double executor_scratch(const ProgramBuild *b, const Chunk *chunk, const LayerPrice *price, Pass pass)
{
  const PassLayout *p = &b->layout->passes;
  gboolean forgets = pass == PASS_FORWARD && (chunk->remade || !b->stored);

  if (pass == PASS_WEIGHT)
    return p->sequence_parallel ? p->tp * op_boundary_bytes(b->model, p) : 0;
  if (is_forward(pass))
    return price->forward_bytes + (forgets ? price->recomputed_bytes : 0);
  return price->transient_bytes + (pass_is_backward(pass) ? price->recomputed_bytes : 0);
}

static double layer_scratch(const ProgramBuild *b, const Chunk *chunk, const LayerPrice *price, Pass pass)
{
  if (executor_memory(b))
    return executor_scratch(b, chunk, price, pass);
  return price->transient_bytes + (pass == PASS_INPUT ? price->split_bytes : 0) +
         (pass_is_backward(pass) ? price->recomputed_bytes : 0);
}

/* The price of a layer that a pass runs: where forwards are made again as passes of their own, backwards make none. */
static const LayerPrice *price_in(const ProgramBuild *b, int node_type, int layer, Pass pass)
{
  return pass_is_backward(pass) ? stored_of(b, node_type, layer) : price_of(b, node_type, layer);
}

/* Gradients that a layer's pass leaves at its end: those that are added to the accumulated ones then, or a table's. */
static double last_gradients(const ProgramBuild *b, const Chunk *chunk, int layer, Pass pass)
{
  const LayerPrice *price = price_in(b, b->sites[chunk->rank].type, layer, pass);
  double copies = 0;

  for (int experts = 0; experts < 2; experts++)
    copies += op_dropped_copy_bytes(states_of(b, b->strategy[layer], experts)) *
              (experts ? price->expert_params : price->params);
  return copies > 0 ? copies : price->table_bytes;
}

/* A table's gradient is the last of a pass, which by then has given back what was kept for it. */
static void add_last_gradients(const ProgramBuild *b, const Chunk *chunk, Segment *s)
{
  double bytes = 0;

  for (int i = s->first_layer; i < s->first_layer + s->n_layers && pass_makes_weight_gradient(s->pass); i++)
    bytes += last_gradients(b, chunk, i, s->pass);
  if (bytes + s->activation_bytes <= s->alloc_bytes - s->absent_bytes || bytes == 0)
    return;
  s->alloc_bytes = MAX(0, bytes + s->activation_bytes);
  s->absent_bytes = 0;
}

/* What the pass holds for a while beside activations, where both are most. */
static void add_scratch(const ProgramBuild *b, const Chunk *chunk, Segment *s)
{
  int type = b->sites[chunk->rank].type;
  double most = -INFINITY;

  for (int i = s->first_layer; i < s->first_layer + s->n_layers; i++) {
    double scratch = layer_scratch(b, chunk, price_in(b, type, i, s->pass), s->pass);
    double absent = absent_bytes(b, chunk, s, i);
    if (scratch - absent > most) {
      most = scratch - absent;
      s->alloc_bytes = scratch;
      s->absent_bytes = absent;
    }
  }
}

Segment pass_segment(const ProgramBuild *b, const Chunk *chunk, Piece piece, Pass pass, gboolean releases)
{
  Segment s = { .kind = TASK_PASS, .pass = pass, .first_layer = piece.first_layer, .n_layers = piece.n_layers,
                .slowdown = 1 };
  int type = b->sites[chunk->rank].type;

  for (int i = piece.first_layer; i < piece.first_layer + piece.n_layers; i++) {
    const LayerPrice *price = price_in(b, type, i, pass);
    if (pass_is_vocabulary(pass))
      add_vocabulary(b, &s, i, price, pass);
    else if (pass != PASS_RECOMPUTE || price->recomputed_bytes > 0)
      add_price(&s, i, price, pass == PASS_RECOMPUTE ? PASS_FORWARD : pass);
    s.activation_bytes += layer_held(b, chunk, i, pass);
  }
  if (b->shares && !pass_is_vocabulary(pass) && piece.first_layer + piece.n_layers == b->model->n_layers - 1) {
    add_price(&s, b->model->n_layers - 1, &b->final_norm, pass);
    s.activation_bytes += held_bytes(&b->final_norm, &b->final_norm, chunk, pass);
  }
  s.walked_bytes = beyond_walked(b, chunk, piece, pass);
  received_pass(b, chunk, &s);
  add_scratch(b, chunk, &s);
  add_last_gradients(b, chunk, &s);
  sent_pass(b, chunk, &s);
  s.compute_s = MIN(s.compute_s, s.seconds);
  amax_meet(b, chunk, piece, &s);
  loss_meet(b, chunk, piece, &s);
  s.free_bytes = s.alloc_bytes;
  beside_pass(b, chunk, &s);
  if (releases)
    s.free_bytes += piece_weight_bytes(b, piece);
  if (pass_makes_weight_gradient(pass))
    s.alloc_bytes += piece_gradient_bytes(b, piece);
  return s;
}

Piece stage_layers(const ProgramBuild *b, int stage)
{
  int first = stage_first_layer(&b->layout->pipeline.cut, b->model, stage);
  int end = stage_first_layer(&b->layout->pipeline.cut, b->model, stage + 1);
  gboolean spread = b->shares && stage == b->stages - 1;

  return (Piece) { first, end - first - spread };
}

static void add_layer(const ProgramBuild *b, RankWeights *w, int i)
{
  const LayerPrice *layer = price_of(b, 0, i);
  double copied = copied_params(b, i);
  gboolean head = i == b->model->n_layers - 1;

  for (int experts = 0; experts < 2; experts++) {
    optimizer_work_add(&w->optimizer[experts], &layer->optimizer[experts]);
    w->frozen[experts] = frozen_sum(w->frozen[experts], frozen_of_layer(b, i, experts));
    w->narrow[experts] += layer->narrow[experts];
  }
  w->params[0] += layer->params + copied;
  w->optimizer[0].state_bytes += copied > 0 ? table_state_bytes(b->model, &b->layout->passes) : 0;
  w->params[1] += layer->expert_params;
  w->whole += layer->whole;
  w->largest = MAX(w->largest, layer->largest);
  w->placeholder_bytes = placeholders_with(w->placeholder_bytes, layer);
  w->block_bytes = MAX(w->block_bytes, head ? 0 : layer->block_bytes);
  w->left_bytes += head ? layer->saved_bytes : 0;
}

/* Once the blocks of all layers are known. */
static void add_apart(const ProgramBuild *b, RankWeights *w, int i)
{
  const LayerPrice *layer = price_of(b, 0, i);

  if (layer->largest * dtype_bytes[DTYPE_FP32] <= w->block_bytes)
    return;
  w->apart[0] += layer->params + copied_params(b, i);
  w->apart[1] += layer->expert_params;
}

static void add_final_norm(const ProgramBuild *b, RankWeights *w)
{
  w->params[0] += b->final_norm.params;
  w->optimizer[0].state_bytes += b->final_norm.optimizer[0].state_bytes;
}

static void add_layers(const ProgramBuild *b, RankWeights *w, int strategy, Piece layers,
                       void (*add)(const ProgramBuild *b, RankWeights *w, int layer))
{
  for (int i = layers.first_layer; i < layers.first_layer + layers.n_layers; i++)
    if (b->strategy[i] == strategy)
      add(b, w, i);
}

static void add_rank(const ProgramBuild *b, RankWeights *w, int rank, int strategy,
                     void (*add)(const ProgramBuild *b, RankWeights *w, int layer))
{
  if (b->shares)
    add_layers(b, w, strategy, (Piece) { b->model->n_layers - 1, 1 }, add);
  for (int chunk = 0; chunk < b->shape.chunks; chunk++)
    add_layers(b, w, strategy, stage_layers(b, program_stage(b, rank, chunk)), add);
}

RankWeights rank_weights(const ProgramBuild *b, int rank, int strategy)
{
  RankWeights w = { 0 };

  add_rank(b, &w, rank, strategy, add_layer);
  if (b->shares && rank == pipeline_rank(&b->layout->pipeline, b->stages - 1, 0))
    add_final_norm(b, &w);
  add_rank(b, &w, rank, strategy, add_apart);
  return w;
}

static void add_states(const StateLayout *s, const Device *device, const RankWeights *w, gboolean experts,
                       double bytes[PART_COUNT])
{
  HeldBytes held = op_held(s, device, w->params[experts], w->narrow[experts], w->frozen[experts],
                           w->optimizer[experts].state_bytes);

  bytes[PART_WEIGHTS] += held.states.weights;
  bytes[PART_GRADIENTS] += held.states.gradients;
  bytes[PART_OPTIMIZER] += held.states.optimizer;
  bytes[PART_BUFFERS] += held.bucket_bytes;
}

/* Whether a strategy's groups are another one's, which has been counted. */
static gboolean shares_groups(const ProgramBuild *b, int strategy)
{
  for (int i = 0; i < strategy; i++)
    if (states_of(b, i, FALSE)->tensor == states_of(b, strategy, FALSE)->tensor)
      return TRUE;
  return FALSE;
}

static double updated_taken(const ProgramBuild *b, int strategy, const RankWeights *w)
{
  double bytes = 0;

  for (int experts = 0; experts < 2; experts++) {
    const StateLayout *s = states_of(b, strategy, experts);
    double updated = s->gathers_at_end ? op_gathered_bytes(s, w->params[experts], w->narrow[experts]) : 0;
    bytes += op_updated_taken(s, updated, w->block_bytes, experts ? 0 : w->left_bytes);
  }
  return bytes;
}

static void add_strategy(const ProgramBuild *b, int rank, int strategy, ProgramRow *row)
{
  RankWeights w = rank_weights(b, rank, strategy);
  const StateLayout *states = states_of(b, strategy, FALSE);

  for (int experts = 0; experts < 2; experts++)
    add_states(states_of(b, strategy, experts), &site_of(b, strategy, rank)->cluster->device, &w, experts,
               row->static_bytes);
  if (w.whole > 0)
    row->static_bytes[PART_WEIGHTS] += w.whole * (op_kept_bytes(states, 1, 0) - op_states(states).weights);
  row->static_bytes[PART_BUFFERS] += w.placeholder_bytes;
  row->cached_bytes += op_step_bytes(states, w.params[0] + w.params[1], w.largest);
  row->taken_bytes += op_step_taken(b->strategies[strategy].states, w.apart, w.left_bytes);
  row->taken_bytes += updated_taken(b, strategy, &w);
  if (strategy > 0 && w.params[0] > 0 && !shares_groups(b, strategy))
    row->static_bytes[PART_OVERHEAD] += op_layer_groups(&b->strategies[strategy]) * states->framework->group_bytes;
}

/* The embedding of a group that stays gathered; the head's weights are counted while it runs, when most is held. */
static double root_bytes(const ProgramBuild *b, int rank)
{
  const StateLayout *s = states_of(b, b->strategy[0], FALSE);
  gboolean stays = s->framework->root_group && s->fetches_weights && rank == pipeline_rank(&b->layout->pipeline, 0, 0);
  return stays ? op_gathered_bytes(s, price_of(b, 0, 0)->params, 0) : 0;
}

void row_memory(const ProgramBuild *b, int rank, ProgramRow *row)
{
  memset(row->static_bytes, 0, sizeof row->static_bytes);
  row->cached_bytes = row->taken_bytes = 0;
  row->static_bytes[PART_OVERHEAD] = op_overhead_bytes(b->layout);
  for (int i = 0; i < b->n_strategies; i++)
    add_strategy(b, rank, i, row);
  row->static_bytes[PART_BUFFERS] += beside_bytes(b, rank) + root_bytes(b, rank);
  row->capacity_bytes = b->sites[rank].cluster->device.memory_bytes;
}
