#include "schedule/sweep.h"
#include "search/bound_parts.h"

#include <math.h>
#include <string.h>

/* Passes that an order may hold: forwards, backwards, and their halves. */
#define ORDER_PASSES (PASS_WEIGHT + 1)

/* Layers whose weights are gathered, or gradients summed, as one. */
typedef struct {
  double pass_s[ORDER_PASSES];
  double alone_s[ORDER_PASSES]; /* more, where no other pass is beside it */
  double sum_s, across_s, gather_s;
  double ready_s;   /* when its weights are there for the first forward */
  double params;
} PieceTimes;

/* Gradients of a piece on their way. */
typedef struct {
  double end, params;
} Leaving;

typedef struct {
  int left;           /* weight gradients that have not been made */
  gboolean gathered, begun; /* its weights have been; its first forward has run */
  PieceTimes *pieces; /* in model order */
  int n_pieces;
  double sum_s, across_s; /* of gradients in one call */
  double pass_s[ORDER_PASSES], alone_s[ORDER_PASSES];
  double send_s[ORDER_PASSES]; /* of what it passes on: 0 = nothing */
} ChunkTimes;

typedef struct {
  ChunkTimes *chunks;
  double clock;    /* when the next pass may start */
  double ended;    /* the last pass */
  double used;     /* the last that needed weights */
  double ready;    /* when the weights of the next that needs some are there */
  gboolean begun;  /* a pass has needed some */
  gboolean early;  /* what the next use puts into the lane is in it: */
  double ahead;    /* when those weights are there */
  GArray *leaving; /* Leaving, in order */
  guint left;      /* of them, those that a pass has waited for */
  double queued;   /* parameters of the others */
  double lane;     /* when the data lane has done what it has */
  double slow_end; /* until then passes are slowed */
  double slowdown; /* at least */
  gboolean across_slows; /* sums over copies slow as much */
  gboolean crossed;      /* some that do not are in the lane */
} RankTimes;

typedef struct {
  OrderSweep sweep;
  Bound *bound;
  RankTimes *ranks;
  const guint8 *alone;     /* by slot: that it has no other pass beside it; NULL = that costs nothing */
  const guint8 *found;     /* by slot: that its weights are there still; NULL = none are */
  gboolean sums_each;      /* micro-batch's gradients */
  gboolean late_sums;      /* behind all passes */
  gboolean waits_for_sums; /* behind each pass that makes gradients */
  gboolean gathers_early, fetches;
  gboolean gathers_by_use, one_ahead; /* each use's weights: behind the use before, or the one before that */
  gboolean slows;          /* what the lane has is known whenever a pass starts */
} TimedOrder;

/* Whether every pass that does not find its weights waits for all of them, which are gathered one piece ahead of need
 * at most. */
static gboolean gathers_by_use(const StateLayout *p)
{
  const ShardingOptions *o = &p->sharding;
  gboolean apart = p->stages_hold || !o->keeps_gathered;

  return p->zero == 3 && o->prefetch < 0 && o->live <= 0 && o->persistence == 0 && apart && o->tiling <= 1;
}

/* Of stages that hold FSDP2 back: slots whose weights the pass before them has left. */
static guint8 *slots_found(const StateLayout *p, const ScheduleOrder *order, const ScheduleShape *shape)
{
  guint8 *found = g_new0(guint8, order->first[shape->ranks]);
  g_autofree int *last = g_new(int, shape->chunks);
  g_autofree gboolean *there = g_new(gboolean, shape->chunks);

  for (int rank = 0; rank < shape->ranks; rank++) {
    memset(there, 0, shape->chunks * sizeof(gboolean));
    for (int k = order->first[rank]; k < order->first[rank + 1]; k++)
      if (pass_makes_weight_gradient(order->slots[k].pass))
        last[order->slots[k].chunk] = k;
    for (int k = order->first[rank]; k < order->first[rank + 1]; k++) {
      Pass pass = order->slots[k].pass;
      int chunk = order->slots[k].chunk;
      found[k] = there[chunk];
      if (pass != PASS_WEIGHT)
        there[chunk] = !states_release(p, pass, 0, k == last[chunk]);
    }
  }
  return found;
}

static gboolean fetches(const TimedOrder *s, int slot)
{
  return s->sweep.order->slots[slot].pass != PASS_WEIGHT && !(s->found && s->found[slot]);
}

static int rank_of(const Bound *b, int stage)
{
  return schedule_place(b->layout->pipeline.schedule, &b->shape, stage, 0).rank;
}

static double send_s(const Bound *b, int stage, int to)
{
  if (to < 0 || to >= b->stages || rank_of(b, stage) == rank_of(b, to))
    return 0;
  int from_rank = rank_of(b, stage), to_rank = rank_of(b, to);
  GroupShape pair;
  double bytes = op_boundary_bytes_at(b->model, &b->layout->passes, bound_first_layer(b, MAX(stage, to))), after = 0;
  const Cluster *between = mesh_pair_site(&b->layout->mesh, b->cluster, from_rank, to_rank, &pair);
  if (b->layout->pipeline.scatters_sends) {
    const Cluster *site = mesh_site(&b->layout->mesh, b->cluster, to_rank);
    GroupShape tensor = pass_group(&b->layout->passes, site, RANKS_TENSOR);
    after = collective_cost(site, COLLECTIVE_ALL_GATHER, bytes, &tensor).seconds;
    bytes /= b->layout->passes.tp;
  }
  return collective_cost(between, COLLECTIVE_SEND, bytes, &pair).seconds + after;
}

/* Behind the last layer of the piece that begins with `first`, as programs cut them. */
static int piece_end(const TimedOrder *s, int first, int end)
{
  const Bound *b = s->bound;
  const StateLayout *p = bound_states(b, 0);
  gboolean cut = p->overlap_gradients || p->gathers_ahead;
  gboolean layers = s->fetches || p->offload.activations || (p->offload.layers > 0 && !cut);
  double most = layers ? 0 : cut ? op_bucket_params(p) : INFINITY, filled = 0;
  int i = first;

  while (i < end && filled <= most) {
    const LayerPrice *layer = price_of_layer(b->sums->prices, b->model, 0, i++);
    filled += layer->params + layer->expert_params;
  }
  return i;
}

static double of_layers(const double *sum, int first, int end)
{
  return sum[end] - sum[first];
}

static const double *sum_of_pass(const PriceSums *s, Pass pass)
{
  const double *const sums[ORDER_PASSES] = { [PASS_FORWARD] = s->forward_s, [PASS_BACKWARD] = s->backward_s,
                                             [PASS_INPUT] = s->input_s, [PASS_WEIGHT] = s->weight_s };
  return sums[pass];
}

/* A collective with what the host takes to issue it. */
static double issued(const Bound *b, double seconds)
{
  return seconds > 0 ? seconds + b->layout->passes.framework->collective_s : 0;
}

static double gather_s(const Bound *b, double params, double narrow, double frozen, int kind)
{
  gboolean comes = params > 0 || (bound_states(b, kind)->zero == 3 && frozen > 0);
  return comes ? bound_gather_s(b, params, narrow, frozen, &b->data[kind], 0) : 0;
}

static PieceTimes piece_times(const TimedOrder *s, int first, int end, int node_type)
{
  const Bound *b = s->bound;
  const PriceSums *sums = b->sums;
  int base = node_type * (b->model->n_layers + 1);
  PieceTimes t = { 0 };

  for (int pass = 0; pass < ORDER_PASSES; pass++)
    t.pass_s[pass] = of_layers(sum_of_pass(sums, pass) + base, first, end);
  for (int pass = 0; s->alone && pass <= PASS_INPUT; pass++)
    t.alone_s[pass] = of_layers(sums->alone_s[pass] + base, first, end);
  for (int kind = 0; kind < b->kinds; kind++) {
    double params = of_layers(kind ? sums->expert_params : sums->params, first, end);
    double narrow = of_layers(kind ? sums->expert_narrow : sums->narrow, first, end);
    double frozen = of_layers(kind ? sums->expert_frozen : sums->frozen, first, end);
    if (!bound_states(b, kind)->sums)
      continue;
    if (s->gathers_early || s->gathers_by_use)
      t.gather_s += issued(b, gather_s(b, params, narrow, frozen, kind));
    if (params <= 0)
      continue;
    t.params += params;
    t.sum_s += issued(b, bound_reduction_s(b, params, kind));
    t.across_s += issued(b, bound_across_s(b, params * bound_states(b, 0)->reduce_bytes, kind));
  }
  return t;
}

/* `pieces`: where the chunk's may be stored. */
static ChunkTimes chunk_times(const TimedOrder *s, int rank, int chunk, PieceTimes *pieces)
{
  const Bound *b = s->bound;
  ChunkTimes c = { .left = b->shape.micro, .pieces = pieces };
  int type = b->mixed ? mesh_node_type(&b->layout->mesh, b->sums->cluster, rank) : 0;
  int stage = bound_stage(b, rank, chunk), begin = bound_first_layer(b, stage), end = bound_first_layer(b, stage + 1);
  PieceTimes whole = piece_times(s, begin, end, type);

  for (int first = begin, next; first < end; first = next) {
    next = piece_end(s, first, end);
    pieces[c.n_pieces++] = next - first == end - begin ? whole : piece_times(s, first, next, type);
  }
  memcpy(c.alone_s, whole.alone_s, sizeof c.alone_s);
  c.sum_s = whole.sum_s;
  c.across_s = whole.across_s;
  for (int pass = 0; pass < ORDER_PASSES; pass++)
    c.pass_s[pass] = sum_of_stage_on(b, sum_of_pass(b->sums, pass), stage, type);
  c.send_s[PASS_FORWARD] = send_s(b, stage, stage + 1);
  c.send_s[PASS_BACKWARD] = c.send_s[PASS_INPUT] = send_s(b, stage, stage - 1);
  return c;
}

/* Weights that the data lane brings at the step's start, in order of use. */
static void gather_early(const TimedOrder *s, RankTimes *r, int rank)
{
  const ScheduleOrder *order = s->sweep.order;

  for (int k = order->first[rank]; s->gathers_early && k < order->first[rank + 1]; k++) {
    const Slot *slot = &order->slots[k];
    ChunkTimes *c = &r->chunks[slot->chunk];
    if (slot->pass != PASS_FORWARD)
      break;
    for (int i = 0; i < c->n_pieces && !c->gathered; i++)
      c->pieces[i].ready_s = r->lane += c->pieces[i].gather_s;
    c->gathered = TRUE;
  }
  r->slow_end = r->lane;
}

/* Of what parts of weights and gradients travel in, or sums over copies of a part. */
static double least_slowdown(const Bound *b, gboolean copies)
{
  double least = INFINITY;

  for (int kind = 0; kind < b->kinds; kind++) {
    const GroupShape *groups[] = { copies ? &b->part_copies[kind] : &b->data[kind], &b->summed[kind] };
    for (guint i = 0; i < (copies ? 1 : G_N_ELEMENTS(groups)); i++)
      if (groups[i]->size > 1)
        least = fmin(least, overlap_slowdown(b->site, groups[i]));
  }
  return least;
}

static void rank_begin(TimedOrder *s, int rank, PieceTimes *pieces)
{
  Bound *b = s->bound;
  RankTimes *r = &s->ranks[rank];

  b->site = b->mixed ? mesh_site(&b->layout->mesh, b->cluster, rank) : b->cluster;
  bound_rank_groups(b);
  double parts = least_slowdown(b, FALSE), copies = least_slowdown(b, TRUE);
  r->slowdown = isinf(parts) ? fmax(1, isinf(copies) ? 1 : copies) : parts;
  r->across_slows = copies >= r->slowdown;
  for (int chunk = 0; chunk < b->shape.chunks; chunk++)
    r->chunks[chunk] = chunk_times(s, rank, chunk, pieces + bound_first_layer(b, bound_stage(b, rank, chunk)));
  gather_early(s, r, rank);
}

/* When so much work is done from `start` on. */
static double work_end(const RankTimes *r, double start, double work_s)
{
  if (start >= r->slow_end)
    return start + work_s;
  double slow = (r->slow_end - start) / r->slowdown;
  return work_s <= slow ? start + work_s * r->slowdown : r->slow_end + (work_s - slow);
}

/* Gradients of a piece that are there at the last pass's end; behind that comes the next pass, or beside them. */
static void sum_piece(const TimedOrder *s, RankTimes *r, double sum_s, double across_s)
{
  r->crossed |= across_s > 0 && !r->across_slows;
  r->lane = MAX(r->lane, r->ended) + sum_s + across_s;
  if (s->waits_for_sums)
    r->clock = r->lane;
  else if (s->slows && !r->crossed)
    r->slow_end = MAX(r->slow_end, r->lane);
}

static void queue_gradients(RankTimes *r, const PieceTimes *piece)
{
  const Leaving leaving = { piece->sum_s > 0 ? r->lane : r->ended, piece->params };

  if (!r->leaving)
    r->leaving = g_array_new(FALSE, FALSE, sizeof(Leaving));
  g_array_append_val(r->leaving, leaving);
  r->queued += leaving.params;
}

/* When so many gradients have left that the framework lets a pass make more. */
static double queue_free(const TimedOrder *s, RankTimes *r)
{
  const Framework *f = bound_states(s->bound, 0)->framework;
  double free = 0;

  while (r->leaving && framework_queue_full(f, r->leaving->len - r->left, r->queued)) {
    const Leaving *leaving = &g_array_index(r->leaving, Leaving, r->left++);
    r->queued -= leaving->params;
    free = leaving->end;
  }
  return free;
}

/* A slot's i-th piece in the order in which its pass runs them. */
static const PieceTimes *piece_of(const ChunkTimes *c, Pass pass, int i)
{
  return &c->pieces[pass == PASS_FORWARD ? i : c->n_pieces - 1 - i];
}

/* Of a second copy's weights, for backwards, the gather is left out. */
static double gather_of(const TimedOrder *s, const PieceTimes *piece, Pass pass)
{
  return pass != PASS_FORWARD && bound_states(s->bound, 0)->sharding.secondary ? 0 : piece->gather_s;
}

/* What the use behind a slot's i-th piece gathers. */
static double next_gather(const TimedOrder *s, const RankTimes *r, int rank, int slot, int i)
{
  const ScheduleOrder *order = s->sweep.order;

  for (int k = slot; k < order->first[rank + 1]; k++, i = -1) {
    const Slot *at = &order->slots[k];
    const ChunkTimes *c = &r->chunks[at->chunk];
    if (fetches(s, k) && i + 1 < c->n_pieces)
      return gather_of(s, piece_of(c, at->pass, i + 1), at->pass);
  }
  return 0;
}

/* The lane's next gather, for a use that may be the one at hand, behind the last use. */
static void gather(const TimedOrder *s, RankTimes *r, double gather_s)
{
  r->ready = 0;
  if (gather_s > 0)
    r->ready = r->lane = MAX(r->lane, r->used) + gather_s;
  if (s->slows && !r->crossed)
    r->slow_end = MAX(r->slow_end, r->lane);
}

/* Of a slot's i-th piece. */
static double own_gather(const TimedOrder *s, const RankTimes *r, int slot, int i)
{
  const Slot *at = &s->sweep.order->slots[slot];
  return gather_of(s, piece_of(&r->chunks[at->chunk], at->pass, i), at->pass);
}

/* The slot behind this one that needs weights; -1 where sums may come into the lane before. */
static int next_need(const TimedOrder *s, int rank, int slot)
{
  const ScheduleOrder *order = s->sweep.order;

  while (slot < order->first[rank + 1] && !fetches(s, slot) && order->slots[slot].pass == PASS_FORWARD)
    slot++;
  return slot < order->first[rank + 1] && fetches(s, slot) ? slot : -1;
}

/* Beside a forward that has its weights: what the next use gathers waits for the use before, not for this pass. */
static void gather_beside(const TimedOrder *s, RankTimes *r, int rank, int slot)
{
  int next = next_need(s, rank, slot);
  double ready = r->ready;

  if (next < 0 || r->early)
    return;
  gather(s, r, s->one_ahead ? next_gather(s, r, rank, next, 0) : own_gather(s, r, next, 0));
  r->ahead = r->ready;
  r->ready = ready;
  r->early = TRUE;
}

/* When the weights of a slot's i-th piece are there. */
static double weights_ready(const TimedOrder *s, RankTimes *r, int rank, int slot, int i)
{
  double ready = s->one_ahead ? r->ready : r->ahead;

  if (r->early) {
    r->ready = r->ahead;
    r->early = FALSE;
    return ready;
  }
  if (!s->one_ahead || !r->begun)
    gather(s, r, own_gather(s, r, slot, i));
  r->begun = TRUE;
  ready = r->ready;
  if (s->one_ahead)
    gather(s, r, next_gather(s, r, rank, slot, i));
  return ready;
}

/* A pass of which pieces wait for their weights, or leave gradients. */
static void run_pieces(TimedOrder *s, int rank, int slot, gboolean sums, double input)
{
  RankTimes *r = &s->ranks[rank];
  Pass pass = s->sweep.order->slots[slot].pass;
  ChunkTimes *c = &r->chunks[s->sweep.order->slots[slot].chunk];
  gboolean gathers = s->gathers_by_use && fetches(s, slot), queues = sums && s->sums_each;
  gboolean alone = s->alone && s->alone[slot];

  if (s->gathers_by_use && !gathers)
    gather_beside(s, r, rank, slot);
  for (int i = 0; i < c->n_pieces; i++) {
    const PieceTimes *piece = piece_of(c, pass, i);
    double ready = gathers ? weights_ready(s, r, rank, slot, i) : 0, queued = queues ? queue_free(s, r) : 0;
    double start = MAX(MAX(r->clock, i == 0 ? input : 0), MAX(ready, queued));
    if (!c->begun)
      start = MAX(start, piece->ready_s);
    r->clock = r->ended = work_end(r, start, piece->pass_s[pass] + (alone ? piece->alone_s[pass] : 0));
    r->used = fetches(s, slot) ? r->ended : r->used;
    if (sums)
      sum_piece(s, r, piece->sum_s, c->left == 0 ? piece->across_s : 0);
    if (queues)
      queue_gradients(r, piece);
  }
  c->begun = TRUE;
}

static double run_slot(gpointer data, int rank, int i, double input)
{
  TimedOrder *s = data;
  RankTimes *r = &s->ranks[rank];
  const Slot *slot = &s->sweep.order->slots[i];
  ChunkTimes *c = &r->chunks[slot->chunk];
  gboolean makes = slot->pass == PASS_BACKWARD || slot->pass == PASS_WEIGHT;

  if (slot->pass == PASS_WEIGHT) /* behind its input gradient, not what that sends */
    input = 0;
  c->left -= makes;
  gboolean sums = makes && !s->late_sums && (s->sums_each || c->left == 0);
  gboolean whole = s->waits_for_sums && !s->fetches;
  if ((sums && !whole) || s->gathers_by_use || (s->gathers_early && !c->begun)) {
    run_pieces(s, rank, i, sums, input);
  } else {
    double pass_s = c->pass_s[slot->pass] + (s->alone && s->alone[i] ? c->alone_s[slot->pass] : 0);
    r->clock = r->ended = work_end(r, MAX(r->clock, input), pass_s);
    if (sums)
      sum_piece(s, r, c->sum_s, c->left == 0 ? c->across_s : 0);
  }
  double arrival = r->ended + c->send_s[slot->pass];
  if (!s->bound->layout->pipeline.overlaps_sends)
    r->clock = MAX(r->clock, arrival);
  return arrival;
}

static double tied_s(const Bound *b)
{
  GroupShape pair;

  if (!layout_sums_ends(b->layout, b->model))
    return 0;
  const Cluster *between = mesh_pair_site(&b->layout->mesh, b->cluster, 0, b->shape.ranks - 1, &pair);
  return collective_cost(between, COLLECTIVE_ALL_REDUCE, op_tied_bytes(b->model, b->layout), &pair).seconds;
}

/* When the rank's gradients are summed. */
static double rank_finish(const TimedOrder *s, const RankTimes *r)
{
  double finish = r->ended;

  for (int chunk = 0; s->late_sums && chunk < s->bound->shape.chunks; chunk++)
    finish += r->chunks[chunk].sum_s + r->chunks[chunk].across_s;
  return MAX(finish, r->lane);
}

static double sweep_end(TimedOrder *s)
{
  int pp = s->bound->shape.ranks;
  double longest = 0;

  order_sweep_run(&s->sweep, run_slot, s);
  for (int rank = 0; rank < pp; rank++)
    longest = fmax(longest, rank_finish(s, &s->ranks[rank]));
  return fmax(longest, fmax(rank_finish(s, &s->ranks[0]), rank_finish(s, &s->ranks[pp - 1])) + tied_s(s->bound));
}

/* From the norm to the end of the step, of the slowest rank. */
static double after_norm(Bound *b)
{
  double last = 0;

  for (int rank = 0; rank < b->shape.ranks; rank = bound_next_rank(b, rank)) {
    const BoundWeights w = bound_weights_at_end(b, rank);
    b->site = b->mixed ? mesh_site(&b->layout->mesh, b->cluster, rank) : b->cluster;
    last = fmax(last, bound_rank_end(b, &w).last);
  }
  return last;
}

double bound_time_by_order(const Model *model, const Layout *l, const Cluster *cluster, const PriceSums *sums)
{
  if (!bound_keeps_order(l))
    return 0;
  Bound b = bound_of(model, l, cluster, sums);
  const StateLayout *p = &l->states[0];
  gboolean each = p->sums_each, kept = p->sharding.persistence > 0;
  g_autoptr(ScheduleOrder) order = schedule_order_new(l->pipeline.schedule, &b.shape);
  g_autofree guint8 *alone = l->passes.overlap_exchange ? schedule_order_alone(order) : NULL;
  g_autofree guint8 *found = p->stages_hold ? slots_found(p, order, &b.shape) : NULL;
  g_autofree RankTimes *ranks = g_new0(RankTimes, b.shape.ranks);
  g_autofree ChunkTimes *chunks = g_new0(ChunkTimes, b.stages);
  g_autofree PieceTimes *pieces = g_new(PieceTimes, model->n_layers);
  TimedOrder s = { .bound = &b, .ranks = ranks, .alone = alone, .found = found, .sums_each = each,
                   .late_sums = !each && !p->overlap_gradients, .waits_for_sums = each && !p->overlap_gradients,
                   .gathers_early = p->gathers_ahead && p->zero < 3 && !kept,
                   .gathers_by_use = gathers_by_use(p), .one_ahead = p->overlap_parameters, .fetches = p->zero == 3 };

  s.slows = !s.fetches || (s.gathers_by_use && !p->sharding.secondary && !p->offload.parameters);

  order_sweep_init(&s.sweep, l->pipeline.schedule, &b.shape, order);
  for (int rank = 0; rank < b.shape.ranks; rank++) {
    ranks[rank].chunks = chunks + rank * b.shape.chunks;
    rank_begin(&s, rank, pieces);
  }
  double end = sweep_end(&s);
  order_sweep_clear(&s.sweep);
  for (int rank = 0; rank < b.shape.ranks; rank++)
    g_clear_pointer(&ranks[rank].leaving, g_array_unref);
  return (end + after_norm(&b)) * (1 - 1e-9) + l->passes.framework->step_s;
}
