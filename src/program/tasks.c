/* The tasks of one rank: its schedule's slots, split where communication runs beside them. */
#include "program/build.h"

/* One piece of a slot as it will run. */
typedef struct {
  Slot slot;
  const Slot *other; /* that it overlaps, NULL = none */
  gboolean alone;    /* RankBuild's */
  int piece; /* -1 = the whole chunk */
  gboolean gather, reduce, across; /* parameters before it, gradients after it, and over copies of a part */
  gboolean releases;       /* gives its weights back */
  gboolean first, last;    /* of its slot */
} Use;

/* What frees the gradients of a pass: their sum over ranks, or behind it their copy to the host. */
typedef struct {
  int task;
  double params;
} Leaving;

typedef struct {
  ProgramBuild *b;
  int rank;
  const guint8 *alone; /* by slot: no other pass is beside it, as it may be for its exchanges; NULL = of none */
  Chunk *chunks;
  int n_chunks;    /* the share of a spread vocabulary included */
  Use *uses;
  guint n_uses, uses_room;
  GArray *gathers; /* int: index of the gathered task's compute task, in order of use */
  guint next_use;  /* uses whose gather has been issued */
  int issued;      /* gathers issued */
  GArray *gather_tasks; /* int */
  GArray *gathered; /* double: parameters of each gathered use; empty where they may all be present at once */
  GArray *stores;   /* int: copies of inputs to the host */
  GArray *leaving;  /* Leaving, in order */
  guint left;       /* of them, those that a pass has waited for */
  double queued;    /* parameters of the others */
  int before;       /* compute task before the last, -1 = none */
  int held;               /* first task of the pair that is being built */
  const Slot *held_slot;  /* its first slot, what it brings waits for the pair's end */
  int sends[2];    /* of tdp-run: the last but one, and the last, -1 = none */
  int blocking[2]; /* send and reduction that the next compute task must wait for, -1 = none */
} RankBuild;

static Chunk *chunk_of(const RankBuild *r, const Slot *slot)
{
  return &r->chunks[pass_is_vocabulary(slot->pass) ? r->b->shape.chunks : slot->chunk];
}

static void mark_ends(RankBuild *r, const Slot *slots, int n)
{
  for (int i = 0; i < n; i++) {
    const Slot *s = &slots[i];
    Chunk *chunk = chunk_of(r, s);
    if (chunk->first_forward < 0)
      chunk->first_forward = i;
    if (pass_makes_weight_gradient(s->pass))
      chunk->last_backward = i;
  }
}

/* Whether every micro-batch's gradients leave. */
static gboolean sends_each(const StateLayout *p)
{
  return p->framework->single_process || p->sums_each;
}

/* Whether gradients leave behind a slot: to be summed, or for the host. */
static gboolean sends_gradients(const StateLayout *p, gboolean summed, Pass pass, gboolean last)
{
  gboolean each = sends_each(p);
  gboolean sums = summed && (each || (last && p->overlap_gradients));
  gboolean stores = !summed && p->stores_gradients && (each || last);

  return pass_makes_weight_gradient(pass) && (sums || stores);
}

/* What comes before a slot's pass of layers of one strategy, and what follows it. */
typedef struct {
  gboolean gather, reduce;
} Moves;

/* `kept`: weights are still there from an earlier slot. */
static Moves moves_of(const RankBuild *r, const Slot *slot, int index, int strategy, gboolean kept)
{
  const StateLayout *p = states_of(r->b, strategy, FALSE);
  const Chunk *chunk = chunk_of(r, slot);
  gboolean weights = fetches_weights(r->b, strategy) && slot->pass != PASS_WEIGHT && !kept;
  gboolean sums = r->b->strategies[strategy].has_replicas;
  gboolean fresh = sums && p->gathers_ahead && index == chunk->first_forward;
  gboolean copied = sums && p->framework->single_process && slot->pass == PASS_FORWARD;
  gboolean late = pass_is_vocabulary(slot->pass) && p->zero < 2; /* lookups' gradients come behind the last pass */

  return (Moves) { weights || fresh || copied,
                   sends_gradients(p, sums, slot->pass, index == chunk->last_backward) && !late };
}

static gboolean needs_pieces(const RankBuild *r, const Slot *slot, const Chunk *chunk, Moves m)
{
  const StateLayout *p = own_states(r->b);
  int strategy = g_array_index(chunk->pieces, Piece, 0).strategy;
  gboolean inputs = offload_keeps(&p->offload) && (slot->pass == PASS_FORWARD || pass_is_backward(slot->pass));

  return chunk->mixed || m.gather || inputs || (m.reduce && (p->overlap_gradients || fetches_weights(r->b, strategy)));
}

static void add_uses(RankBuild *r, const Slot *slot, const Slot *other, int index)
{
  const StateLayout *p = own_states(r->b);
  Chunk *chunk = chunk_of(r, slot);
  gboolean kept = chunk->gathered;
  gboolean forward = slot->pass == PASS_FORWARD || slot->pass == PASS_RECOMPUTE;
  Moves m = moves_of(r, slot, index, g_array_index(chunk->pieces, Piece, 0).strategy, kept);
  gboolean split = needs_pieces(r, slot, chunk, m);
  int n = split ? (int)chunk->pieces->len : 1;

  chunk->in_flight += slot->pass == PASS_FORWARD || slot->pass == PASS_LOGITS;
  chunk->in_flight -= pass_is_backward(slot->pass) || slot->pass == PASS_VOCAB;
  gboolean releases = states_release(p, slot->pass, chunk->in_flight, index == chunk->last_backward);
  if (slot->pass != PASS_WEIGHT)
    chunk->gathered = !releases;
  if (r->n_uses + n > r->uses_room) {
    r->uses_room = MAX(r->n_uses + n, 2 * r->uses_room);
    r->uses = g_renew(Use, r->uses, r->uses_room);
  }
  for (int i = 0; i < n; i++) {
    Use use = { .slot = *slot, .other = other, .piece = split ? (forward ? i : n - 1 - i) : -1, .releases = releases,
                .alone = r->alone && r->alone[index], .first = i == 0, .last = i == n - 1 };
    if (chunk->mixed)
      m = moves_of(r, slot, index, g_array_index(chunk->pieces, Piece, use.piece).strategy, kept);
    use.gather = m.gather;
    use.reduce = m.reduce;
    use.across = m.reduce && index == chunk->last_backward;
    r->uses[r->n_uses++] = use;
  }
}

static int strategy_of(const RankBuild *r, const Use *use)
{
  return g_array_index(chunk_of(r, &use->slot)->pieces, Piece, MAX(use->piece, 0)).strategy;
}

/* Parameters of the gathered uses, where memory or the prefetch bucket limit how many there are at once; -1 where
 * they stay after the pass. */
static void measure_gathers(RankBuild *r)
{
  gboolean single = r->b->layout->passes.framework->single_process;

  if (!fetches_some_weights(r->b) && !single)
    return;
  for (guint i = 0; i < r->n_uses; i++) {
    const Use *use = &r->uses[i];
    if (!use->gather)
      continue;
    Piece piece = g_array_index(chunk_of(r, &use->slot)->pieces, Piece, use->piece);
    double params = (params_of(r->b, piece, FALSE) + params_of(r->b, piece, TRUE) +
                     fetched_frozen(r->b, piece, FALSE).params + fetched_frozen(r->b, piece, TRUE).params) /
                    own_states(r->b)->sharding.tiling;
    if (!single && !fetches_weights(r->b, piece.strategy))
      params = -1;
    g_array_append_val(r->gathered, params);
  }
}

/* Whether so many pieces may be gathered ahead of need, of so many parameters. */
static gboolean may_prefetch(const StateLayout *p, int pieces, double params)
{
  if (p->sharding.prefetch < 0)
    return p->overlap_parameters && pieces == 1;
  return p->sharding.prefetch > 0 && (pieces == 1 || params <= p->sharding.prefetch);
}

/* The gathered use that must have run before the k-th is gathered: it may be one that
 * is prefetched while an earlier one runs, as far as all of these may be live. -1 = none. */
static int awaited(const RankBuild *r, int k)
{
  const StateLayout *p = own_states(r->b);
  double ahead = 0, limit = p->sharding.live > 0 ? p->sharding.live : G_MAXDOUBLE;
  int running = g_array_index(r->gathered, double, k) < 0 ? 0 : k;

  while (running > 0) {
    double before = MAX(g_array_index(r->gathered, double, running - 1), 0);
    ahead += MAX(g_array_index(r->gathered, double, running), 0);
    if (!may_prefetch(p, k - running + 1, ahead) || ahead + before > limit)
      break;
    running--;
  }
  return running - 1;
}

static void wait_for_use(RankBuild *r, int task, int use)
{
  if (use >= 0)
    program_add_edge(r->b, task, g_array_index(r->gathers, int, use));
}

/* Gathers what a piece needs, behind a use and what brings a rank's part (-1 = none); returns the last gather, or
 * that. */
static int gather_weights(RankBuild *r, const Use *use, int after, int fetch)
{
  ProgramBuild *b = r->b;
  Chunk *chunk = chunk_of(r, &use->slot);
  gboolean differs = site_of(b, strategy_of(r, use), r->rank)->secondary[0].size > 1 ||
                     b->layout->passes.framework->shard_live_params > 0;
  gboolean again = differs && use->slot.pass != PASS_FORWARD && use->slot.pass != PASS_LOGITS;
  int last = fetch;

  for (int experts = 0; experts < 2; experts++) {
    if (!chunk_gathers(b, chunk, use->piece, experts))
      continue;
    int segment = chunk_gather_segment(b, chunk, use->piece, experts, again);
    last = program_add_task(b, r->rank, LANE_DATA, segment, use->slot.chunk, use->slot.micro);
    wait_for_use(r, last, after);
    if (fetch >= 0)
      program_add_edge(b, last, fetch);
    if (b->layout->passes.framework->single_process && b->last_task[r->rank] >= 0)
      program_add_edge(b, last, b->last_task[r->rank]);
  }
  return last;
}

/* Brings the weights of a use: from the host, over ranks, or both; `after` must have run before, -1 = none. Returns
 * the last task that does, -1 = none. */
static int bring_weights(RankBuild *r, const Use *use, int after)
{
  int fetch = -1;

  if (own_states(r->b)->offload.parameters) {
    fetch = host_copy(r->b, r->rank, chunk_of(r, &use->slot), &use->slot, use->piece, COPY_WEIGHTS_UP, -1);
    wait_for_use(r, fetch, own_states(r->b)->sums ? after - 1 : after);
  }
  return gather_weights(r, use, after, fetch);
}

/* Where uses that gather nothing stand between those that do: weights that do not stay come a piece ahead at most.
 * r->b->last_task is what runs before the use at hand. */
static gboolean is_early(const RankBuild *r, const Use *use, guint at_hand)
{
  return chunk_of(r, &use->slot)->mixed && fetches_weights(r->b, strategy_of(r, use)) && r->next_use > at_hand + 1;
}

static void wait_for_place(RankBuild *r, const Use *use, int first)
{
  ProgramBuild *b = r->b;
  int before = b->last_task[r->rank];

  if (before >= 0 && first < (int)b->program->tasks->len && chunk_of(r, &use->slot)->mixed &&
      fetches_weights(b, strategy_of(r, use)))
    program_add_edge(b, first, before);
}

/* Issues gathers in order of use, as far ahead of the gathered pieces that have run as may be. */
static void issue_gathers(RankBuild *r, guint at_hand)
{
  for (; r->next_use < r->n_uses; r->next_use++) {
    const Use *use = &r->uses[r->next_use];
    int first = r->b->program->tasks->len;
    if (!use->gather)
      continue;
    int after = r->gathered->len > 0 ? awaited(r, r->issued) : -1;
    if (after >= (int)r->gathers->len || is_early(r, use, at_hand))
      return;
    int task = bring_weights(r, use, after);
    wait_for_place(r, use, first);
    g_array_append_val(r->gather_tasks, task);
    r->issued++;
  }
}

/* tdp-run has two results at most: a pass that makes one begins when all but the last of those before have been sent. An
 * opportunistic schedule, which is for slow links, waits for none. */
static void wait_for_sends(RankBuild *r, int task, int send)
{
  if (!executor_memory(r->b) || r->b->layout->pipeline.schedule->opportunistic)
    return;
  if (r->sends[0] >= 0)
    program_add_edge(r->b, task, r->sends[0]);
  r->sends[0] = r->sends[1];
  r->sends[1] = send;
}

static void add_send(RankBuild *r, const Slot *slot, int task)
{
  ProgramBuild *b = r->b;
  gboolean backward = pass_is_backward(slot->pass);
  int stage = program_stage(b, r->rank, slot->chunk);
  int to = backward ? stage - 1 : stage + 1;

  if ((!backward && slot->pass != PASS_FORWARD) || to < 0 || to >= b->stages)
    return;
  const PipelineLayout *pipeline = &b->layout->pipeline;
  int to_rank = pipeline_rank(pipeline, to, schedule_copy(pipeline->schedule, slot->chunk));
  if (to_rank != r->rank) {
    int *segment = &r->chunks[slot->chunk].send[backward];
    if (*segment < 0)
      *segment = program_add_segment(b, send_segment(b, r->rank, to_rank, MAX(stage, to), slot->pass));
    int send = program_add_task(b, r->rank, LANE_PIPELINE, *segment, slot->chunk, slot->micro);
    program_add_edge(b, send, task);
    wait_for_sends(r, task, send);
    task = send;
    if (!b->layout->pipeline.overlaps_sends && !b->layout->pipeline.schedule->opportunistic)
      r->blocking[0] = send;
  }
  b->arrival[program_slot(b, backward, to, slot->micro)] = task;
}

/* Sums gradients behind a task, over copies too if it is the last time, and takes what the
 * host updates there; returns the last sum. `*freed`: what frees them. */
static int sum_gradients(RankBuild *r, Chunk *chunk, int piece, gboolean across, const Slot *slot, int task, int *freed)
{
  ProgramBuild *b = r->b;
  const StateLayout *own = own_states(b);
  gboolean leaves = own->stores_gradients && (own->drops_gradients || across);
  gboolean adds = own->drops_gradients && own->framework->offload_adds && slot->micro > 0;
  const Site *site = site_of(b, g_array_index(chunk->pieces, Piece, MAX(piece, 0)).strategy, r->rank);
  int last = task;

  for (int experts = 0; experts < 2; experts++) {
    if (!chunk_has(b, chunk, piece, experts))
      continue;
    int segment = chunk_reduce_segment(b, chunk, piece, experts);
    last = program_add_task(b, r->rank, LANE_DATA, segment, slot->chunk, slot->micro);
    program_add_edge(b, last, task);
    if (across && site->copies[experts].size > 1)
      last = program_add_task(b, r->rank, LANE_DATA, chunk_across_segment(b, chunk, piece, experts), slot->chunk,
                              slot->micro);
  }
  Copy copy = adds ? COPY_GRADIENTS_AGAIN : COPY_GRADIENTS_DOWN;
  *freed = leaves ? host_copy(b, r->rank, chunk, slot, piece, copy, last) : last;
  return last;
}

static gboolean drops_gradients(const RankBuild *r, int strategy)
{
  return states_of(r->b, strategy, FALSE)->drops_gradients || states_of(r->b, strategy, TRUE)->drops_gradients;
}

static void queue_gradients(RankBuild *r, const Chunk *chunk, int piece, int freed)
{
  Piece p = chunk_piece(chunk, piece);
  Leaving leaving = { freed, params_of(r->b, p, FALSE) + params_of(r->b, p, TRUE) };

  if (!drops_gradients(r, p.strategy))
    return;
  g_array_append_val(r->leaving, leaving);
  r->queued += leaving.params;
}

/* A pass makes gradients when so many of earlier ones have left that the rest are as few as the framework lets be on
 * their way. */
static void wait_for_queue(RankBuild *r, int task)
{
  const Framework *f = own_states(r->b)->framework;
  int last = -1;

  while (framework_queue_full(f, r->leaving->len - r->left, r->queued)) {
    const Leaving *leaving = &g_array_index(r->leaving, Leaving, r->left++);
    r->queued -= leaving->params;
    last = leaving->task;
  }
  if (last >= 0)
    program_add_edge(r->b, task, last);
}

static void add_reduce(RankBuild *r, const Use *use, int task)
{
  ProgramBuild *b = r->b;
  int freed, reduce = sum_gradients(r, chunk_of(r, &use->slot), use->piece, use->across, &use->slot, task, &freed);

  if (!own_states(b)->overlap_gradients && reduce != task)
    r->blocking[1] = reduce;
  queue_gradients(r, chunk_of(r, &use->slot), use->piece, freed);
}

/* Inputs of blocks leave behind a forward, two at most on their way. */
static void store_inputs(RankBuild *r, const Use *use, int task)
{
  Chunk *chunk = chunk_of(r, &use->slot);
  int *stored = host_stored(r->b, chunk, use->piece, use->slot.micro);

  if (r->stores->len >= 2)
    program_add_edge(r->b, task, g_array_index(r->stores, int, r->stores->len - 2));
  *stored = host_copy(r->b, r->rank, chunk, &use->slot, use->piece, COPY_INPUTS_DOWN, task);
  g_array_append_val(r->stores, *stored);
}

/* They come back beside the pass before the one that needs them; r->b->last_task is that pass. */
static int fetch_inputs(RankBuild *r, const Use *use)
{
  Chunk *chunk = chunk_of(r, &use->slot);
  int stored = *host_stored(r->b, chunk, use->piece, use->slot.micro);
  int fetch = host_copy(r->b, r->rank, chunk, &use->slot, use->piece, COPY_INPUTS_UP, stored);

  if (r->before >= 0)
    program_add_edge(r->b, fetch, r->before);
  return fetch;
}

/* What a slot brings others once its last task has run; of a pair, once both have. */
static void end_slot(RankBuild *r, const Use *use, int task)
{
  if (use->slot.paired) {
    r->held_slot = &use->slot;
    return;
  }
  if (use->other) {
    add_send(r, r->held_slot, task);
    vocabulary_after(r->b, r->rank, r->held_slot, task);
  }
  add_send(r, &use->slot, task);
  vocabulary_after(r->b, r->rank, &use->slot, task);
}

/* Where a slot's input must be there: at its first task, or its pair's. */
static void begin_slot(RankBuild *r, const Use *use, int task)
{
  ProgramBuild *b = r->b;
  const Slot *slot = &use->slot;

  if (slot->paired)
    r->held = task;
  else if (use->other)
    task = r->held;
  if (slot->pass == PASS_FORWARD || pass_is_backward(slot->pass))
    b->entry[program_slot(b, pass_is_backward(slot->pass), program_stage(b, r->rank, slot->chunk), slot->micro)] = task;
}

static int use_segment(RankBuild *r, const Use *use)
{
  if (use->other)
    return pair_segment(r->b, r->rank, &use->slot, chunk_of(r, &use->slot), use->piece, use->releases, use->other,
                        chunk_of(r, use->other));
  int segment = chunk_pass_segment(r->b, chunk_of(r, &use->slot), use->piece, use->slot.pass, use->releases);
  return use->alone ? alone_segment(r->b, segment, chunk_of(r, &use->slot), use->piece, use->slot.pass, use->releases)
                    : segment;
}

/* What a pass waits for beside its slot's input. */
static void wait_for_buffers(RankBuild *r, const Use *use, int task, int inputs)
{
  if (use->gather) {
    int gather = g_array_index(r->gather_tasks, int, r->gathers->len);
    if (gather >= 0)
      program_add_edge(r->b, task, gather);
    /* else gathered for each use */
    if (pass_is_vocabulary(use->slot.pass) && r->b->share_gather[r->rank] < 0 && !fetches_weights(r->b, 0))
      r->b->share_gather[r->rank] = gather;
    g_array_append_val(r->gathers, task);
  }
  if (inputs >= 0)
    program_add_edge(r->b, task, inputs);
  for (int i = 0; i < 2; i++) {
    if (r->blocking[i] >= 0)
      program_add_edge(r->b, task, r->blocking[i]);
    r->blocking[i] = -1;
  }
}

/* What follows a pass on other lanes. */
static void send_results(RankBuild *r, const Use *use, int task)
{
  const StateLayout *p = own_states(r->b);

  if (p->offload.activations && use->slot.pass == PASS_FORWARD)
    store_inputs(r, use, task);
  if (p->offload.layers > 0 && use->slot.pass == PASS_FORWARD)
    host_store_layers(r->b, r->rank, chunk_of(r, &use->slot), &use->slot, use->piece, task);
  if (use->reduce)
    add_reduce(r, use, task);
  if (p->framework->single_process && p->sums && use->slot.pass == PASS_FORWARD)
    r->blocking[0] = host_outputs(r->b, r->rank, &use->slot, task);
  if (use->last)
    end_slot(r, use, task);
}

static void add_use(RankBuild *r, guint index)
{
  const Use *use = &r->uses[index];
  ProgramBuild *b = r->b;
  int segment = use_segment(r, use), inputs = -1, task;

  if (use->gather || chunk_of(r, &use->slot)->mixed)
    issue_gathers(r, index);
  if (own_states(b)->offload.activations && pass_is_backward(use->slot.pass))
    inputs = fetch_inputs(r, use);
  if (own_states(b)->offload.layers > 0 && pass_is_backward(use->slot.pass))
    inputs = host_fetch_layers(b, r->rank, chunk_of(r, &use->slot), &use->slot, use->piece, use->first);
  task = program_add_task(b, r->rank, LANE_COMPUTE, segment, use->slot.chunk, use->slot.micro);
  g_array_index(b->program->tasks, Task, task).paired = use->slot.paired;
  wait_for_buffers(r, use, task, inputs);
  if (use->reduce)
    wait_for_queue(r, task);
  if (use->first)
    begin_slot(r, use, task);
  send_results(r, use, task);
  r->before = b->last_task[r->rank];
  b->last_task[r->rank] = task;
}

/* Whether gradients of a strategy are reduced after everything else, where nothing overlaps them. */
static gboolean sums_late(const Layout *l)
{
  const StateLayout *p = &l->states[0];

  return l->has_replicas && !sends_each(p) && !(p->zero >= 2 && p->overlap_gradients);
}

static void reduce_chunk(RankBuild *r, int c)
{
  ProgramBuild *b = r->b;
  Chunk *chunk = &r->chunks[c];
  Slot slot = { .chunk = MIN(c, b->shape.chunks - 1) };
  int freed;

  for (int i = chunk->mixed ? (int)chunk->pieces->len - 1 : 0; i >= 0; i--)
    if (sums_late(&b->strategies[g_array_index(chunk->pieces, Piece, i).strategy]))
      sum_gradients(r, chunk, chunk->mixed ? i : -1, TRUE, &slot, b->last_task[r->rank], &freed);
}

/* Gradients of ZeRO-0 and 1 that are reduced after everything else; those of a
 * spread vocabulary behind the last lookup's gradient. */
static void reduce_at_end(RankBuild *r)
{
  ProgramBuild *b = r->b;

  for (int c = own_states(b)->overlap_gradients ? b->shape.chunks : 0; c < r->n_chunks; c++) {
    int first = b->program->tasks->len;
    reduce_chunk(r, c);
    if (c == b->shape.chunks && (int)b->program->tasks->len > first)
      program_add_edge(b, first, b->exchange[EXCHANGE_LOOKED_UP][b->shape.micro - 1]);
  }
}

void rank_tasks(ProgramBuild *b, const ScheduleOrder *order, const guint8 *alone, int rank)
{
  int n_slots = order->first[rank + 1] - order->first[rank];
  g_autoptr(GArray) gathers = g_array_new(FALSE, FALSE, sizeof(int));
  g_autoptr(GArray) gather_tasks = g_array_new(FALSE, FALSE, sizeof(int));
  g_autoptr(GArray) gathered = g_array_new(FALSE, FALSE, sizeof(double));
  g_autoptr(GArray) stores = g_array_new(FALSE, FALSE, sizeof(int));
  g_autoptr(GArray) leaving = g_array_new(FALSE, FALSE, sizeof(Leaving));
  int n_chunks = b->shape.chunks + (b->shares != NULL);
  g_autofree Chunk *chunks = g_new(Chunk, n_chunks);
  const Slot *slots = order->slots + order->first[rank];
  RankBuild r = { .b = b, .rank = rank, .alone = alone ? alone + order->first[rank] : NULL, .chunks = chunks,
                  .n_chunks = n_chunks,
                  .uses = g_new(Use, MAX(n_slots, 1)), .uses_room = n_slots,
                  .gathers = gathers, .gather_tasks = gather_tasks, .gathered = gathered, .stores = stores,
                  .leaving = leaving, .before = -1, .sends = { -1, -1 }, .blocking = { -1, -1 } };

  for (int c = 0; c < n_chunks; c++)
    chunk_init(b, &chunks[c], rank, c);
  vocabulary_begin(b, rank);
  mark_ends(&r, slots, n_slots);
  for (int i = 0; i < n_slots; i++) {
    const Slot *other = slots[i].paired ? &slots[i + 1] : i > 0 && slots[i - 1].paired ? &slots[i - 1] : NULL;
    add_uses(&r, &slots[i], other, i);
  }
  measure_gathers(&r);
  for (guint i = 0; i < r.n_uses; i++)
    add_use(&r, i);
  reduce_at_end(&r);
  for (int c = 0; c < n_chunks; c++)
    chunk_clear(&chunks[c]);
  g_free(r.uses);
}
