#include "fit/jobs.h"
#include "fit/part_file.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "hardware/cluster.h"

#define SCALE_BYTES (4.0 / 128) /* of an fp8 row, an fp32 scale for each 128 values */

typedef struct {
  double rows, row_bytes, sms, link_s, seconds;
  gboolean check;
} DispatchRow;

typedef struct {
  const DispatchRow *rows;
  int n;
} Data;

static DispatchModel model_of(const double *x)
{
  return (DispatchModel){.base_s = x[0] * 1e-6, .row_s = x[1] * 1e-6, .s_per_byte = x[2] * 1e-9};
}

static double ratio(const DispatchRow *row, const DispatchModel *model)
{
  return fmax(row->link_s, dispatch_s(model, row->rows, row->row_bytes, row->sms)) / row->seconds;
}

static double loss(const double *x, gpointer p)
{
  const Data *data = p;
  DispatchModel model = model_of(x);
  double sum = 0;
  int n = 0;
  for (int i = 0; i < data->n; i++) {
    if (data->rows[i].check)
      continue;
    sum += fabs(log(ratio(&data->rows[i], &model)));
    n++;
  }
  return n ? sum / n : 0;
}

/* Each token goes once to each of the ranks on which its experts, taken at random, are expected. */
static gboolean read_row(const Csv *csv, int i, const Cluster *cluster, DispatchRow *out, GError **error)
{
  static const char *const columns[] = {"ranks", "tokens", "hidden", "topk", "sms", "time_us", NULL};
  double x[6];
  for (int c = 0; columns[c]; c++)
    if (!csv_real(csv, i, columns[c], &x[c], error))
      return FALSE;
  gboolean fp8 = strcmp(csv_cell(csv, i, "dtype"), "fp8") == 0;
  double key[] = {x[0], x[1], x[2], x[3], x[4], fp8};
  GroupShape group = group_shape(cluster, (int)x[0], 1);
  out->rows = x[1] * x[0] * (1 - pow(1 - 1 / x[0], x[3]));
  out->row_bytes = x[2] * (fp8 ? 1 + SCALE_BYTES : 2);
  out->sms = x[4];
  out->seconds = x[5] * 1e-6;
  out->link_s = collective_cost(cluster, COLLECTIVE_ALL_TO_ALL, out->rows * out->row_bytes, &group).seconds;
  out->check = fit_is_check(key, 6);
  return TRUE;
}

static GArray *read_rows(const FitData *data, const FitJob *job, GError **error)
{
  g_autofree char *text = g_strdup_printf("{\"name\": \"fit\", \"nodes\": 2, \"server\": \"%s\", "
                                          "\"source\": \"default: as measured\"}", job->hardware);
  g_autoptr(Cluster) cluster = cluster_parse(text, strlen(text), job->hardware, error);
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(DispatchRow));
  for (int i = 0; cluster && i < (int)data->dispatch->rows->len; i++) {
    DispatchRow row;
    if (strcmp(csv_cell(data->dispatch, i, "gpu"), job->data) != 0)
      continue;
    if (!read_row(data->dispatch, i, cluster, &row, error))
      return NULL;
    g_array_append_val(rows, row);
  }
  if (cluster && !rows->len)
    input_error(error, "%s: no rows of %s", data->dispatch->name, job->data);
  return cluster && rows->len ? g_steal_pointer(&rows) : NULL;
}

static gboolean save(const FitJob *job, const DispatchModel *model, const FitResult *result, GError **error)
{
  g_autofree char *below = g_strdup_printf("hardware/kernels/%s.json", job->target);
  g_auto(PartFile) file = {NULL, NULL};
  if (!part_file_load(&file, below, error))
    return FALSE;
  cJSON *object = part_file_member(file.root, "dispatch", FALSE);
  part_file_number(object, "base_us", model->base_s * 1e6);
  part_file_number(object, "row_us", model->row_s * 1e6);
  part_file_number(object, "ns_per_byte", model->s_per_byte * 1e9);
  g_autofree char *source = g_strdup_printf(
    "fitted: %d rows of %s in hardware/data/dispatch.csv; %d others: mean error %.1f %%, p90 %.1f %%", result->fit.n,
    job->data, result->check.n, 100 * result->check.mean, 100 * result->check.p90);
  const char *const keys[] = {"base_us", "row_us", "ns_per_byte"};
  for (guint i = 0; i < G_N_ELEMENTS(keys); i++)
    part_file_source(object, keys[i], source);
  return part_file_save(&file, error);
}

gboolean fit_dispatch_job(const FitData *data, const FitJob *job, gboolean dry_run, FitResult *result, GError **error)
{
  static const FitParameter parameters[] = {{30, 0, 500, 5}, {0.1, 0, 10, 0.03}, {0.04, 0.001, 1, 0.01}};
  g_autoptr(GArray) rows = read_rows(data, job, error);
  if (!rows)
    return FALSE;
  Data fitted = {(const DispatchRow *)(gpointer)rows->data, (int)rows->len};
  double x[G_N_ELEMENTS(parameters)];
  fit_minimize(parameters, G_N_ELEMENTS(parameters), loss, &fitted, x);
  DispatchModel model = model_of(x);
  FitSides sides;
  fit_sides_init(&sides, fitted.n);
  for (int i = 0; i < fitted.n; i++)
    fit_sides_add(&sides, fitted.rows[i].check, ratio(&fitted.rows[i], &model));
  *result = fit_sides_clear(&sides);
  return dry_run || save(job, &model, result, error);
}
