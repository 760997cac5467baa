/*
 * The fits that hardware/data/fits.csv lists, one a row, done in its order:
 * `fit` is a kind of the table in jobs.c, `target` the file of
 * hardware/kernels or hardware/links that gets the constants, `hardware` the
 * GPU or server they belong to, `data` the rows and `constants` which ones.
 * Fits read the files that earlier ones wrote. To add a kind: a function and a
 * line of the table.
 */
#ifndef TDP_FIT_JOBS_H
#define TDP_FIT_JOBS_H

#include <cjson/cJSON.h>

#include "fit/data.h"

typedef struct {
  const char *fit, *target, *hardware, *data, *constants; /* cells of fits.csv */
} FitJob;

typedef struct {
  Csv *fits, *matmul, *attention, *collectives, *dispatch, *grouped, *unaligned, *library;
  FitJob *jobs;
  int n_jobs;
} FitData;

FitData *fit_data_load(GError **error);
void fit_data_free(FitData *data);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FitData, fit_data_free)

/* Fits and, unless `dry_run`, writes the target. */
gboolean fit_job_run(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result, GError **error);

/* ---- kinds, for jobs.c ---- */

/* A fit that puts its constants, and where they come from, into `target`, the tree of the job's file; NULL for fits
 * that only tell errors. TDP_ERROR_INPUT. */
typedef gboolean FitJobRun(const FitData *data, const FitJob *job, cJSON *target, FitResult *result, GError **error);

FitJobRun fit_matmul_job, fit_unaligned_job, fit_library_job, fit_grouped_job, fit_dispatch_job;
FitJobRun fit_attention_job, fit_attention_tail_job, fit_attention_sustained_job, fit_attention_like_job;
FitJobRun fit_attention_check_job, fit_link_job, fit_link_check_job;

/* "fitted: N WHAT; M others: mean error 1.0 %, p90 2.0 %", a source of constants; newly allocated. */
char *fit_source(const FitResult *result, const char *what, ...) G_GNUC_PRINTF(2, 3);

#endif
