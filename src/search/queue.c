#include "search/queue.h"

#include <math.h>

static gboolean comes_first(const QueueItem *a, const QueueItem *b)
{
  if (a->value != b->value)
    return a->value < b->value;
  return (a->kind == QUEUE_PART) != (b->kind == QUEUE_PART) ? a->kind == QUEUE_PART : a->index < b->index;
}

static QueueItem *item(const GArray *queue, guint i)
{
  return &g_array_index(queue, QueueItem, i);
}

const QueueItem *queue_first(const GArray *queue)
{
  return queue->len ? item(queue, 0) : NULL;
}

void queue_push(GArray *queue, const QueueItem *pushed)
{
  const QueueItem own = *pushed;
  guint i = queue->len;

  g_assert(!isnan(own.value));
  g_array_append_val(queue, own);
  for (; i > 0 && comes_first(&own, item(queue, (i - 1) / 2)); i = (i - 1) / 2)
    *item(queue, i) = *item(queue, (i - 1) / 2);
  *item(queue, i) = own;
}

QueueItem queue_pop(GArray *queue)
{
  const QueueItem first = *item(queue, 0), last = *item(queue, queue->len - 1);
  guint n = queue->len - 1, i = 0;

  for (guint child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && comes_first(item(queue, child + 1), item(queue, child)))
      child++;
    if (!comes_first(item(queue, child), &last))
      break;
    *item(queue, i) = *item(queue, child);
  }
  *item(queue, i) = last;
  g_array_set_size(queue, n);
  return first;
}
