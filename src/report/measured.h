/*
 * A measured step beside its prediction: seconds of each kind of operation,
 * speed, bubble, memory by part. Seconds are means over rows of what a lane was
 * busy in a step; of communication they include waiting for the others. Both
 * traces come from one program. What the device says of its memory stands beside what
 * tasks held.
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

/* Adds "device_memory", of the fullest stage, as its device measured it: used_bytes and reserved_bytes, the most that its
 * allocator had handed out and held for that, beside predicted_used_bytes, all but the overhead; device_bytes, in use by
 * all, beside predicted_device_bytes. What the backend does not know is left out. */
void measured_write_device(const Side *predicted, const Side *measured, JsonWriter *writer);

/* Adds "operations": kind, count, predicted_s, measured_s, error_pct. The gradient norm is part of "optimizer". */
void measured_write_operations(const Side *predicted, const Side *measured, JsonWriter *writer);

#endif
