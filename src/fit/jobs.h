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

gboolean fit_matmul_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result, GError **error);
gboolean fit_unaligned_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result, GError **error);
gboolean fit_library_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result, GError **error);
gboolean fit_attention_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result,
                           GError **error);
gboolean fit_attention_tail_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result,
                                GError **error);
gboolean fit_attention_sustained_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result,
                                     GError **error);
gboolean fit_attention_like_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result,
                                GError **error);
gboolean fit_attention_check_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result,
                                 GError **error);
gboolean fit_dispatch_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result, GError **error);
gboolean fit_grouped_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result, GError **error);
gboolean fit_link_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result, GError **error);
gboolean fit_link_check_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result,
                            GError **error);

#endif
