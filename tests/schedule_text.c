#include "schedule_text.h"

#include "schedule/all.h"

#include <math.h>
#include <string.h>

/* "F3", "fa3" of the second chunk. */
static void label_slot(char label[24], const Slot *slot)
{
  char letter = pass_letters[slot->pass];

  if (slot->chunk > 0)
    g_snprintf(label, 24, "%c%c%u", g_ascii_tolower(letter), (char)('a' + (slot->chunk - 1) % 26), slot->micro);
  else
    g_snprintf(label, 24, "%c%u", letter, slot->micro);
}

/* Writes a label, cut or padded to the box. */
static void draw_box(char *line, int from, int to, const Slot *slot)
{
  char first[24], second[24];

  if (from >= to)
    return;
  label_slot(first, slot);
  if (slot->paired)
    label_slot(second, slot + 1);
  g_autofree char *label = slot->paired ? g_strconcat(first, "&", second, NULL) : g_strdup(first);
  memset(line + from, slot->pass == PASS_FORWARD && !slot->paired ? '-' : '=', to - from);
  line[from] = '|';
  memcpy(line + from + 1, label, MIN((int)strlen(label), to - from - 1));
}

static void draw_rank(const Replay *r, int rank, double unit, char *line)
{
  const ScheduleOrder *order = r->order;

  for (int i = order->first[rank]; i < order->first[rank + 1]; i += order->slots[i].paired ? 2 : 1)
    draw_box(line, (int)lround(r->start[i] / unit), (int)lround(r->end[i] / unit), &order->slots[i]);
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
  line[width] = '\0';
  for (int rank = 0; rank < shape->ranks; rank++) {
    memset(line, ' ', width);
    draw_rank(r, rank, unit, line);
    g_string_append_printf(text, "%2d %s|\n", rank, line);
  }
  g_string_append_printf(text, "makespan %g, idle %g, within a rank's span %g, peak", r->makespan,
                         r->makespan - r->busy, r->span_idle);
  for (int rank = 0; rank < shape->ranks; rank++)
    g_string_append_printf(text, " %g", (double)r->peak[rank] * schedule_copies(schedule) / shape->chunks);
  g_string_append_c(text, '\n');
  return g_string_free(text, FALSE);
}
