/*
 * What the residuals of a validation say of predictions: the files of accuracy/ (accuracy/accuracy.h has the formulas),
 * which programs read, and `differences.json`, which says how far predictions of plans of one sweep go together.
 * Numbers have four decimals, so that what does not matter does not change files.
 */
#ifndef TDP_VALIDATE_RESIDUALS_H
#define TDP_VALIDATE_RESIDUALS_H

#include "validate/validate.h"

/* Writes domain.json, memory.json, time.json and differences.json into a folder, which is made if missing.
 * TDP_ERROR_INPUT where a file would have nothing to say for want of rows. */
gboolean residuals_write(const Validation *validation, const char *folder, GError **error);

/* ---- parts of it ---- */

/* log(measured / predicted) of a timed row. */
double residual_of(const CaseResult *result);

/* A timed row's kind, with the share of the peak that was measured. */
RunKind residual_kind(const CaseResult *result);

/* The least of n values of which those up to it weigh the share of all. Sorts neither; weights NULL = alike. */
double residuals_quantile(const double *values, const double *weights, int n, double share);

/* Publishers of rows, in order of first appearance (not owned). */
GPtrArray *residuals_publishers(const GPtrArray *rows);

void residuals_put(JsonWriter *writer, const char *key, double value); /* with four decimals */

void residuals_write_memory(const GPtrArray *rows, JsonWriter *writer);
void residuals_write_time(const GPtrArray *timed, JsonWriter *writer);
void residuals_write_differences(const GPtrArray *timed, JsonWriter *writer);

#endif
