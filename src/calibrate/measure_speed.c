/* The speed of the moment: what samples owe to it, and how ranks differ in it. */
#include "calibrate/measure_parts.h"

#include <math.h>

#define FOLLOWS_MIN 0.02 /* spread of the reference, of its logarithm, below which nothing is told */
#define STRAY 0.9        /* a sample's logarithm this far from its point's mean is passed over */

/* Whether the reference stood beside the point's samples. */
static gboolean follows_speed(const Measure *m, const MachinePoint *p)
{
  return takes_part(m, p) && p->busy <= m->options->processors;
}

typedef struct {
  double both, own; /* sums of products of deviations */
  int n;
} Slope;

/* Of the undisturbed samples of a point. */
static void add_deviations(const Sample *s, int rounds, Slope *sum)
{
  double t_mean = 0, r_mean = 0;
  int n = 0;

  for (int k = 0; k < rounds; k++)
    if (!is_disturbed(&s[k])) {
      t_mean += log(s[k].seconds);
      r_mean += log(s[k].reference);
      n++;
    }
  for (int k = 0; k < rounds; k++) {
    double dt = log(s[k].seconds) - t_mean / n, dr = log(s[k].reference) - r_mean / n;
    if (is_disturbed(&s[k]))
      continue;
    sum->n++;
    if (fabs(dt) > STRAY || fabs(dr) > STRAY)
      continue;
    sum->both += dt * dr;
    sum->own += dr * dr;
  }
}

/* How much a kind's times follow the reference: the slope over all its points. */
static double follows(const Measure *m, const MachinePoint *kind, int rounds)
{
  Slope sum = { 0 };

  for (guint i = 0; i < m->points->len; i++) {
    const MachinePoint *p = measure_point(m, i);
    if (point_like(p, kind->kind, kind->name, kind->backward) && follows_speed(m, p))
      add_deviations(&m->samples[i * m->options->rounds], rounds, &sum);
  }
  return sum.own > FOLLOWS_MIN * FOLLOWS_MIN * MAX(sum.n, 1) ? CLAMP(sum.both / sum.own, 0, 1) : 0;
}

static void even_out_point(Measure *m, int i, int rounds, double slope)
{
  Sample *s = &m->samples[i * m->options->rounds];
  double mean = 0;

  for (guint k = 0; k < m->heads->len; k++)
    mean += pow(g_array_index(m->heads, Sample, k).head, slope) / m->heads->len;
  for (int k = 0; k < rounds; k++)
    s[k].seconds *= mean / pow(s[k].reference, slope);
}

void measure_even_out(Measure *m, int rounds)
{
  guint n = m->points->len;
  g_autofree double *slopes = g_new(double, n);

  for (guint i = 0; i < n; i++)
    slopes[i] = follows(m, measure_point(m, i), rounds);
  for (guint i = 0; i < n; i++)
    if (follows_speed(m, measure_point(m, i)))
      even_out_point(m, i, rounds, slopes[i]);
}

/* ---- how ranks differ ---- */

/* Ranks wait for one another every few milliseconds or once a step: the slowest is
 * told over that many samples in a row, if there are several such rows. */
static const int in_a_row[] = { 1, 4, 16, 64, 256 };
#define ROWS_MIN 4

static void add_reference(Measure *m, const char *name, int samples, double seconds, int n)
{
  MachinePoint p = { .kind = POINT_REFERENCE, .m = samples, .ranks = m->options->processors,
                     .busy = m->options->processors, .rounds = n, .seconds = seconds, .low_s = seconds,
                     .high_s = seconds };

  g_strlcpy(p.name, name, sizeof p.name);
  g_array_append_val(m->points, p);
}

/* The slowest rank's mean over n samples in a row, on average over all rows of them. */
static double slowest_s(Measure *m, int samples, int n)
{
  g_autofree double *means = g_new0(double, n);
  double sum = 0;

  for (int i = 0; i < n * samples && !is_extra(m); i++)
    means[i / samples] += g_array_index(m->heads, Sample, i).head / samples;
  measure_reduce(m, means, n, EXEC_MAX);
  for (int i = 0; i < n; i++)
    sum += means[i];
  return sum / n;
}

static double mean_s(Measure *m)
{
  double mine = 0;

  for (guint i = 0; i < m->heads->len && !is_extra(m); i++)
    mine += g_array_index(m->heads, Sample, i).head / m->heads->len / m->options->processors;
  measure_reduce(m, &mine, 1, EXEC_SUM);
  return mine;
}

void measure_set_reference(Measure *m)
{
  int heads = m->heads->len;

  add_reference(m, "mean", 1, mean_s(m), heads);
  add_reference(m, "apart", 1, (m->heads_until_s - m->heads_from_s) / heads, heads);
  for (gsize k = 0; k < G_N_ELEMENTS(in_a_row); k++)
    if (heads >= ROWS_MIN * in_a_row[k] || k == 0)
      add_reference(m, "slowest", in_a_row[k], slowest_s(m, in_a_row[k], heads / in_a_row[k]), heads / in_a_row[k]);
}
