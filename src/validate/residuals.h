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

/* log(measured / predicted) of a timed row's seconds of a step. */
double residual_of(const CaseResult *result);

/* What kind of run a timed row is (accuracy/domain.h), with the share of the peak that was measured as its mfu. */
RunKind residual_kind(const CaseResult *result);

/* Weighted quantile: the least of n >= 1 values such that the values up to it have at least `share` (0 to 1) of the sum
 * of weights. Both arrays stay as they are; weights NULL = all weigh alike. */
double residuals_quantile(const double *values, const double *weights, int n, double share);

/* Publishers of rows, in order of first appearance (not owned). */
GPtrArray *residuals_publishers(const GPtrArray *rows);

void residuals_put(JsonWriter *writer, const char *key, double value); /* with four decimals */

void residuals_write_memory(const GPtrArray *rows, JsonWriter *writer);
void residuals_write_time(const GPtrArray *timed, JsonWriter *writer);
void residuals_write_differences(const GPtrArray *timed, JsonWriter *writer);

#endif
