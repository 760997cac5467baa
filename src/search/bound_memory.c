#include "search/bound_parts.h"

#include <math.h>

/* Scratch of a rank's backward at least, beside the schedule's peak: all of a stage is there while its last layer's
 * runs. With split backwards a weight gradient may come between; an embedding alone needs none. */
static double scratch(const Bound *b, gboolean last)
{
  const LayerSplit *split = &b->layout->pipeline.cut.split;
  const double *scratch = b->sums->scratch;

  if (b->layout->pipeline.schedule->split || (split->stages && split->layers[0] == 0))
    return 0;
  return last ? MIN(scratch[0], scratch[1]) : scratch[0];
}

/* Whatever a weight of either kind takes. */
static gboolean weighs_as_much(const BoundWeights *a, const BoundWeights *b)
{
  gboolean all = TRUE;

  for (int kind = 0; kind < 2; kind++)
    all &= a->params[kind] >= b->params[kind] && a->frozen[kind] >= b->frozen[kind] &&
           a->narrow[kind] >= b->narrow[kind] &&
           a->params[kind] - a->narrow[kind] >= b->params[kind] - b->narrow[kind];
  return all;
}

static gboolean as_much(const RankBytes *a, const RankBytes *b)
{
  return a->device == b->device && a->dynamic >= b->dynamic && a->beside >= b->beside &&
         a->placeholder_bytes >= b->placeholder_bytes &&
         a->behind >= b->behind && weighs_as_much(&a->weights, &b->weights) && weighs_as_much(&a->layer, &b->layer) &&
         weighs_as_much(&a->both, &b->both);
}

/* Keeps a rank unless another holds as much of both; of too many, any may go. */
static void add_rank(BoundRanks *all, RankBytes rank)
{
  int kept = 0;

  for (int i = 0; i < all->n; i++)
    if (as_much(&all->ranks[i], &rank))
      return;
  for (int i = 0; i < all->n; i++)
    if (!as_much(&rank, &all->ranks[i]))
      all->ranks[kept++] = all->ranks[i];
  all->n = MIN(kept, BOUND_RANKS - 1);
  all->ranks[all->n++] = rank;
}

/* Of what forwards leave, what stays on the device at least: at their end all of the blocks that keep theirs. */
static double staying_bytes(const Bound *b, double activations)
{
  const Offload *o = &b->layout->states[0].offload;
  const double *saved = b->sums->saved;

  if (o->layers > 0)
    return saved[b->model->blocks + 1] - saved[MIN(o->layers, b->model->blocks) + 1];
  return o->activations ? 0 : activations;
}

/* The last layers of a rank's chunks, whose backwards come first: of all chunks the least. */
typedef struct {
  int chunks;
  BoundWeights last, both; /* of the last one, and with the one before */
  double saved_bytes;      /* of the last one, at most */
} ChunkEnds;

static BoundWeights least_weights(const BoundWeights *a, const BoundWeights *b)
{
  BoundWeights least = { 0 };

  for (int kind = 0; kind < 2; kind++) {
    least.narrow[kind] = MIN(a->narrow[kind], b->narrow[kind]);
    least.params[kind] = MIN(a->params[kind] - a->narrow[kind], b->params[kind] - b->narrow[kind]) + least.narrow[kind];
    least.frozen[kind] = MIN(a->frozen[kind], b->frozen[kind]);
  }
  return least;
}

static BoundWeights weights_and(const BoundWeights *a, const BoundWeights *b)
{
  BoundWeights both = { 0 };

  for (int kind = 0; kind < 2; kind++) {
    both.params[kind] = a->params[kind] + b->params[kind];
    both.narrow[kind] = a->narrow[kind] + b->narrow[kind];
    both.frozen[kind] = a->frozen[kind] + b->frozen[kind];
  }
  return both;
}

static void add_chunk_end(const Bound *b, ChunkEnds *ends, int stage)
{
  const double *saved = b->sums->saved;
  int first = bound_first_layer(b, stage), n = bound_first_layer(b, stage + 1);
  BoundWeights last = { 0 }, both = { 0 };

  if (n > first)
    last = bound_weights_of(b, n - 1);
  if (n > first + 1) {
    BoundWeights before = bound_weights_of(b, n - 2);
    both = weights_and(&last, &before);
  }
  ends->last = ends->chunks ? least_weights(&ends->last, &last) : last;
  ends->both = ends->chunks ? least_weights(&ends->both, &both) : both;
  ends->saved_bytes = MAX(ends->saved_bytes, saved[n] - saved[MAX(n - 1, 0)]);
  ends->chunks++;
}

/* While the backward of the last stage comes by its last layer, and by the block before, beside what is left of one
 * forward there. */
static void add_ending(const Bound *b, RankBytes *r)
{
  const double *saved = b->sums->saved;
  int n = b->model->n_layers, last = b->stages - 1;
  double held = sum_of_stage(b, saved, last);

  r->dynamic = MAX(r->dynamic, staying_bytes(b, held) + b->sums->scratch[1]);
  if (bound_first_layer(b, last) == n - 1)
    return;
  r->beside = staying_bytes(b, held - (saved[n] - saved[n - 1])) + b->sums->scratch[0];
  r->layer = bound_weights_of(b, n - 2);
}

static gboolean has_block(const Bound *b, int rank)
{
  gboolean has = FALSE;

  for (int chunk = 0; chunk < b->shape.chunks && !has; chunk++) {
    int stage = bound_stage(b, rank, chunk);
    has = MIN(bound_first_layer(b, stage + 1), b->model->blocks + 1) > MAX(bound_first_layer(b, stage), 1);
  }
  return has;
}

/* Adds a rank that has the last stage or not, of whose activations most are there when a backward begins. */
static void add_rank_bytes(const Bound *b, BoundRanks *all, int rank, gboolean last, double activations,
                           const ChunkEnds *ends)
{
  const Schedule *schedule = b->layout->pipeline.schedule;
  const Cluster *cluster = b->sums->cluster, *site = b->mixed ? mesh_site(&b->layout->mesh, cluster, rank) : cluster;
  double least = scratch(b, last), lost = 1 + b->layout->passes.framework->fragmentation;
  RankBytes r = { bound_weights(b, rank), .dynamic = staying_bytes(b, activations) + least,
                  .placeholder_bytes = has_block(b, rank) ? b->sums->placeholder_bytes : 0, .device = &site->device };
  RankBytes ending = r;

  if (!b->mixed && bound_keeps_order(b->layout)) {
    r.beside = r.dynamic;
    r.layer = ends->last;
    r.behind = MAX(0, staying_bytes(b, activations) - ends->saved_bytes) + least;
    r.both = ends->both;
  }
  if (b->mixed)
    r.room = memory_in_room(cluster, 0, site->device.memory_bytes);
  r.dynamic = r.dynamic * lost + r.room;
  add_rank(all, r);
  if (!last || b->mixed || schedule->vocabulary || schedule->recompute)
    return;
  add_ending(b, &ending);
  ending.dynamic *= lost;
  add_rank(all, ending);
}

double memory_in_room(const Cluster *cluster, double bytes, double capacity_bytes)
{
  return cluster->n_types == 0 ? bytes : bytes + (cluster->device.memory_bytes - capacity_bytes);
}

BoundRanks bound_ranks(const Model *model, const Layout *l, const PriceSums *sums)
{
  Bound b = bound_of(model, l, NULL, sums);
  const Schedule *schedule = l->pipeline.schedule;
  const double *held = schedule->split ? sums->deferred : sums->saved;
  int ranks = b.shape.ranks, chunks = b.shape.chunks;
  BoundRanks all = { 0 };

  for (int rank = 0; rank < ranks; rank = bound_next_rank(&b, rank)) {
    double saved = INFINITY;
    gboolean last = FALSE;
    ChunkEnds ends = { 0 };
    for (int chunk = 0; chunk < chunks; chunk = chunk == 1 && bound_alike(&b) ? MAX(2, chunks - 1) : chunk + 1) {
      int stage = bound_stage(&b, rank, chunk);
      saved = fmin(saved, sum_of_stage(&b, held, stage));
      last |= stage == b.stages - 1;
      add_chunk_end(&b, &ends, stage);
    }
    add_rank_bytes(&b, &all, rank, last, saved * schedule_peak(schedule, &b.shape, rank), &ends);
  }
  return all;
}

static double held_bytes(const Layout *l, const RankBytes *r, gboolean experts)
{
  const BoundWeights *w = &r->weights;
  HeldBytes held = op_held(&l->states[experts], r->device, w->params[experts], w->narrow[experts],
                           (Frozen) { .bytes = w->frozen[experts] }, 0);
  return held_state_bytes(&held) + held.bucket_bytes;
}

/* Of weights that ranks share, what is there while their backward runs: gathered, and their gradients whole. */
static double shared_bytes(const Layout *l, const BoundWeights *w, gboolean experts)
{
  const StateLayout *own = &l->states[0], *s = &l->states[experts];
  double bytes = 0;

  if (s->drops_gradients && !l->pipeline.schedule->split)
    bytes += w->params[experts] * own->gradient_bytes;
  if (s->fetches_weights && l->passes.persistence <= 0)
    bytes += op_gathered_bytes(own, w->params[experts], w->narrow[experts]);
  return bytes / own->sharding.tiling;
}

/* Of a layer and the one before, the gradients while the latter's backward runs: those of the former are on their way,
 * or made by the same pass, where none waits for weights or for what comes from the host. One sum at least may be on its
 * way (Framework.reduce_queue). */
static double both_gradients(const Layout *l, const BoundWeights *w)
{
  const StateLayout *own = &l->states[0];
  gboolean waits = offload_any(&own->offload) || own->fetches_weights || l->states[1].fetches_weights;
  double bytes = 0;

  for (int kind = 0; kind < (l->passes.experts_apart ? 2 : 1) && !waits && !l->pipeline.schedule->split; kind++)
    bytes += l->states[kind].drops_gradients ? w->params[kind] * own->gradient_bytes : 0;
  return bytes / own->sharding.tiling;
}

double bound_memory(const Layout *l, const BoundRanks *all)
{
  gboolean apart = l->passes.experts_apart;
  double most = 0;

  for (int i = 0; i < all->n; i++) {
    const RankBytes *r = &all->ranks[i];
    double held = held_bytes(l, r, FALSE) + (apart ? held_bytes(l, r, TRUE) : 0);
    double shared = shared_bytes(l, &r->layer, FALSE) + (apart ? shared_bytes(l, &r->layer, TRUE) : 0);
    double lost = 1 + l->passes.framework->fragmentation;
    double step = op_step_copies(l->states, r->weights.params) * lost + r->room;
    double both = r->behind > 0 ? both_gradients(l, &r->both) : 0;
    double passes = r->beside > 0 ? MAX(r->dynamic, (r->beside + shared) * lost) : r->dynamic;
    passes = both > 0 ? MAX(passes, (r->behind + both) * lost) : passes;
    most = MAX(most, held + r->placeholder_bytes + MAX(passes, step));
  }
  return (most + op_overhead_bytes(l)) * (1 - 1e-9);
}

/* What a forward of a chunk leaves, and its input gradient for the weight gradient: more where it makes some again. */
typedef struct {
  double saved, deferred;
} ChunkBytes;

static double deferred_bytes(const Bound *b, int stage)
{
  double bytes = 0;

  if (b->mixed)
    return sum_of_stage(b, b->sums->deferred, stage);
  for (int i = bound_first_layer(b, stage); i < bound_first_layer(b, stage + 1); i++)
    bytes += price_of_layer(b->sums->prices, b->model, 0, i)->deferred_bytes;
  return bytes;
}

static double peak_by_order(const ScheduleOrder *order, int rank, const ChunkBytes *bytes)
{
  double held = 0, peak = 0;

  for (int i = order->first[rank]; i < order->first[rank + 1]; i++) {
    const Slot *slot = &order->slots[i];
    const ChunkBytes *of = &bytes[slot->chunk];
    held += slot->pass == PASS_FORWARD ? of->saved
            : slot->pass == PASS_INPUT ? of->deferred - of->saved
                                       : -(slot->pass == PASS_WEIGHT ? of->deferred : of->saved);
    peak = MAX(peak, held);
  }
  return peak;
}

double bound_memory_by_order(const Model *model, const Layout *l, const PriceSums *sums)
{
  Bound b = bound_of(model, l, NULL, sums);
  const Schedule *schedule = l->pipeline.schedule;
  BoundRanks all = bound_ranks(model, l, sums);

  if (!bound_knows_order(schedule))
    return bound_memory(l, &all);
  /* more micro-batches never hold less, and by then the pipeline is full */
  if (!schedule->split && schedule->placement == PLACE_LOOP)
    b.shape.micro = MIN(b.shape.micro, 4 * MAX(b.shape.ranks, b.shape.group));
  g_autoptr(ScheduleOrder) order = schedule_order_new(schedule, &b.shape);
  g_autofree ChunkBytes *bytes = g_new(ChunkBytes, b.shape.chunks);
  for (int rank = 0; rank < b.shape.ranks; rank++) {
    gboolean last = FALSE;
    ChunkEnds ends = { 0 };
    for (int chunk = 0; chunk < b.shape.chunks; chunk++) {
      int stage = bound_stage(&b, rank, chunk);
      bytes[chunk] = (ChunkBytes) { sum_of_stage(&b, sums->saved, stage), 0 };
      if (schedule->split)
        bytes[chunk].deferred = deferred_bytes(&b, stage);
      last |= stage == b.stages - 1;
      add_chunk_end(&b, &ends, stage);
    }
    add_rank_bytes(&b, &all, rank, last, peak_by_order(order, rank, bytes), &ends);
  }
  return bound_memory(l, &all);
}
