/*
 * What a run listens to: a time limit, SIGTERM and SIGINT, each of which asks all that
 * takes long to end with the best found so far (base/stop.h), and a line of progress
 * where stderr is a terminal. And what its search writes down: the certificate, a line
 * a plan.
 *
 * From watch_init to watch_clear the two signals are held back in all threads
 * that are started between; one that came is taken away by watch_clear. Once one was heard, another ends the program.
 */
#ifndef TDP_CLI_WATCH_H
#define TDP_CLI_WATCH_H

#include "search/search.h"

#include <signal.h>

typedef struct {
  Stop stop;
  double limit_s;       /* 0 = none */
  gint64 began, shown, looked, settling; /* monotonic microseconds; settling: since the first plan was settled */
  int columns;          /* of the terminal that progress is shown on, 0 = on none */
  gboolean deaf;
  int searches;         /* begun, where there are several; -1 = there is one */
  sigset_t signals, before;
  GString *certificate; /* CSV; NULL = not asked for */
  double memory_margin; /* that it is with */
  const char *stopped;  /* why, NULL = it was not */
} Watch;

/* The time limit counts from here. The watch stays where it is. */
void watch_init(Watch *watch, double limit_s);
/* The same for a library: signals are the caller's, nothing is shown. */
void watch_init_deaf(Watch *watch, double limit_s);
void watch_clear(Watch *watch); /* of zeros: nothing was begun */

/* Searches that are joined from here on write a certificate, with this margin. */
void watch_certify(Watch *watch, double memory_margin);

/* Takes progress off the terminal, before something else is printed. */
void watch_hide(Watch *watch);

/* Those are a row, and progress counts them. */
void watch_row(Watch *watch);

/* Says on stderr what ended a search, and what that leaves open; in a library nothing. */
void watch_say(const Watch *watch, const SearchResult *found);

/* Sets stop, watch, audit and data of the options. */
void watch_join(Watch *watch, SearchOptions *options);

#endif
