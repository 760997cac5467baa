/*
 * What a running search listens to: a time limit, SIGTERM and SIGINT, each of
 * which ends it with the best found so far, and a line of progress where stderr
 * is a terminal. And what it writes down: the certificate, a line a plan.
 *
 * From watch_init to watch_clear the two signals are held back in all threads
 * that are started between; one that came is taken away by watch_clear.
 */
#ifndef TDP_CLI_WATCH_H
#define TDP_CLI_WATCH_H

#include "search/search.h"

#include <signal.h>

typedef struct {
  double limit_s;       /* 0 = none */
  gint64 began, shown, looked; /* monotonic microseconds */
  gboolean terminal;
  int searches;         /* begun, where there are several; -1 = there is one */
  sigset_t signals, before;
  GString *certificate; /* CSV; NULL = not asked for */
  double memory_margin; /* that it is with */
  const char *stopped;  /* why, NULL = it was not */
} Watch;

void watch_init(Watch *watch, double limit_s, gboolean certificate);
void watch_clear(Watch *watch);

/* The same for a row of searches that is not to be stopped halfway: only shows
 * progress, and the signals end the program. */
void watch_init_row(Watch *watch);

/* Sets watch, audit and data of the options. */
void watch_join(Watch *watch, SearchOptions *options);

#endif
