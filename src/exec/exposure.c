#include "exec/exposure.h"

typedef struct {
  BackendEvent *start, *end;
  Exposed kind;
  int task;
} Interval;

void exposure_init(Exposure *e, Backend *backend)
{
  *e = (Exposure) { .b = backend, .intervals = g_array_new(FALSE, FALSE, sizeof(Interval)) };
}

void exposure_clear(Exposure *e)
{
  for (guint i = 0; i < e->intervals->len; i++) {
    e->b->event_free(e->b, g_array_index(e->intervals, Interval, i).start);
    e->b->event_free(e->b, g_array_index(e->intervals, Interval, i).end);
  }
  g_array_unref(e->intervals);
}

void exposure_begin(Exposure *e, BackendStream *s, Exposed kind)
{
  if (!e)
    return;
  if (e->n == e->intervals->len) {
    Interval fresh = { .start = e->b->event_new(e->b), .end = e->b->event_new(e->b) };
    g_array_append_val(e->intervals, fresh);
  }
  Interval *interval = &g_array_index(e->intervals, Interval, e->n);
  interval->kind = kind;
  interval->task = e->task;
  e->b->event_record(e->b, interval->start, s);
}

void exposure_end(Exposure *e, BackendStream *s)
{
  if (e)
    e->b->event_record(e->b, g_array_index(e->intervals, Interval, e->n++).end, s);
}

void exposure_add(const Exposure *e, double (*seconds_of_task)[EXPOSED_COUNT])
{
  for (guint i = 0; i < e->n; i++) {
    const Interval *interval = &g_array_index(e->intervals, Interval, i);
    seconds_of_task[interval->task][interval->kind] +=
        e->b->event_s(e->b, interval->end) - e->b->event_s(e->b, interval->start);
  }
}
