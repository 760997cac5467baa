#include "schedule/all.h"

typedef struct {
  const Greedy *g;
  GArray **slots;
  GArray **ready; /* Slot, that each rank may run */
  Slot *running;  /* of each rank in this quantum; pass PASS_COUNT = none */
  int stages, copies;
  int started[2], finished[2]; /* micro-batches of each copy */
} State;

static void offer(State *s, Pass pass, int stage, int micro)
{
  Place place = schedule_place(s->g->schedule, s->g->shape, stage, micro % s->copies);
  slot_add(s->ready[place.rank], pass, place.chunk, micro);
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
  GArray *ready = s->ready[rank];
  gint64 least = G_MAXINT64;
  guint best = 0;

  s->running[rank].pass = PASS_COUNT;
  if (ready->len == 0)
    return FALSE;
  for (guint i = 0; i < ready->len; i++) {
    const Slot *slot = &g_array_index(ready, Slot, i);
    gint64 key = s->g->key(s->g->shape, stage_of(s, rank, slot), slot);
    if (key < least) {
      least = key;
      best = i;
    }
  }
  s->running[rank] = g_array_index(ready, Slot, best);
  g_array_append_val(s->slots[rank], s->running[rank]);
  g_array_remove_index_fast(ready, best);
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

void greedy_order(const Greedy *greedy, GArray **slots)
{
  int p = greedy->shape->ranks, ran;
  State s = { .g = greedy, .slots = slots, .copies = schedule_copies(greedy->schedule) };

  s.stages = schedule_stages(greedy->schedule, greedy->shape);
  s.running = g_new(Slot, p);
  s.ready = g_new(GArray *, p);
  for (int rank = 0; rank < p; rank++)
    s.ready[rank] = g_array_new(FALSE, FALSE, sizeof(Slot));
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
    g_array_unref(s.ready[rank]);
  g_free(s.ready);
  g_free(s.running);
}
