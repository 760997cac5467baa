/* The tasks of one rank: its schedule's slots, split where communication runs beside them. */
#include "program/build.h"

/* One piece of a slot as it will run. */
typedef struct {
  Slot slot;
  const Slot *other; /* that it overlaps, NULL = none */
  int piece; /* -1 = the whole chunk */
  gboolean gather, reduce, across; /* parameters before it, gradients after it, and over copies of a part */
  gboolean first, last;    /* of its slot */
} Use;

typedef struct {
  ProgramBuild *b;
  int rank;
  Chunk *chunks;
  int n_chunks;    /* the share of a spread vocabulary included */
  GArray *uses;    /* Use */
  GArray *gathers; /* int: index of the gathered task's compute task, in order of use */
  guint next_use;  /* uses whose gather has been issued */
  int issued;      /* gathers issued */
  GArray *gather_tasks; /* int */
  int depth;       /* pieces whose parameters may be present at once, 0 = no limit */
  int held;               /* first task of the pair that is being built */
  const Slot *held_slot;  /* its first slot, what it brings waits for the pair's end */
  int blocking[2]; /* send and reduction that the next compute task must wait for, -1 = none */
} RankBuild;

static Chunk *chunk_of(const RankBuild *r, const Slot *slot)
{
  return &r->chunks[is_vocabulary(slot->pass) ? r->b->shape.chunks : slot->chunk];
}

static void mark_ends(RankBuild *r, const Slot *slots, int n)
{
  for (int i = 0; i < n; i++) {
    const Slot *s = &slots[i];
    Chunk *chunk = chunk_of(r, s);
    if (chunk->first_forward < 0)
      chunk->first_forward = i;
    if (makes_weight_gradient(s->pass))
      chunk->last_backward = i;
  }
}

static void add_uses(RankBuild *r, const Slot *slot, const Slot *other, int index)
{
  const Plan *p = r->b->plan;
  Chunk *chunk = chunk_of(r, slot);
  gboolean sums = sums_weights(p), sharded = sums && p->zero == 3;
  gboolean fresh = sums && p->zero > 0 && p->overlap.parameters && index == chunk->first_forward;
  gboolean gather = (sharded && slot->pass != PASS_WEIGHT) || fresh;
  gboolean reduce = sums && makes_weight_gradient(slot->pass) &&
                    (p->zero >= 2 || (index == chunk->last_backward && p->overlap.gradients));
  gboolean split = gather || (reduce && (p->overlap.gradients || sharded));
  gboolean forward = slot->pass == PASS_FORWARD || slot->pass == PASS_RECOMPUTE;
  int n = split ? (int)chunk->pieces->len : 1;

  for (int i = 0; i < n; i++) {
    Use use = { .slot = *slot, .other = other, .piece = split ? (forward ? i : n - 1 - i) : -1, .gather = gather,
                .reduce = reduce, .across = reduce && index == chunk->last_backward, .first = i == 0, .last = i == n - 1 };
    g_array_append_val(r->uses, use);
  }
}

/* Gathers what a piece needs, behind a task unless that is -1; returns the last gather, or -1. */
static int gather_weights(RankBuild *r, const Use *use, int behind)
{
  Chunk *chunk = chunk_of(r, &use->slot);
  int task = -1;

  for (int experts = 0; experts < 2; experts++) {
    if (!chunk_has(r->b, chunk, use->piece, experts))
      continue;
    int segment = chunk_gather_segment(r->b, chunk, use->piece, experts);
    task = program_add_task(r->b, r->rank, LANE_DATA, segment, use->slot.chunk, use->slot.micro);
    if (behind >= 0)
      program_add_edge(r->b, task, behind);
  }
  return task;
}

/* Issues gathers in order of use, up to `depth` ahead of the gathered pieces
 * that have run: the (i+depth)-th waits until the i-th piece gave its buffer back. */
static void issue_gathers(RankBuild *r)
{
  for (; r->next_use < r->uses->len; r->next_use++) {
    const Use *use = &g_array_index(r->uses, Use, r->next_use);
    if (!use->gather)
      continue;
    if (r->depth && r->issued >= (int)r->gathers->len + r->depth)
      return;
    int task = gather_weights(r, use, r->depth && r->issued >= r->depth ? g_array_index(r->gathers, int, r->issued - r->depth) : -1);
    g_array_append_val(r->gather_tasks, task);
    r->issued++;
  }
}

static gboolean is_backward(Pass pass)
{
  return pass == PASS_BACKWARD || pass == PASS_INPUT;
}

static void add_send(RankBuild *r, const Slot *slot, int task)
{
  ProgramBuild *b = r->b;
  gboolean backward = is_backward(slot->pass);
  int stage = program_stage(b, r->rank, slot->chunk);
  int to = backward ? stage - 1 : stage + 1;

  if ((!backward && slot->pass != PASS_FORWARD) || to < 0 || to >= b->stages)
    return;
  int to_rank = schedule_place(b->plan->schedule, &b->shape, to, schedule_copy(b->plan->schedule, slot->chunk)).rank;
  if (to_rank != r->rank) {
    int *segment = &r->chunks[slot->chunk].send[backward];
    if (*segment < 0)
      *segment = program_add_segment(b, send_segment(b, r->rank, to_rank, slot->pass));
    int send = program_add_task(b, r->rank, LANE_PIPELINE, *segment, slot->chunk, slot->micro);
    program_add_edge(b, send, task);
    task = send;
    if (!b->plan->overlap.pipeline && !b->plan->schedule->opportunistic)
      r->blocking[0] = send;
  }
  b->arrival[program_slot(b, backward, to, slot->micro)] = task;
}

/* Sums gradients behind a task, over copies too if it is the last time; returns the last sum. */
static int sum_gradients(RankBuild *r, Chunk *chunk, int piece, gboolean across, const Slot *slot, int task)
{
  ProgramBuild *b = r->b;
  int last = task;

  for (int experts = 0; experts < 2; experts++) {
    if (!chunk_has(b, chunk, piece, experts))
      continue;
    int segment = chunk_reduce_segment(b, chunk, piece, experts);
    last = program_add_task(b, r->rank, LANE_DATA, segment, slot->chunk, slot->micro);
    program_add_edge(b, last, task);
    if (across && b->sites[r->rank].copies[experts].size > 1)
      last = program_add_task(b, r->rank, LANE_DATA, chunk_across_segment(b, chunk, piece, experts), slot->chunk,
                              slot->micro);
  }
  return last;
}

static void add_reduce(RankBuild *r, const Use *use, int task)
{
  ProgramBuild *b = r->b;
  int reduce = sum_gradients(r, chunk_of(r, &use->slot), use->piece, use->across, &use->slot, task);

  if (!b->plan->overlap.gradients)
    r->blocking[1] = reduce;
}

/* What a slot brings others once its last task has run; of a pair, once both have. */
static void end_slot(RankBuild *r, const Use *use, int task)
{
  if (use->slot.paired) {
    r->held_slot = &use->slot;
    return;
  }
  if (use->other) {
    vocabulary_after(r->b, r->rank, r->held_slot, task);
    add_send(r, r->held_slot, task);
  }
  vocabulary_after(r->b, r->rank, &use->slot, task);
  add_send(r, &use->slot, task);
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
  if (slot->pass == PASS_FORWARD || is_backward(slot->pass))
    b->entry[program_slot(b, is_backward(slot->pass), program_stage(b, r->rank, slot->chunk), slot->micro)] = task;
}

static int use_segment(RankBuild *r, const Use *use)
{
  if (use->other)
    return pair_segment(r->b, r->rank, &use->slot, chunk_of(r, &use->slot), use->piece, use->other,
                        chunk_of(r, use->other));
  return chunk_pass_segment(r->b, chunk_of(r, &use->slot), use->piece, use->slot.pass);
}

static void add_use(RankBuild *r, const Use *use)
{
  ProgramBuild *b = r->b;
  int segment = use_segment(r, use), task;

  if (use->gather)
    issue_gathers(r);
  task = program_add_task(b, r->rank, LANE_COMPUTE, segment, use->slot.chunk, use->slot.micro);
  g_array_index(b->program->tasks, Task, task).paired = use->slot.paired;
  if (use->gather) {
    int gather = g_array_index(r->gather_tasks, int, r->gathers->len);
    if (gather >= 0)
      program_add_edge(b, task, gather);
    g_array_append_val(r->gathers, task);
  }
  for (int i = 0; i < 2; i++) {
    if (r->blocking[i] >= 0)
      program_add_edge(b, task, r->blocking[i]);
    r->blocking[i] = -1;
  }
  if (use->first)
    begin_slot(r, use, task);
  if (use->reduce)
    add_reduce(r, use, task);
  if (use->last)
    end_slot(r, use, task);
  b->last_task[r->rank] = task;
}

/* Gradients of ZeRO-0 and 1 that are reduced after everything else. */
static void reduce_at_end(RankBuild *r)
{
  const Plan *p = r->b->plan;

  if (!sums_weights(p) || p->zero >= 2 || p->overlap.gradients)
    return;
  for (int c = 0; c < r->n_chunks; c++) {
    Slot slot = { .chunk = c };
    sum_gradients(r, &r->chunks[c], -1, TRUE, &slot, r->b->last_task[r->rank]);
  }
}

static int gather_depth(const Plan *p)
{
  if (p->zero < 3)
    return 0;
  return p->overlap.parameters ? 2 : 1;
}

void rank_tasks(ProgramBuild *b, const ScheduleOrder *order, int rank)
{
  g_autoptr(GArray) uses = g_array_new(FALSE, FALSE, sizeof(Use));
  g_autoptr(GArray) gathers = g_array_new(FALSE, FALSE, sizeof(int));
  g_autoptr(GArray) gather_tasks = g_array_new(FALSE, FALSE, sizeof(int));
  int n_chunks = b->shape.chunks + (b->shares != NULL);
  g_autofree Chunk *chunks = g_new(Chunk, n_chunks);
  const Slot *slots = order->slots + order->first[rank];
  int n_slots = order->first[rank + 1] - order->first[rank];
  RankBuild r = { .b = b, .rank = rank, .chunks = chunks, .n_chunks = n_chunks, .uses = uses, .gathers = gathers,
                  .gather_tasks = gather_tasks, .depth = gather_depth(b->plan), .blocking = { -1, -1 } };

  for (int c = 0; c < n_chunks; c++)
    chunk_init(b, &chunks[c], rank, c);
  mark_ends(&r, slots, n_slots);
  for (int i = 0; i < n_slots; i++) {
    const Slot *other = slots[i].paired ? &slots[i + 1] : i > 0 && slots[i - 1].paired ? &slots[i - 1] : NULL;
    add_uses(&r, &slots[i], other, i);
  }
  for (guint i = 0; i < uses->len; i++)
    add_use(&r, &g_array_index(uses, Use, i));
  reduce_at_end(&r);
  for (int c = 0; c < n_chunks; c++)
    chunk_clear(&chunks[c]);
}
