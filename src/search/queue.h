/* What a search has still to look at, by lower bound: a binary heap. */
#ifndef TDP_SEARCH_QUEUE_H
#define TDP_SEARCH_QUEUE_H

#include <glib.h>

typedef enum { QUEUE_PART, QUEUE_CANDIDATE, QUEUE_LATER } QueueKind;

typedef struct {
  double value; /* lower bound of the objective */
  gint64 index; /* place in the space */
  guint at;     /* in the list of its kind */
  QueueKind kind;
} QueueItem;

/* The item that comes first: the lower value; of equal ones parts first, which may hold others as low, then the earlier
 * in the space. Items are in a GArray that starts empty. NULL if there is none. */
const QueueItem *queue_first(const GArray *queue);
void queue_push(GArray *queue, const QueueItem *item);
QueueItem queue_pop(GArray *queue);

#endif
