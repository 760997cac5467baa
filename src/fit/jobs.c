#include "fit/jobs.h"

#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "fit/part_file.h"

static const struct {
  const char *fit;
  const char *folder; /* of its target, below hardware/; NULL = it has none */
  FitJobRun *run;
} kinds[] = {
  {"matmul", "kernels", fit_matmul_job},
  {"unaligned", "kernels", fit_unaligned_job},
  {"library", "kernels", fit_library_job},
  {"attention", "kernels", fit_attention_job},
  {"attention-tail", "kernels", fit_attention_tail_job},
  {"attention-sustained", "kernels", fit_attention_sustained_job},
  {"attention-like", "kernels", fit_attention_like_job},
  {"attention-check", NULL, fit_attention_check_job},
  {"link", "links", fit_link_job},
  {"link-check", NULL, fit_link_check_job},
  {"dispatch", "kernels", fit_dispatch_job},
  {"grouped", "kernels", fit_grouped_job},
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
  guint kind = 0;
  g_auto(PartFile) file = {NULL, NULL};
  while (kind < G_N_ELEMENTS(kinds) && strcmp(kinds[kind].fit, job->fit) != 0)
    kind++;
  if (kind == G_N_ELEMENTS(kinds))
    return input_error(error, "%s: \"%s\": expected a kind of fit", data->fits->name, job->fit);
  if (kinds[kind].folder && !part_file_load(&file, kinds[kind].folder, job->target, error))
    return FALSE;
  return kinds[kind].run(data, job, file.root, result, error) &&
         (dry_run || !file.root || part_file_save(&file, error));
}

char *fit_source(const FitResult *result, const char *what, ...)
{
  va_list args;
  va_start(args, what);
  g_autofree char *text = g_strdup_vprintf(what, args);
  va_end(args);
  return g_strdup_printf("fitted: %d %s; %d others: mean error %.1f %%, p90 %.1f %%", result->fit.n, text,
                         result->check.n, 100 * result->check.mean, 100 * result->check.p90);
}
