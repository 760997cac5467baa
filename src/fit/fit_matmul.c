#include "fit/fit.h"

#include "base/units.h"

#include <math.h>
#include <string.h>

typedef struct {
  const MatmulRow *rows;
  int n;
  double peak_flops_per_s, memory_bytes_per_s;
  int sms;
  MatmulModel kept; /* tile and slowdowns of rows that are not aligned */
} Data;

/* In microseconds, the last in picoseconds: the simplex wants numbers of like size. */
static const FitParameter all_parameters[] = {
  {2.0, 0, 40, 1.0},    /* launch_s */
  {0.75, 0.2, 1, 0.05}, /* efficiency */
  {1.0, 0, 20, 0.5},    /* tile_overhead_s */
  {0.85, 0.3, 3, 0.08}, /* bandwidth_fraction */
  {0.1, 0, 1, 0.08},    /* tile_exponent */
  {3.0, 1, 16, 0.7},    /* overlap_power */
  {2.0, 0, 20, 1.0},    /* split_s */
  {0.3, 0, 1, 0.2},     /* wave_weight */
  {0, 0, 0, 0},         /* first_bandwidth_fraction: as of the other factor */
  {8.0, 0, 40, 3.0},    /* quantize_s */
  {2.0, 0, 20, 1.0},    /* quantize_s_per_element */
};
#define N_ALL ((int)G_N_ELEMENTS(all_parameters))
#define N_QUANTIZE 2

static void unpack(const double *x, MatmulModel *model, Quantize *quantize)
{
  model->launch_s = x[0] * US;
  model->efficiency = x[1];
  model->tile_overhead_s = x[2] * US;
  model->bandwidth_fraction = x[3];
  model->tile_exponent = x[4];
  model->overlap_power = x[5];
  model->split_s = x[6] * US;
  model->wave_weight = x[7];
  model->first_bandwidth_fraction = x[8];
  quantize->base_s = x[9] * US;
  quantize->s_per_element = x[10] * 1e-12;
}

static double row_ratio(const MatmulModel *model, const Quantize *quantize, const Data *data, const MatmulRow *row)
{
  double product =
    matmul_model_s(model, data->peak_flops_per_s, data->memory_bytes_per_s, data->sms, &row->shape);
  double before = row->quantized > 0 ? quantize->base_s + quantize->s_per_element * row->quantized : 0;
  return (product + before) / row->seconds;
}

static double loss(const double *x, gpointer p)
{
  const Data *data = p;
  MatmulModel model = data->kept;
  Quantize quantize = {0};
  unpack(x, &model, &quantize);
  double sum = 0;
  int n = 0;
  for (int i = 0; i < data->n; i++) {
    if (data->rows[i].check)
      continue;
    sum += fabs(log(row_ratio(&model, &quantize, data, &data->rows[i])));
    n++;
  }
  return sum / MAX(n, 1);
}

static FitResult errors(const MatmulModel *model, const Quantize *quantize, const Data *data)
{
  FitSides sides;
  fit_sides_init(&sides, data->n);
  for (int i = 0; i < data->n; i++)
    fit_sides_add(&sides, data->rows[i].check, row_ratio(model, quantize, data, &data->rows[i]));
  return fit_sides_clear(&sides);
}

FitResult fit_matmul(const MatmulRow *rows, int n, double peak_flops_per_s, double memory_bytes_per_s, int sms,
                     MatmulModel *model, Quantize *quantize)
{
  Data data = {rows, n, peak_flops_per_s, memory_bytes_per_s, sms, *model};
  FitParameter parameters[N_ALL];
  double x[N_ALL];
  memcpy(parameters, all_parameters, sizeof parameters);
  gboolean quantized = FALSE;
  if (model->tile > 0) { /* in registers: thousands of them in a product, of which none is the last */
    parameters[2] = (FitParameter){0.03, 0, 1, 0.02};
    parameters[4] = parameters[6] = parameters[7] = (FitParameter){0};
    parameters[8] = (FitParameter){2, 0.1, 20, 0.5};
  }
  for (int i = 0; i < n; i++)
    quantized |= rows[i].quantized > 0;
  if (quantized && model->known) /* two fixed times cannot be told apart */
    parameters[0] = (FitParameter){model->launch_s * 1e6, model->launch_s * 1e6, model->launch_s * 1e6, 1};
  for (int i = N_ALL - N_QUANTIZE; i < N_ALL && !quantized; i++)
    x[i] = 0;
  fit_minimize(parameters, quantized ? N_ALL : N_ALL - N_QUANTIZE, loss, &data, x);
  unpack(x, model, quantize);
  model->known = TRUE;
  model->provenance = PROVENANCE_FITTED;
  return errors(model, quantize, &data);
}

/* ---- rows that are not aligned ---- */

typedef struct {
  const Data *data;
  MatmulModel *model;
  gboolean bytes, activations; /* which constant is tried */
} Unaligned;

static double unaligned_loss(const double *x, gpointer p)
{
  const Unaligned *u = p;
  const Quantize none = {0};
  double sum = 0;

  u->model->unaligned[u->bytes][u->activations] = x[0];
  for (int i = 0; i < u->data->n; i++) {
    const MatmulRow *row = &u->data->rows[i];
    gboolean bytes = matmul_alignment(&row->shape) == ALIGNED_AT_BYTES;
    if (!row->check && bytes == u->bytes && row->shape.activations == u->activations)
      sum += fabs(log(row_ratio(u->model, &none, u->data, row)));
  }
  return sum;
}

FitResult fit_unaligned(const MatmulRow *rows, int n, double peak_flops_per_s, double memory_bytes_per_s, int sms,
                        MatmulModel *model)
{
  static const FitParameter parameter = {1.5, 1, 10, 0.5};
  const Data data = {rows, n, peak_flops_per_s, memory_bytes_per_s, sms, *model};
  const Quantize none = {0};

  for (int kind = 0; kind < 4; kind++) {
    Unaligned u = {&data, model, kind / 2, kind % 2};
    double x;
    fit_minimize(&parameter, 1, unaligned_loss, &u, &x);
    model->unaligned[kind / 2][kind % 2] = x;
  }
  return errors(model, &none, &data);
}

/* ---- products as training calls the library ---- */

#define EXPERTS_AT_ONCE_MAX 4 /* streams of Transformer Engine, multi_stream.cpp */

typedef struct {
  Data data;
  MatmulModel *model;
  gboolean experts; /* rows that are tried */
  double peak_flops_per_s;
} Library;

static double library_ratio(const Library *l, const MatmulRow *row)
{
  const Quantize none = {0};

  return row_ratio(l->model, &none, &l->data, row);
}

static double library_sum(const Library *l)
{
  double sum = 0;

  for (int i = 0; i < l->data.n; i++)
    if (!l->data.rows[i].check && (l->data.rows[i].shape.calls > 1) == l->experts)
      sum += fabs(log(library_ratio(l, &l->data.rows[i])));
  return sum;
}

static double library_loss(const double *x, gpointer p)
{
  Library *l = p;

  l->model->added_power = x[0];
  l->data.peak_flops_per_s = x[1] * l->peak_flops_per_s;
  return library_sum(l);
}

/* Of rows that the constants are for: not of plain ones, which tell the rate. */
static FitResult library_errors(const Library *l)
{
  FitSides sides;

  fit_sides_init(&sides, l->data.n);
  for (int i = 0; i < l->data.n; i++)
    if (l->data.rows[i].shape.calls > 1 || l->data.rows[i].shape.accumulate_bytes > 0)
      fit_sides_add(&sides, l->data.rows[i].check, library_ratio(l, &l->data.rows[i]));
  return fit_sides_clear(&sides);
}

FitResult fit_library(const MatmulRow *rows, int n, const Device *device, MatmulModel *model, FitResult *own)
{
  static const FitParameter parameters[] = {{1.5, 1, 16, 0.3}, {1, 0.5, 2, 0.1}};
  const double peak = device->peak_flops_per_s[DTYPE_BF16];
  Library l = {{rows, n, peak, device->memory_bytes_per_s, device->sms, *model}, model, FALSE, peak};
  double x[G_N_ELEMENTS(parameters)], least = INFINITY, best = 1;

  fit_minimize(parameters, G_N_ELEMENTS(parameters), library_loss, &l, x);
  library_loss(x, &l);
  l.experts = TRUE;
  for (model->experts_at_once = 1; model->experts_at_once <= EXPERTS_AT_ONCE_MAX; model->experts_at_once *= 2) {
    double sum = library_sum(&l);
    best = sum < least ? model->experts_at_once : best;
    least = MIN(least, sum);
  }
  model->experts_at_once = best;
  const FitResult fitted = library_errors(&l);
  l.data.peak_flops_per_s = peak * device->sustained_fraction;
  *own = library_errors(&l);
  return fitted;
}
