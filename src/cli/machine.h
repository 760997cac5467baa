/* tdp-calibrate's measuring of a machine and fitting of points. */
#ifndef TDP_CLI_MACHINE_H
#define TDP_CLI_MACHINE_H

#include "calibrate/calibrate.h"
#include "calibrate/points.h"

typedef struct {
  const char *backend; /* NULL = the first */
  DType precision;     /* fp32, fp16 or bf16, if the backend has it */
  const char *date;
  double budget_s;
  CalibrateProgress progress;
  gpointer data;
} MachineOptions;

/* Measures on all processes of the launcher. On ranks but the first `points`
 * stays NULL. */
gboolean machine_measure(const MachineOptions *options, MachineHead *head, GArray **points, GError **error);

#endif
