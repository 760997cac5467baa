#include "fit/jobs.h"

#include <string.h>

#include "base/error.h"
#include "base/files.h"

typedef gboolean (*JobFunction)(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result,
                                GError **error);

static const struct {
  const char *fit;
  JobFunction run;
} kinds[] = {
  {"matmul", fit_matmul_job},
  {"unaligned", fit_unaligned_job},
  {"library", fit_library_job},
  {"attention", fit_attention_job},
  {"attention-tail", fit_attention_tail_job},
  {"attention-sustained", fit_attention_sustained_job},
  {"attention-like", fit_attention_like_job},
  {"attention-check", fit_attention_check_job},
  {"link", fit_link_job},
  {"link-check", fit_link_check_job},
  {"dispatch", fit_dispatch_job},
  {"grouped", fit_grouped_job},
};

static Csv *load(const char *name, GError **error)
{
  g_autofree char *below = g_build_filename("hardware", "data", name, NULL);
  g_autofree char *path = files_data_path(below);
  return csv_load(path, error);
}

FitData *fit_data_load(GError **error)
{
  g_autoptr(FitData) data = g_new0(FitData, 1);
  if (!(data->fits = load("fits.csv", error)) || !(data->matmul = load("gemm.csv", error)) ||
      !(data->attention = load("attention.csv", error)) || !(data->collectives = load("collectives.csv", error)) ||
      !(data->dispatch = load("dispatch.csv", error)) || !(data->grouped = load("grouped.csv", error)) ||
      !(data->unaligned = load("unaligned.csv", error)) || !(data->library = load("library.csv", error)))
    return NULL;
  data->n_jobs = (int)data->fits->rows->len;
  data->jobs = g_new0(FitJob, (gsize)data->n_jobs);
  for (int i = 0; i < data->n_jobs; i++)
    data->jobs[i] = (FitJob){csv_cell(data->fits, i, "fit"), csv_cell(data->fits, i, "target"),
                             csv_cell(data->fits, i, "hardware"), csv_cell(data->fits, i, "data"),
                             csv_cell(data->fits, i, "constants")};
  return g_steal_pointer(&data);
}

void fit_data_free(FitData *data)
{
  Csv *files[] = {data->fits, data->matmul, data->attention, data->collectives, data->dispatch,
                  data->grouped, data->unaligned, data->library};
  for (guint i = 0; i < G_N_ELEMENTS(files); i++)
    if (files[i])
      csv_free(files[i]);
  g_free(data->jobs);
  g_free(data);
}

gboolean fit_job_run(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS(kinds); i++)
    if (strcmp(kinds[i].fit, job->fit) == 0)
      return kinds[i].run(data, job, dry_run, result, error);
  return input_error(error, "%s: \"%s\": expected a kind of fit", data->fits->name, job->fit);
}
