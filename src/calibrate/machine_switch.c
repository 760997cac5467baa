/* What a product loses by other kernels before it. */
#include "calibrate/machine_parts.h"
#include "cost/price.h"

#include <math.h>

#define AFTER_MIN_S 2e-5
#define AFTER_MAX_S 5e-3
#define AFTER_STEPS 49
#define PAIRS_MAX 16

typedef struct {
  int n;
  double between_s[PAIRS_MAX], lost_s[PAIRS_MAX]; /* by each product but the first */
} Turns;

static double apart_s(const GArray *points, const MachinePoint *in_turn)
{
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = point_at(points, i);
    if (point_like(p, POINT_TURN, in_turn->name, TRUE) && p->bytes == in_turn->bytes && p->m == in_turn->m)
      return p->seconds;
  }
  return 0;
}

static Turns turns_of(const GArray *points, const MachineFit *fit)
{
  Device device = { .memory_bytes_per_s = fit->copy_bytes_per_s, .sustained_fraction = 1, .kernels = fit->kernels };
  Turns t = { 0 };

  for (guint i = 0; i < points->len && t.n < PAIRS_MAX; i++) {
    const MachinePoint *p = point_at(points, i);
    double apart = p->kind == POINT_TURN && !p->backward ? apart_s(points, p) : 0;
    if (apart == 0)
      continue;
    t.between_s[t.n] = named_memory_s(&device, p->name, FALSE, p->bytes, 1, 0);
    t.lost_s[t.n++] = (p->seconds - apart) / (TURN_PAIRS - 1);
  }
  return t;
}

/* Least squares of the largest loss where it is reached after `after_s`; returns the sum of squares left. */
static double fit_loss(const Turns *t, double after_s, double *most_s)
{
  double xy = 0, xx = 0, left = 0;

  for (int i = 0; i < t->n; i++) {
    double x = MIN(1, t->between_s[i] / after_s);
    xy += x * t->lost_s[i];
    xx += x * x;
  }
  *most_s = MAX(0, xy / xx);
  for (int i = 0; i < t->n; i++)
    left += pow(t->lost_s[i] - *most_s * MIN(1, t->between_s[i] / after_s), 2);
  return left;
}

void machine_fit_switch(const GArray *points, MachineFit *fit)
{
  Turns t = turns_of(points, fit);
  double best = INFINITY;

  for (int i = 0; i < AFTER_STEPS && t.n > 1; i++) {
    double after_s = AFTER_MIN_S * pow(AFTER_MAX_S / AFTER_MIN_S, i / (AFTER_STEPS - 1.0)), most_s;
    double left = fit_loss(&t, after_s, &most_s);
    if (left >= best)
      continue;
    best = left;
    fit->switch_s = most_s;
    fit->switch_after_s = after_s;
  }
}
