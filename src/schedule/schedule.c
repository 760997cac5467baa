#include "schedule/schedule.h"

#include "base/error.h"
#include "schedule/all.h"

#include <string.h>

const char *const pass_names[] = { "forward", "backward", "input-gradient", "weight-gradient", "recompute",
                                   "logits", "vocabulary-gradient", NULL };
const char pass_letters[] = "FBIWRST";

const Schedule *const schedules[] = {
  &schedule_naive,
  &schedule_gpipe,
  &schedule_1f1b,
  &schedule_interleaved,
  &schedule_interleaved_rounds,
  &schedule_looped_bfs,
  &schedule_zb_h1,
  &schedule_zb_h2,
  &schedule_zb_1p,
  &schedule_zb_2p,
  &schedule_zb_v,
  &schedule_v_half,
  &schedule_v_min,
  &schedule_dualpipe,
  &schedule_dualpipev,
  &schedule_chimera,
  &schedule_hanayo,
  &schedule_varuna,
  &schedule_vocab_1,
  &schedule_vocab_2,
  &schedule_vocab_interlaced,
  NULL,
};

static gboolean has_alias(const Schedule *schedule, const char *name)
{
  g_auto(GStrv) aliases = g_strsplit(schedule->aliases ? schedule->aliases : "", " ", -1);
  return g_strv_contains((const char *const *)aliases, name);
}

const Schedule *schedule_find(const char *name)
{
  for (int i = 0; schedules[i]; i++)
    if (g_str_equal(schedules[i]->name, name) || has_alias(schedules[i], name))
      return schedules[i];
  return NULL;
}

int schedule_index(const Schedule *schedule)
{
  for (int i = 0; schedules[i]; i++)
    if (schedules[i] == schedule)
      return i;
  return -1;
}

void shape_times(const ScheduleShape *shape, double pass_time[PASS_COUNT])
{
  gboolean given = shape->forward > 0 || shape->input > 0 || shape->weight > 0;

  memset(pass_time, 0, PASS_COUNT * sizeof *pass_time);
  pass_time[PASS_FORWARD] = pass_time[PASS_RECOMPUTE] = given ? shape->forward : 1;
  pass_time[PASS_INPUT] = given ? shape->input : 1;
  pass_time[PASS_WEIGHT] = given ? shape->weight : 1;
  pass_time[PASS_BACKWARD] = pass_time[PASS_INPUT] + pass_time[PASS_WEIGHT];
}

/* Two copies of the model share the ranks and the micro-batches. */
static gboolean check_two_way(const Schedule *schedule, const ScheduleShape *shape, GError **error)
{
  if (shape->ranks % 2 != 0)
    return input_error(error, "schedule %s needs an even number of pipeline ranks, the plan has %d", schedule->name,
                       shape->ranks);
  if (shape->micro % 2 != 0)
    return input_error(error, "schedule %s needs an even number of micro-batches, half of them for each direction, the "
                       "plan has %d", schedule->name, shape->micro);
  return TRUE;
}

gboolean schedule_check(const Schedule *schedule, const ScheduleShape *shape, GError **error)
{
  const char *plural = schedule->min_chunks == 1 ? "" : "s";
  gint64 least = (gint64)schedule->least_micro * shape->ranks - schedule->one_less;

  if (shape->chunks < schedule->min_chunks || shape->chunks > schedule->max_chunks) {
    if (schedule->min_chunks == schedule->max_chunks)
      return input_error(error, "schedule %s needs %d chunk%s a pipeline rank, the plan has %d", schedule->name,
                         schedule->min_chunks, plural, shape->chunks);
    return input_error(error, "schedule %s needs %d or more chunks a pipeline rank, the plan has %d", schedule->name,
                       schedule->min_chunks, shape->chunks);
  }
  if (schedule->placement == PLACE_TWO_WAY && !check_two_way(schedule, shape, error))
    return FALSE;
  if (shape->micro < least)
    return input_error(error, "schedule %s needs at least %" G_GINT64_FORMAT " micro-batches for %d pipeline ranks "
                       "(%dp%s), the plan has %d", schedule->name, least, shape->ranks, schedule->least_micro,
                       schedule->one_less ? " - 1" : "", shape->micro);
  return !schedule->check || schedule->check(shape, error);
}

ScheduleOrder *schedule_order_new(const Schedule *schedule, const ScheduleShape *shape)
{
  ScheduleOrder *order = g_new(ScheduleOrder, 1);
  g_autofree SlotList *ranks = g_new0(SlotList, shape->ranks);
  SlotList all = { .room = 2 * shape->micro * shape->chunks * shape->ranks };

  all.slots = g_new(Slot, all.room);
  *order = (ScheduleOrder) { .ranks = shape->ranks, .first = g_new(int, shape->ranks + 1) };
  if (schedule->order_all)
    schedule->order_all(shape, ranks);
  for (int rank = 0; rank < shape->ranks; rank++) {
    order->first[rank] = all.n;
    if (schedule->order)
      schedule->order(shape, rank, &all);
    for (int i = 0; i < ranks[rank].n; i++)
      slot_append(&all, ranks[rank].slots[i]);
    g_free(ranks[rank].slots);
  }
  order->first[shape->ranks] = all.n;
  order->slots = all.slots;
  return order;
}

void schedule_order_free(ScheduleOrder *order)
{
  if (!order)
    return;
  g_free(order->first);
  g_free(order->slots);
  g_free(order);
}

/* How many forwards are alone at the start, and backwards at the end, of a rank that runs so many before its first
 * backward. */
static int alone_of(int ahead)
{
  return MAX(1, ahead - 1);
}

static void mark_alone(const Slot *slots, int n, guint8 *alone)
{
  int ahead = 0, left = 0, forwards = 0;

  for (int i = 0; i < n; i++) {
    left += pass_is_backward(slots[i].pass);
    ahead += slots[i].pass == PASS_FORWARD && left == 0;
  }
  ahead = alone_of(ahead);
  for (int i = 0; i < n; i++) {
    gboolean pair = slots[i].paired || (i > 0 && slots[i - 1].paired);
    forwards += slots[i].pass == PASS_FORWARD;
    left -= pass_is_backward(slots[i].pass);
    if (slots[i].pass == PASS_FORWARD || pass_is_backward(slots[i].pass))
      alone[i] = !pair && (slots[i].pass == PASS_FORWARD ? forwards <= ahead : left < ahead);
  }
}

guint8 *schedule_order_alone(const ScheduleOrder *order)
{
  guint8 *alone = g_new0(guint8, MAX(order->first[order->ranks], 1));

  for (int rank = 0; rank < order->ranks; rank++)
    mark_alone(order->slots + order->first[rank], order->first[rank + 1] - order->first[rank],
               alone + order->first[rank]);
  return alone;
}

int schedule_alone(const Schedule *schedule, const ScheduleShape *shape, int rank, int chunk, gboolean backward)
{
  int all = shape->micro * shape->chunks;

  if (!schedule->first)
    return 0;
  int n = alone_of(schedule_peak(schedule, shape, rank));
  /* backwards mirror the chunks of forwards: the last are what the first leave */
  return backward ? shape->micro - schedule->first(shape, shape->chunks - 1 - chunk, all - n)
                  : schedule->first(shape, chunk, n);
}

int schedule_peak(const Schedule *schedule, const ScheduleShape *shape, int rank)
{
  return schedule->peak ? schedule->peak(shape, rank) : 1;
}

/* What a slot adds to what its rank holds, in what a forward of its chunk saves. */
static int held_by(const Schedule *schedule, const ScheduleShape *shape, int rank, const Slot *slot)
{
  switch (slot->pass) {
  case PASS_FORWARD: /* where it is made again the first one leaves nothing */
    return !schedule->recompute ||
           schedule_stage(schedule, shape, rank, slot->chunk) == schedule_stages(schedule, shape) - 1;
  case PASS_RECOMPUTE:
    return 1;
  case PASS_BACKWARD:
  case PASS_WEIGHT:
    return -1;
  default:
    return 0;
  }
}

double schedule_order_peak(const Schedule *schedule, const ScheduleShape *shape, const ScheduleOrder *order, int rank,
                           const double *saved)
{
  double held = 0, peak = 0;

  for (int i = order->first[rank]; i < order->first[rank + 1]; i++) {
    const Slot *slot = &order->slots[i];
    held += held_by(schedule, shape, rank, slot) * saved[slot->chunk];
    peak = MAX(peak, held);
  }
  return peak;
}

int schedule_held(const Schedule *schedule, const ScheduleShape *shape, int rank)
{
  int peak = schedule_peak(schedule, shape, rank);
  gboolean equal = !schedule->grouped || shape->micro % (shape->group ? shape->group : shape->ranks) == 0;

  if (shape->chunks == 1)
    return peak;
  if (peak == shape->micro * shape->chunks)
    return shape->micro;
  return schedule->first && equal ? schedule->first(shape, shape->chunks - 1, peak) : 0;
}

int schedule_order_held(const Schedule *schedule, const ScheduleShape *shape, const ScheduleOrder *order, int rank)
{
  g_autofree int *held = g_new0(int, shape->chunks);
  int most = 0;

  for (int i = order->first[rank]; i < order->first[rank + 1]; i++) {
    const Slot *slot = &order->slots[i];
    held[slot->chunk] += held_by(schedule, shape, rank, slot);
    int least = held[slot->chunk];
    for (int chunk = 0; chunk < shape->chunks && least > most; chunk++)
      least = MIN(least, held[chunk]);
    most = MAX(most, least);
  }
  return most;
}
