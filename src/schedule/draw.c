#include "schedule/schedule.h"

#include <math.h>
#include <string.h>

/* Writes "F3", cut or padded to the box; chunks after the first in lower case with their letter. */
static void draw_box(char *line, int from, int to, const Slot *slot)
{
  char label[16];
  char letter = pass_letters[slot->pass];
  int n;

  if (from >= to)
    return;
  if (slot->chunk > 0)
    n = g_snprintf(label, sizeof label, "%c%c%u", g_ascii_tolower(letter), (char)('a' + (slot->chunk - 1) % 26), slot->micro);
  else
    n = g_snprintf(label, sizeof label, "%c%u", letter, slot->micro);
  memset(line + from, slot->pass == PASS_FORWARD ? '-' : '=', to - from);
  line[from] = '|';
  memcpy(line + from + 1, label, CLAMP(n, 0, to - from - 1));
}

char *schedule_draw(const Schedule *schedule, const ScheduleShape *shape, const double pass_time[PASS_COUNT],
                    double pair, double unit)
{
  g_autoptr(Replay) r = schedule_replay(schedule, shape, pass_time, pair);
  GString *text = g_string_new(NULL);

  if (!r) {
    g_string_append(text, "deadlock\n");
    return g_string_free(text, FALSE);
  }
  int width = (int)lround(r->makespan / unit);
  g_autofree char *line = g_malloc(width + 1);
  for (int rank = 0; rank < shape->ranks; rank++) {
    memset(line, ' ', width);
    line[width] = '\0';
    for (int i = r->order->first[rank]; i < r->order->first[rank + 1]; i++)
      draw_box(line, (int)lround(r->start[i] / unit), (int)lround(r->end[i] / unit), &r->order->slots[i]);
    g_string_append_printf(text, "%2d %s|\n", rank, line);
  }
  g_string_append_printf(text, "makespan %g, idle %g, peak", r->makespan, r->makespan - r->busy);
  for (int rank = 0; rank < shape->ranks; rank++)
    g_string_append_printf(text, " %g", (double)r->peak[rank] / shape->chunks);
  g_string_append_c(text, '\n');
  return g_string_free(text, FALSE);
}
