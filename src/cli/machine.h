/* tdp-calibrate's measuring of a machine and fitting of points. */
#ifndef TDP_CLI_MACHINE_H
#define TDP_CLI_MACHINE_H

#include "calibrate/calibrate.h"
#include "calibrate/points.h"

typedef struct {
  const char *backend; /* its name; NULL = the first that there is */
  DType precision;     /* of products: fp32, fp16 or bf16, if the backend has it */
  const char *date;    /* of the measurement, YYYY-MM-DD */
  double budget_s;     /* in which the rounds of measuring are to end */
  CalibrateProgress progress;
  gpointer data;       /* for progress */
} MachineOptions;

/* Measures on all processes of the launcher. On ranks but the first `points`
 * stays NULL. */
gboolean machine_measure(const MachineOptions *options, MachineHead *head, GArray **points, GError **error);

#endif
