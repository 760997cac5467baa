/* A binary heap of events ordered by time, then by order of arrival. */
#ifndef TDP_SIM_EVENT_QUEUE_H
#define TDP_SIM_EVENT_QUEUE_H

#include <glib.h>

typedef struct {
  double time;
  guint32 order; /* given by the queue */
  int task;
} Event;

typedef struct {
  Event *heap;
  int n, capacity;
  guint32 next_order;
} EventQueue;

void event_queue_init(EventQueue *queue);
void event_queue_clear(EventQueue *queue);
guint32 event_queue_push(EventQueue *queue, double time, int task); /* returns its order */
gboolean event_queue_pop(EventQueue *queue, Event *out); /* FALSE if empty */

#endif
