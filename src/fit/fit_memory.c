#include "fit/fit.h"

#include <math.h>

typedef struct {
  const MemoryRow *rows;
  int n;
  double bytes_per_s;
} Data;

static double row_ratio(const double *x, const Data *data, const MemoryRow *row)
{
  return (row->kernels * x[1] * 1e-6 + row->bytes / (data->bytes_per_s * x[0])) / row->seconds;
}

static double loss(const double *x, gpointer p)
{
  const Data *data = p;
  double sum = 0;
  int n = 0;
  for (int i = 0; i < data->n; i++) {
    if (data->rows[i].check)
      continue;
    sum += fabs(log(row_ratio(x, data, &data->rows[i])));
    n++;
  }
  return sum / MAX(n, 1);
}

FitResult fit_memory(const MemoryRow *rows, int n, double memory_bytes_per_s, Kernels *kernels)
{
  static const FitParameter parameters[] = {{0.85, 0.05, 1, -0.05}, {2.5, 0, 100, 1}};
  Data data = {rows, n, memory_bytes_per_s};
  double x[2];
  fit_minimize(parameters, 2, loss, &data, x);
  kernels->memory_fraction = x[0];
  kernels->memory_launch_s = x[1] * 1e-6;
  kernels->memory_provenance = PROVENANCE_FITTED;
  FitSides all;
  fit_sides_init(&all, n);
  for (int i = 0; i < n; i++)
    fit_sides_add(&all, rows[i].check, row_ratio(x, &data, &rows[i]));
  return fit_sides_clear(&all);
}
