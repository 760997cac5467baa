#include "schedule/schedule.h"

#include "base/error.h"
#include "schedule/all.h"

#include <string.h>

const char *const pass_names[] = { "forward", "backward", "input-gradient", "weight-gradient", "recompute",
                                   "logits", "vocabulary-gradient", NULL };
const char pass_letters[] = "FBIWRST";

const Schedule *const schedules[] = {
  &schedule_naive, &schedule_gpipe, &schedule_1f1b, &schedule_interleaved, NULL,
};

const Schedule *schedule_find(const char *name)
{
  for (int i = 0; schedules[i]; i++)
    if (g_str_equal(schedules[i]->name, name))
      return schedules[i];
  return NULL;
}

gboolean schedule_check(const Schedule *schedule, const ScheduleShape *shape, GError **error)
{
  if (shape->chunks < schedule->min_chunks || shape->chunks > schedule->max_chunks) {
    if (schedule->min_chunks == schedule->max_chunks)
      g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "schedule %s needs %d chunk%s a pipeline rank, the plan has %d",
                  schedule->name, schedule->min_chunks, schedule->min_chunks == 1 ? "" : "s", shape->chunks);
    else
      g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "schedule %s needs %d or more chunks a pipeline rank, the plan has %d",
                  schedule->name, schedule->min_chunks, shape->chunks);
    return FALSE;
  }
  return !schedule->check || schedule->check(shape, error);
}

ScheduleOrder *schedule_order_new(const Schedule *schedule, const ScheduleShape *shape)
{
  ScheduleOrder *order = g_new(ScheduleOrder, 1);
  g_autofree GArray **ranks = g_new(GArray *, shape->ranks);
  int n = 0;

  for (int rank = 0; rank < shape->ranks; rank++) {
    ranks[rank] = g_array_new(FALSE, FALSE, sizeof(Slot));
    if (schedule->order)
      schedule->order(shape, rank, ranks[rank]);
  }
  if (schedule->order_all)
    schedule->order_all(shape, ranks);
  order->ranks = shape->ranks;
  order->first = g_new(int, shape->ranks + 1);
  for (int rank = 0; rank < shape->ranks; rank++) {
    order->first[rank] = n;
    n += ranks[rank]->len;
  }
  order->first[shape->ranks] = n;
  order->slots = g_new(Slot, MAX(n, 1));
  for (int rank = 0; rank < shape->ranks; rank++) {
    if (ranks[rank]->len > 0)
      memcpy(order->slots + order->first[rank], ranks[rank]->data, ranks[rank]->len * sizeof(Slot));
    g_array_unref(ranks[rank]);
  }
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

int schedule_peak(const Schedule *schedule, const ScheduleShape *shape, int rank)
{
  return schedule->peak ? schedule->peak(shape, rank) : 1;
}
