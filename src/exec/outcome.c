/* What the sums of a step say: its loss and gradient norm, whether it was skipped, the loss scale of the next. */
#include "exec/rank.h"

#include <math.h>

void outcome_init(Exec *x)
{
  x->scaler = x->options.scaler;
  x->run.loss_scale = x->scaler.scale > 0 ? x->scaler.scale : 1;
}

/* NaN without its sign, which says nothing. */
static double number(double x)
{
  return isnan(x) ? (double)NAN : x;
}

double outcome_largest(Exec *x, double number)
{
  x->b->upload(x->b, x->run.s, x->sums, &number, sizeof number);
  x->b->all_reduce(x->b, x->world, x->run.s, x->sums, 1, EXEC_F64, EXEC_MAX);
  x->b->download(x->b, x->run.s, &number, x->sums, sizeof number);
  return number;
}

/* The first rank whose own part of the loss is not finite, or else of the gradients; by all ranks at once. */
static int first_to_blame(Exec *x, const double sums[SUM_COUNT])
{
  int size = x->b->size;
  double order = !isfinite(sums[SUM_OWN_LOSS]) ? 2 * size - x->b->rank
                 : !isfinite(sums[SUM_OWN_NORM_SQ]) ? size - x->b->rank
                                                    : 0;

  return (2 * size - (int)outcome_largest(x, order)) % size;
}

/* One rank speaks, the others wait to be ended. */
static void end_run(Exec *x, const ExecStep *step, int rank)
{
  g_autofree char *scale = step->loss_scale > 0 ? g_strdup_printf(" at the least loss scale, %g", step->loss_scale)
                                                : g_strdup("");
  g_autofree char *message = g_strdup_printf("loss %g, gradient norm %g%s", step->loss, step->grad_norm, scale);

  if (rank != x->b->rank) {
    x->b->barrier(x->b, x->world, x->run.s);
    x->b->sync(x->b, x->run.s);
  }
  exec_fail(x, message);
}

void outcome_note(Exec *x, ExecStep *out)
{
  double sums[SUM_COUNT];
  gboolean overflow, goes_on;

  x->b->download(x->b, x->run.s, sums, x->sums, sizeof sums);
  overflow = !isfinite(sums[SUM_NORM_SQ]);
  *out = (ExecStep) { .loss = number(sums[SUM_LOSS]),
                      .grad_norm = number(sqrt(sums[SUM_NORM_SQ]) / x->run.loss_scale),
                      .loss_scale = x->scaler.scale, .skipped = overflow };
  x->updates += !overflow;
  goes_on = loss_scaler_update(&x->scaler, overflow);
  if (!goes_on || (out->loss_scale == 0 && !isfinite(out->loss)))
    end_run(x, out, first_to_blame(x, sums));
  if (x->scaler.scale > 0)
    x->run.loss_scale = x->scaler.scale;
}
