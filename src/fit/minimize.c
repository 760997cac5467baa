#include "fit/fit.h"

#include <math.h>

#include <gsl/gsl_multimin.h>

#define ROUNDS_MAX 12
#define STEPS_MAX 1500
#define ROUND_GAIN_MIN 1e-4 /* relative; less than that and no new round is begun */

typedef struct {
  const FitParameter *parameters;
  int n;
  FitLoss loss;
  gpointer data;
} Problem;

/* Outside its range a parameter counts as the bound, and the way back is shown. */
static double bounded_loss(const gsl_vector *point, void *data)
{
  const Problem *problem = data;
  double x[FIT_PARAMETERS_MAX], outside = 0;
  for (int i = 0; i < problem->n; i++) {
    const FitParameter *p = &problem->parameters[i];
    double value = gsl_vector_get(point, (gsize)i);
    x[i] = CLAMP(value, p->min, p->max);
    outside += fabs((value - x[i]) / p->step);
  }
  return problem->loss(x, problem->data) * (1 + 0.01 * outside);
}

static double run_round(Problem *problem, double scale, double *x)
{
  gsize n = (gsize)problem->n;
  gsl_multimin_function function = {bounded_loss, n, problem};
  gsl_vector *start = gsl_vector_alloc(n), *step = gsl_vector_alloc(n);
  for (gsize i = 0; i < n; i++) {
    const FitParameter *p = &problem->parameters[i];
    double move = p->step * scale;
    gsl_vector_set(start, i, x[i]);
    gsl_vector_set(step, i, x[i] + move > p->max || x[i] + move < p->min ? -move : move);
  }
  gsl_multimin_fminimizer *simplex = gsl_multimin_fminimizer_alloc(gsl_multimin_fminimizer_nmsimplex2, n);
  gsl_multimin_fminimizer_set(simplex, &function, start, step);
  for (int i = 0; i < STEPS_MAX; i++) {
    if (gsl_multimin_fminimizer_iterate(simplex) ||
        gsl_multimin_test_size(gsl_multimin_fminimizer_size(simplex), 1e-5) == GSL_SUCCESS)
      break;
  }
  for (gsize i = 0; i < n; i++)
    x[i] = CLAMP(gsl_vector_get(simplex->x, i), problem->parameters[i].min, problem->parameters[i].max);
  gsl_multimin_fminimizer_free(simplex);
  gsl_vector_free(start);
  gsl_vector_free(step);
  return problem->loss(x, problem->data);
}

double fit_minimize(const FitParameter *parameters, int n, FitLoss loss, gpointer data, double *x)
{
  g_assert(n > 0 && n <= FIT_PARAMETERS_MAX);
  Problem problem = {parameters, n, loss, data};
  for (int i = 0; i < n; i++)
    x[i] = CLAMP(parameters[i].start, parameters[i].min, parameters[i].max);
  double best = loss(x, data);
  for (int round = 0; round < ROUNDS_MAX; round++) {
    double before = best;
    best = run_round(&problem, round % 2 ? 0.5 : 1, x);
    if (round && before - best < ROUND_GAIN_MIN * before)
      break;
  }
  return best;
}
