/*
 * Whether all ranks still live: a TCP connection of every rank to rank 0 that
 * stays open beside the backend's own communication, watched by a thread.
 *
 * Each side sends a beat four times a second with what it is doing. The run ends
 * when a connection closes before its rank said goodbye (it died), nothing is
 * heard of a rank for `silence_s` (it was stopped, or its host is gone), nobody
 * has moved for `stall_s` (a rank hangs: of those that do not wait for others the
 * one furthest behind), a rank reports a failure, or SIGTERM comes.
 * Rank 0 then tells everybody; where rank 0 itself is gone, rank 1 speaks.
 *
 * Ending means: the `end` function is called once, from the watching thread, with
 * one line that names rank and phase; it must not return. `speaks` is true on the
 * rank that prints and reports. A silent rank on the same host is killed first,
 * since a stopped process hears no signal but that.
 *
 * health_catch_signals makes SIGTERM end the run in this way. A process has one
 * Health at a time.
 */
#ifndef TDP_EXEC_HEALTH_H
#define TDP_EXEC_HEALTH_H

#include "exec/backend.h"

#include <glib.h>

typedef struct Health Health;

typedef struct {
  int rank, size;
  gboolean one_host;
  double silence_s, stall_s;
  void (*phase)(void *data, char *text, gsize size);
  guint64 (*progress)(void *data); /* grows while the rank does something; 0 = has not begun */
  guint64 (*waits)(void *data);    /* grows while it waits for others: what hangs does neither */
  void (*end)(void *data, gboolean speaks, const char *message);
  void *data;
} HealthOptions;

void health_catch_signals(void);

/* Connects, by all ranks at once; rank 0's address travels over `world`.
 * Errors: TDP_ERROR_RUNTIME. */
Health *health_start(const HealthOptions *options, Backend *backend, BackendComm *world, GError **error);

/* Reports a failure of this rank and waits to be ended. */
G_NORETURN void health_fail(Health *health, const char *message);

/* Says goodbye; rank 0 waits until all have. */
void health_stop(Health *health);

#endif
