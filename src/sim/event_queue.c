#include "sim/event_queue.h"

void event_queue_init(EventQueue *q)
{
  *q = (EventQueue) { .heap = g_new(Event, 64), .capacity = 64 };
}

void event_queue_clear(EventQueue *q)
{
  g_clear_pointer(&q->heap, g_free);
}

static inline gboolean before(const Event *a, const Event *b)
{
  return a->time < b->time || (a->time == b->time && a->order < b->order);
}

guint32 event_queue_push(EventQueue *q, double time, int task)
{
  Event event = { time, q->next_order++, task };
  int i = q->n++;

  if (q->n > q->capacity) {
    q->capacity *= 2;
    q->heap = g_renew(Event, q->heap, q->capacity);
  }
  for (; i > 0 && before(&event, &q->heap[(i - 1) / 2]); i = (i - 1) / 2)
    q->heap[i] = q->heap[(i - 1) / 2];
  q->heap[i] = event;
  return event.order;
}

gboolean event_queue_pop(EventQueue *q, Event *out)
{
  Event *heap = q->heap;
  int i = 0;

  if (q->n == 0)
    return FALSE;
  *out = heap[0];
  Event last = heap[--q->n];
  for (int child = 1; child < q->n; child = 2 * i + 1) {
    if (child + 1 < q->n && before(&heap[child + 1], &heap[child]))
      child++;
    if (!before(&heap[child], &last))
      break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = last;
  return TRUE;
}
