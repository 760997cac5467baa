/*
 * A measured step beside its prediction: seconds of each kind of operation,
 * speed, bubble, memory by part. Seconds are means over rows of what a lane was
 * busy in a step; of communication they include waiting for the others. Both
 * traces come from one program.
 */
#ifndef TDP_REPORT_MEASURED_H
#define TDP_REPORT_MEASURED_H

#include "report/report.h"

typedef struct {
  const Result *result;
  const Trace *trace;
} Side;

/* Newly allocated text. */
char *report_measured(const Side *predicted, const Side *measured);

/* Adds "operations": kind, count, predicted_s, measured_s, error_pct. */
void measured_write_operations(const Side *predicted, const Side *measured, JsonWriter *writer);

#endif
