#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

int sort_reals(gconstpointer a, gconstpointer b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int sort_texts(gconstpointer a, gconstpointer b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

double sort_median(double *values, int n)
{
  qsort(values, n, sizeof *values, sort_reals);
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}
