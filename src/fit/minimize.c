#include "fit/fit.h"

#include <math.h>

#include <gsl/gsl_multimin.h>

#define ROUNDS_MAX 12
#define STEPS_MAX 1500
#define ROUND_GAIN_MIN 1e-4 /* relative; less than that and no new round is begun */

typedef struct {
  const FitParameter *parameters;
  int n, free[FIT_PARAMETERS_MAX]; /* those that are searched */
  double *x;                       /* all of the caller's */
  FitLoss loss;
  gpointer data;
} Problem;

/* Outside its range a parameter counts as the bound, and the way back is shown. */
static double bounded_loss(const gsl_vector *point, void *data)
{
  const Problem *problem = data;
  double outside = 0;
  for (int i = 0; i < problem->n; i++) {
    const FitParameter *p = &problem->parameters[problem->free[i]];
    double value = gsl_vector_get(point, (gsize)i), *x = &problem->x[problem->free[i]];
    *x = CLAMP(value, p->min, p->max);
    outside += fabs((value - *x) / p->step);
  }
  return problem->loss(problem->x, problem->data) * (1 + 0.01 * outside);
}

static double run_round(Problem *problem, double scale)
{
  double *x = problem->x;
  gsize n = (gsize)problem->n;
  gsl_multimin_function function = {bounded_loss, n, problem};
  gsl_vector *start = gsl_vector_alloc(n), *step = gsl_vector_alloc(n);
  for (gsize i = 0; i < n; i++) {
    const FitParameter *p = &problem->parameters[problem->free[i]];
    double move = p->step * scale, at = x[problem->free[i]];
    gsl_vector_set(start, i, at);
    gsl_vector_set(step, i, at + move > p->max || at + move < p->min ? -move : move);
  }
  gsl_multimin_fminimizer *simplex = gsl_multimin_fminimizer_alloc(gsl_multimin_fminimizer_nmsimplex2, n);
  gsl_multimin_fminimizer_set(simplex, &function, start, step);
  for (int i = 0; i < STEPS_MAX; i++) {
    if (gsl_multimin_fminimizer_iterate(simplex) ||
        gsl_multimin_test_size(gsl_multimin_fminimizer_size(simplex), 1e-5) == GSL_SUCCESS)
      break;
  }
  for (gsize i = 0; i < n; i++) {
    const FitParameter *p = &problem->parameters[problem->free[i]];
    x[problem->free[i]] = CLAMP(gsl_vector_get(simplex->x, i), p->min, p->max);
  }
  gsl_multimin_fminimizer_free(simplex);
  gsl_vector_free(start);
  gsl_vector_free(step);
  return problem->loss(x, problem->data);
}

double fit_minimize(const FitParameter *parameters, int n, FitLoss loss, gpointer data, double *x)
{
  g_assert(n > 0 && n <= FIT_PARAMETERS_MAX);
  Problem problem = {.parameters = parameters, .x = x, .loss = loss, .data = data};
  for (int i = 0; i < n; i++) {
    x[i] = CLAMP(parameters[i].start, parameters[i].min, parameters[i].max);
    if (parameters[i].step)
      problem.free[problem.n++] = i;
  }
  double best = loss(x, data);
  for (int round = 0; round < ROUNDS_MAX && problem.n > 0; round++) {
    double before = best;
    best = run_round(&problem, round % 2 ? 0.5 : 1);
    if (round && before - best < ROUND_GAIN_MIN * before)
      break;
  }
  return best;
}
