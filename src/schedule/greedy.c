#include "schedule/all.h"

#include <math.h>

typedef struct {
  Slot slot;
  double ready;
} Item;

typedef struct {
  const Greedy *g;
  GArray **slots;
  GArray **items; /* Item, that each rank may run */
  double *clock;  /* of each rank */
  double *next;   /* when it runs its next pass at the earliest */
  double chunk_time[PASS_COUNT];
  int stages, copies;
  int started[2], finished[2]; /* micro-batches of each copy */
  gboolean waiting[2];         /* the next one may start and has not */
} State;

static void update_next(State *s, int rank)
{
  double ready = INFINITY;

  for (guint i = 0; i < s->items[rank]->len; i++)
    ready = MIN(ready, g_array_index(s->items[rank], Item, i).ready);
  s->next[rank] = MAX(s->clock[rank], ready);
}

static void offer(State *s, Pass pass, int stage, int micro, double ready)
{
  Place place = schedule_place(s->g->schedule, s->g->shape, stage, micro % s->copies);
  Item item = { { .micro = micro, .chunk = place.chunk, .pass = pass }, ready };

  g_array_append_val(s->items[place.rank], item);
  update_next(s, place.rank);
}

/* Offers the next micro-batch of a copy if it may start. */
static void admit(State *s, int copy, double now)
{
  int micro = s->started[copy] * s->copies + copy;

  if (s->waiting[copy] || micro >= s->g->shape->micro || s->started[copy] - s->finished[copy] >= s->g->in_flight)
    return;
  s->waiting[copy] = TRUE;
  offer(s, PASS_FORWARD, 0, micro, now);
}

/* The ready item with the least key. */
static guint choose(const State *s, int rank, double now)
{
  const GArray *items = s->items[rank];
  gint64 least = G_MAXINT64;
  guint best = 0;

  for (guint i = 0; i < items->len; i++) {
    const Item *item = &g_array_index(items, Item, i);
    int stage = schedule_stage(s->g->schedule, s->g->shape, rank, item->slot.chunk);
    gint64 key = s->g->key(s->g->shape, stage, &item->slot);
    if (item->ready <= now && key < least) {
      least = key;
      best = i;
    }
  }
  return best;
}

static void follow(State *s, int stage, const Slot *slot, double end)
{
  int copy = slot->micro % s->copies;

  if (slot->pass == PASS_FORWARD && stage == 0) {
    s->started[copy]++;
    s->waiting[copy] = FALSE;
    admit(s, copy, end);
  }
  if (slot->pass == PASS_FORWARD)
    offer(s, stage < s->stages - 1 ? PASS_FORWARD : PASS_BACKWARD, MIN(stage + 1, s->stages - 1), slot->micro, end);
  else if (stage > 0)
    offer(s, PASS_BACKWARD, stage - 1, slot->micro, end);
  if (slot->pass == PASS_BACKWARD && stage == 0) {
    s->finished[copy]++;
    admit(s, copy, end);
  }
}

static void run_best(State *s, int rank)
{
  double now = s->next[rank];
  guint best = choose(s, rank, now);
  Slot slot = g_array_index(s->items[rank], Item, best).slot;
  double end = now + s->chunk_time[slot.pass];

  g_array_append_val(s->slots[rank], slot);
  g_array_remove_index_fast(s->items[rank], best);
  s->clock[rank] = end;
  update_next(s, rank);
  follow(s, schedule_stage(s->g->schedule, s->g->shape, rank, slot.chunk), &slot, end);
}

static int first_rank(const State *s)
{
  int first = 0;

  for (int rank = 1; rank < s->g->shape->ranks; rank++)
    if (s->next[rank] < s->next[first])
      first = rank;
  return first;
}

void greedy_order(const Greedy *greedy, GArray **slots)
{
  int p = greedy->shape->ranks;
  State s = { .g = greedy, .slots = slots, .copies = schedule_copies(greedy->schedule) };

  s.stages = schedule_stages(greedy->schedule, greedy->shape);
  s.items = g_new(GArray *, p);
  s.clock = g_new0(double, p);
  s.next = g_new(double, p);
  shape_times(greedy->shape, s.chunk_time);
  for (int pass = 0; pass < PASS_COUNT; pass++)
    s.chunk_time[pass] *= (double)s.copies / greedy->shape->chunks;
  for (int rank = 0; rank < p; rank++) {
    s.items[rank] = g_array_new(FALSE, FALSE, sizeof(Item));
    s.next[rank] = INFINITY;
  }
  for (int copy = 0; copy < s.copies; copy++)
    admit(&s, copy, 0);
  for (int rank = first_rank(&s); !isinf(s.next[rank]); rank = first_rank(&s))
    run_best(&s, rank);
  for (int rank = 0; rank < p; rank++)
    g_array_unref(s.items[rank]);
  g_free(s.items);
  g_free(s.clock);
  g_free(s.next);
}
