/*
 * Time of a step in which the stream of the passes only communicates: pairs of events on
 * it around each collective, or around the wait for one that runs beside it. Events
 * are read when the step is over, and used again in the next.
 */
#ifndef TDP_EXEC_EXPOSURE_H
#define TDP_EXEC_EXPOSURE_H

#include "exec/backend.h"

#include <glib.h>

typedef enum { EXPOSED_TENSOR, EXPOSED_CONTEXT, EXPOSED_EXPERT, EXPOSED_COUNT } Exposed; /* over whose ranks */

typedef struct {
  Backend *b;
  GArray *intervals; /* made so far */
  guint n;           /* of them in this step, which begins with 0 */
  int task;          /* to which the next ones belong */
} Exposure;

void exposure_init(Exposure *exposure, Backend *backend);
void exposure_clear(Exposure *exposure);

/* Around what is enqueued between; no pair inside another. NULL: nothing is noted. */
void exposure_begin(Exposure *exposure, BackendStream *s, Exposed kind);
void exposure_end(Exposure *exposure, BackendStream *s);

/* Adds the finished step's seconds to those of each task. */
void exposure_add(const Exposure *exposure, double (*seconds_of_task)[EXPOSED_COUNT]);

#endif
