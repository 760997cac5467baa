/* tdp-sim --schedule: draws a pipeline schedule without model, cluster or plan. */
#ifndef TDP_CLI_SIM_SCHEDULE_H
#define TDP_CLI_SIM_SCHEDULE_H

#include <glib.h>

/* As typed: NULL or CLI_ABSENT = not given. */
typedef struct {
  char *schedule; /* a name of the table, or a schedule file of PyTorch's */
  char *times;    /* "F,I,W": of a rank's forward, input gradient, weight gradient */
  int stages, micro, chunks;
} ScheduleOptions;

/* Prints timeline and figures, or JSON; writes a page (report/page.h) to `report` and pictures to `plots`, a folder or "-"
 * for the terminal (cli/drawn.h), if these are not NULL. */
gboolean sim_schedule(const ScheduleOptions *options, gboolean json, const char *report, const char *plots,
                      GError **error);

#endif
