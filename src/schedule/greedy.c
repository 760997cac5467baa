#include "schedule/all.h"

typedef struct {
  const Greedy *g;
  SlotList *slots;
  SlotList *ready; /* that each rank may run */
  Slot *running;  /* of each rank in this quantum; pass PASS_COUNT = none */
  int stages, copies;
  int started[2], finished[2]; /* micro-batches of each copy */
} State;

static void offer(State *s, Pass pass, int stage, int micro)
{
  Place place = schedule_place(s->g->schedule, s->g->shape, stage, micro % s->copies);
  slot_add(&s->ready[place.rank], pass, place.chunk, micro);
}

/* Offers the next micro-batch of a copy if it may start. */
static void admit(State *s, int copy)
{
  int micro = s->started[copy] * s->copies + copy;

  if (micro < s->g->shape->micro && s->started[copy] - s->finished[copy] < s->g->in_flight) {
    offer(s, PASS_FORWARD, 0, micro);
    s->started[copy]++;
  }
}

static int stage_of(const State *s, int rank, const Slot *slot)
{
  return schedule_stage(s->g->schedule, s->g->shape, rank, slot->chunk);
}

/* Takes the ready pass with the least key. */
static gboolean start_best(State *s, int rank)
{
  SlotList *ready = &s->ready[rank];
  gint64 least = G_MAXINT64;
  int best = 0;

  s->running[rank].pass = PASS_COUNT;
  if (ready->n == 0)
    return FALSE;
  for (int i = 0; i < ready->n; i++) {
    const Slot *slot = &ready->slots[i];
    gint64 key = s->g->key(s->g->shape, stage_of(s, rank, slot), slot);
    if (key < least) {
      least = key;
      best = i;
    }
  }
  s->running[rank] = ready->slots[best];
  slot_append(&s->slots[rank], s->running[rank]);
  ready->slots[best] = ready->slots[--ready->n];
  return TRUE;
}

/* Offers what the pass that a rank has run makes ready. */
static void follow(State *s, int rank)
{
  const Slot *slot = &s->running[rank];
  int copy = slot->micro % s->copies;

  if (slot->pass == PASS_COUNT)
    return;
  int stage = stage_of(s, rank, slot);
  if (slot->pass == PASS_FORWARD && stage == s->stages - 1)
    offer(s, PASS_BACKWARD, stage, slot->micro);
  else if (slot->pass == PASS_FORWARD)
    offer(s, PASS_FORWARD, stage + 1, slot->micro);
  else if (stage > 0)
    offer(s, PASS_BACKWARD, stage - 1, slot->micro);
  else
    s->finished[copy]++;
  if (stage == 0)
    admit(s, copy);
}

void greedy_order(const Greedy *greedy, SlotList *slots)
{
  int p = greedy->shape->ranks, ran;
  State s = { .g = greedy, .slots = slots, .copies = schedule_copies(greedy->schedule) };

  s.stages = schedule_stages(greedy->schedule, greedy->shape);
  s.running = g_new(Slot, p);
  s.ready = g_new0(SlotList, p);
  for (int copy = 0; copy < s.copies; copy++)
    admit(&s, copy);
  do {
    ran = 0;
    for (int rank = 0; rank < p; rank++)
      ran += start_best(&s, rank);
    for (int rank = 0; rank < p; rank++)
      follow(&s, rank);
  } while (ran > 0);
  for (int rank = 0; rank < p; rank++)
    g_free(s.ready[rank].slots);
  g_free(s.ready);
  g_free(s.running);
}
