#include "sim/event_queue.h"

void event_queue_init(EventQueue *q)
{
  q->heap = g_array_new(FALSE, FALSE, sizeof(Event));
  q->next_order = 0;
}

void event_queue_clear(EventQueue *q)
{
  g_clear_pointer(&q->heap, g_array_unref);
}

static gboolean before(const Event *a, const Event *b)
{
  return a->time < b->time || (a->time == b->time && a->order < b->order);
}

void event_queue_push(EventQueue *q, double time, int lane, guint32 version)
{
  Event event = { time, q->next_order++, lane, version };
  guint i = q->heap->len;

  g_array_append_val(q->heap, event);
  Event *heap = (Event *)q->heap->data;
  for (; i > 0 && before(&event, &heap[(i - 1) / 2]); i = (i - 1) / 2)
    heap[i] = heap[(i - 1) / 2];
  heap[i] = event;
}

gboolean event_queue_pop(EventQueue *q, Event *out)
{
  Event *heap = (Event *)q->heap->data;
  guint n = q->heap->len, i = 0;

  if (n == 0)
    return FALSE;
  *out = heap[0];
  Event last = heap[--n];
  g_array_set_size(q->heap, n);
  for (guint child = 1; child < n; child = 2 * i + 1) {
    if (child + 1 < n && before(&heap[child + 1], &heap[child]))
      child++;
    if (!before(&heap[child], &last))
      break;
    heap[i] = heap[child];
    i = child;
  }
  if (n > 0)
    heap[i] = last;
  return TRUE;
}
