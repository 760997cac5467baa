#include "schedule/schedule.h"

#include "base/error.h"
#include "schedule/all.h"

const char *const pass_names[] = { "forward", "backward", "input-gradient", "weight-gradient", NULL };
const char pass_letters[] = "FBIW";

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
