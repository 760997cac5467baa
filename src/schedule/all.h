/* The schedules that the table of schedule.c lists, and what they share. */
#ifndef TDP_SCHEDULE_ALL_H
#define TDP_SCHEDULE_ALL_H

#include "schedule/schedule.h"

extern const Schedule schedule_naive;
extern const Schedule schedule_gpipe;
extern const Schedule schedule_1f1b;
extern const Schedule schedule_interleaved;
extern const Schedule schedule_interleaved_rounds;
extern const Schedule schedule_looped_bfs;
extern const Schedule schedule_zb_h1;
extern const Schedule schedule_zb_h2;
extern const Schedule schedule_zb_1p;
extern const Schedule schedule_zb_2p;
extern const Schedule schedule_zb_v;
extern const Schedule schedule_v_half;
extern const Schedule schedule_v_min;
extern const Schedule schedule_dualpipe;
extern const Schedule schedule_dualpipev;
extern const Schedule schedule_chimera;
extern const Schedule schedule_hanayo;
extern const Schedule schedule_varuna;
extern const Schedule schedule_vocab_1;
extern const Schedule schedule_vocab_2;
extern const Schedule schedule_vocab_interlaced;

static inline void slot_append(SlotList *slots, Slot slot)
{
  if (slots->n == slots->room) {
    slots->room = MAX(2 * slots->room, 64);
    slots->slots = g_renew(Slot, slots->slots, slots->room);
  }
  slots->slots[slots->n++] = slot;
}

static inline void slot_add(SlotList *slots, Pass pass, int chunk, int micro)
{
  slot_append(slots, (Slot) { .micro = micro, .chunk = chunk, .pass = pass });
}

/* A forward overlapped with a backward. */
static inline void slot_add_pair(SlotList *slots, int forward_chunk, int forward_micro, int backward_chunk,
                                 int backward_micro)
{
  slot_append(slots, (Slot) { .micro = forward_micro, .chunk = forward_chunk, .pass = PASS_FORWARD, .paired = TRUE });
  slot_add(slots, PASS_BACKWARD, backward_chunk, backward_micro);
}

/* So many times the same value; the caller frees it. */
static inline double *doubles_new(gsize n, double value)
{
  double *all = g_new(double, n);

  for (gsize i = 0; i < n; i++)
    all[i] = value;
  return all;
}

/*
 * An order found by running the pipeline with passes of equal length: in each
 * quantum every rank takes, of the passes that are ready, the one with the least
 * key. At most `in_flight` micro-batches of each copy are between their first
 * forward and their last backward; of two copies, the first takes the even
 * micro-batches. (greedy.c)
 */
typedef struct {
  const Schedule *schedule;
  const ScheduleShape *shape;
  gint64 (*key)(const ScheduleShape *shape, int stage, const Slot *slot);
  int in_flight;
} Greedy;

void greedy_order(const Greedy *greedy, SlotList *slots);

#endif
