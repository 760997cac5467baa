#include "fit/jobs.h"
#include "fit/part_file.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/units.h"
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
  return (DispatchModel){.base_s = x[0] * US, .row_s = x[1] * US, .s_per_byte = x[2] * 1e-9};
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
  if (!data_reals(csv, i, columns, x, error))
    return FALSE;
  gboolean fp8 = strcmp(csv_cell(csv, i, "dtype"), "fp8") == 0;
  double key[] = {x[0], x[1], x[2], x[3], x[4], fp8};
  GroupShape group = group_shape(cluster, (int)x[0], 1);
  out->rows = x[1] * x[0] * (1 - pow(1 - 1 / x[0], x[3]));
  out->row_bytes = x[2] * (fp8 ? 1 + SCALE_BYTES : 2);
  out->sms = x[4];
  out->seconds = x[5] * US;
  out->link_s = collective_cost(cluster, COLLECTIVE_ALL_TO_ALL, out->rows * out->row_bytes, &group).seconds;
  out->check = fit_is_check(key, 6);
  return TRUE;
}

static GArray *read_rows(const FitData *data, const FitJob *job, GError **error)
{
  g_autoptr(Cluster) cluster = cluster_of_server(job->hardware, 2, error);
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

gboolean fit_dispatch_job(const FitData *data, const FitJob *job, cJSON *target, FitResult *result, GError **error)
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
  const struct {
    const char *key;
    double value;
  } numbers[] = {
    {"base_us", model.base_s * 1e6}, {"row_us", model.row_s * 1e6}, {"ns_per_byte", model.s_per_byte * 1e9},
  };
  cJSON *object = part_file_member(target, "dispatch", FALSE);
  g_autofree char *source = fit_source(result, "rows of %s in hardware/data/dispatch.csv", job->data);
  for (guint i = 0; i < G_N_ELEMENTS(numbers); i++) {
    part_file_number(object, numbers[i].key, numbers[i].value);
    part_file_source(object, numbers[i].key, source);
  }
  return TRUE;
}
