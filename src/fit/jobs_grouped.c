#include "fit/jobs.h"
#include "fit/part_file.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"

/* An expert MLP as a server runs it: rows copied to their experts, gate and up in one grouped product, the activation,
 * down in another, and all tokens' rows summed. */
typedef struct {
  Matmul up, down;
  double moved_bytes, summed_bytes; /* of the copies and the activation; of the sum */
  double seconds;
  gboolean check;
} GroupedRow;

typedef struct {
  const GroupedRow *rows;
  int n;
  const Device *device;
  MatmulModel plain;
} Data;

/* Fixed time, and how many times as long as their bytes the kernels between the products take: not products'. */
typedef struct {
  double base_s, moved, summed;
} Between;

/* These kernels are bound by memory, so that their bytes take about what they take anywhere. */
static const FitParameter parameters[] = {
  {30, 0, 200, 5},       /* base */
  {1.2, 1, 1.5, 0.1},    /* moved */
  {1, 0, 1.5, 0.2},      /* summed */
  {0.75, 0.2, 1, 0.05},  /* efficiency */
  {0.85, 0.3, 2, 0.1},   /* bandwidth_fraction */
  {0.3, 0, 1, 0.2},      /* wave_weight */
  {0.5, 0, 20, 0.5},     /* tile_overhead_s */
};

static void unpack(const double *x, const Data *data, MatmulModel *model, Between *between)
{
  *between = (Between){x[0] * US, x[1], x[2]};
  *model = data->plain;
  model->efficiency = x[3];
  model->bandwidth_fraction = x[4];
  model->wave_weight = x[5];
  model->tile_overhead_s = x[6] * US;
}

static double row_ratio(const Data *data, const GroupedRow *row, const MatmulModel *model, const Between *between)
{
  const Device *d = data->device;
  double peak = d->peak_flops_per_s[row->up.dtype], bandwidth = d->memory_bytes_per_s;
  double products = matmul_model_s(model, peak, bandwidth, d->sms, &row->up) +
                    matmul_model_s(model, peak, bandwidth, d->sms, &row->down) - 2 * model->launch_s;
  double bytes = between->moved * row->moved_bytes + between->summed * row->summed_bytes;
  return (between->base_s + products + memory_s(d, bytes, 0)) / row->seconds;
}

static double loss(const double *x, gpointer p)
{
  const Data *data = p;
  MatmulModel model;
  Between between;
  double sum = 0;
  int n = 0;
  unpack(x, data, &model, &between);
  for (int i = 0; i < data->n; i++) {
    if (data->rows[i].check)
      continue;
    sum += fabs(log(row_ratio(data, &data->rows[i], &model, &between)));
    n++;
  }
  return sum / MAX(n, 1);
}

static gboolean read_row(const Csv *csv, int i, DType dtype, GroupedRow *row, GError **error)
{
  static const char *const columns[] = {"tokens", "hidden", "width", "topk", "experts", "local", "time_us",
                                        NULL};
  double x[G_N_ELEMENTS(columns) - 1];
  if (!data_reals(csv, i, columns, x, error))
    return FALSE;
  double m = x[0] * x[3] / x[4], hidden = x[1], width = x[2], rows = m * x[5];
  *row = (GroupedRow){
    .up = {.m = m, .n = 2 * width, .k = hidden, .batch = x[5], .dtype = dtype},
    .down = {.m = m, .n = hidden, .k = width, .batch = x[5], .dtype = dtype},
    .moved_bytes = 2 * rows * (2 * hidden + 3 * width),
    .summed_bytes = 2 * x[0] * hidden,
    .seconds = x[6] * US,
    .check = fit_is_check(x, 6),
  };
  return TRUE;
}

static GArray *read_rows(const FitData *data, const FitJob *job, DType dtype, GError **error)
{
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(GroupedRow));
  for (int i = 0; i < (int)data->grouped->rows->len; i++) {
    GroupedRow row;
    if (strcmp(csv_cell(data->grouped, i, "gpu"), job->data) != 0 ||
        strcmp(csv_cell(data->grouped, i, "dtype"), job->constants) != 0)
      continue;
    if (!read_row(data->grouped, i, dtype, &row, error))
      return NULL;
    g_array_append_val(rows, row);
  }
  if (rows->len)
    return g_steal_pointer(&rows);
  input_error(error, "%s: no rows of %s in %s", data->grouped->name, job->data, job->constants);
  return NULL;
}

gboolean fit_grouped_job(const FitData *data, const FitJob *job, cJSON *target, FitResult *result, GError **error)
{
  int dtype = names_find(dtype_names, job->constants);
  if (dtype < 0)
    return input_error(error, "fits.csv: %s: expected a number format, as bf16 or fp8", job->constants);
  g_autoptr(GArray) rows = read_rows(data, job, (DType)dtype, error);
  g_auto(Device) device = {0};
  if (!rows || !device_load(job->hardware, &device, error))
    return FALSE;
  Data fitted = {(const GroupedRow *)(gpointer)rows->data, (int)rows->len, &device, device.kernels.matmul[dtype]};
  double x[G_N_ELEMENTS(parameters)];
  fit_minimize(parameters, G_N_ELEMENTS(parameters), loss, &fitted, x);
  MatmulModel model;
  Between between;
  unpack(x, &fitted, &model, &between);
  FitSides sides;
  fit_sides_init(&sides, fitted.n);
  for (int i = 0; i < fitted.n; i++)
    fit_sides_add(&sides, fitted.rows[i].check, row_ratio(&fitted, &fitted.rows[i], &model, &between));
  *result = fit_sides_clear(&sides);
  cJSON *object = part_file_member(part_file_member(target, "grouped", FALSE), job->constants, FALSE);
  part_file_model(object, &model);
  g_autofree char *source = fit_source(
    result, "expert MLPs of %s %s in hardware/data/grouped.csv, launch, exponent and power as of single products",
    job->data, job->constants);
  part_file_string(object, "source", source);
  return TRUE;
}
