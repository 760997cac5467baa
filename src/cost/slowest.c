#include "cost/slowest.h"

#include <math.h>

/* The density of the largest of n, n phi(x) Phi(x)^(n - 1), at equal steps: the trapezoidal rule takes so smooth a
 * function to 1e-9 up to 10,000 and 1e-7 up to two million. */
#define NODES 171
#define FIRST -8.0
#define STEP 0.1
#define NOTHING -40 /* whose exponential is lost beside the others */

#define PASSING_LASTS_S 0.25 /* what passes deviate by, in the jobs of rate_passing (tests/bench/device_rates.py) */

static double moments[NODES], below[NODES]; /* x phi(x) dx and ln Phi(x) */

static void find_nodes(void)
{
  for (int i = 0; i < NODES; i++) {
    double x = FIRST + i * STEP;
    moments[i] = STEP * x * exp(-x * x / 2) / sqrt(2 * G_PI);
    below[i] = x < 0 ? log(erfc(-x / G_SQRT2) / 2) : log1p(-erfc(x / G_SQRT2) / 2);
  }
}

static double moment_of_largest(int n)
{
  static gsize found;
  double sum = 0;

  if (g_once_init_enter(&found)) {
    find_nodes();
    g_once_init_leave(&found, 1);
  }
  for (int i = 0; i < NODES && n > 1; i++)
    if ((n - 1) * below[i] > NOTHING)
      sum += moments[i] * exp((n - 1) * below[i]);
  return n * sum;
}

/* A search asks for the ranks of one job and for those that meet in it, again and again; powers of two have places of
 * their own. */
double expected_largest(int n)
{
  static _Thread_local struct { int n; double largest; } known[33];
  guint place = g_bit_storage((gulong)MAX(n, 0));

  if (known[place].n != n) {
    known[place].n = n;
    known[place].largest = moment_of_largest(n);
  }
  return known[place].largest;
}

double slowest_device(const Device *device, int devices)
{
  return device->rate_spread > 0 ? 1 + device->rate_spread * expected_largest(devices) : 1;
}

double jitter_left(double interval)
{
  return interval > 1e-3 ? 2 / interval * (1 - (1 - exp(-interval)) / interval) : 1 - interval / 3;
}

/* Square of what the slowest of n is behind, where their mean time between meetings is given. */
static double jitter_of(const Device *device, int n, double between_s)
{
  if (device->rate_jitter == 0 || n < 2)
    return 0;
  return pow(device->rate_jitter * expected_largest(n), 2) * jitter_left(between_s / device->rate_jitter_s);
}

/* Square of what the slowest of all is behind for good, and of those that meet in each pass besides. */
static double lasting(const Device *device, int ranks, double largest)
{
  double passing = device->rate_passing > 0 ? device->rate_passing * largest : 0;

  return pow(device->rate_spread * expected_largest(ranks), 2) + passing * passing;
}

double slowest_inside(const Device *device, const PassLayout *passes, double inside_s)
{
  if (device->rate_jitter == 0 && device->rate_passing == 0)
    return slowest_device(device, passes->ranks);
  return 1 + sqrt(lasting(device, passes->ranks, expected_largest(passes->met)) +
                  jitter_of(device, passes->tp * passes->cp, inside_s));
}

double slowest_of_all(const Device *device, const Mesh *mesh, const Meetings *meetings)
{
  int ranks = mesh->ranks, stages = mesh->dense[AXIS_PIPELINE].size, replicas = mesh->dense[AXIS_DATA].size;
  double largest = expected_largest(meetings->met);

  if (device->rate_jitter == 0 && device->rate_passing == 0)
    return slowest_device(device, ranks);
  if (meetings->passing_s > 0)
    largest += sqrt(jitter_left(meetings->passing_s / PASSING_LASTS_S)) *
               (expected_largest(MAX(mesh->places, meetings->met)) - largest);
  return 1 + sqrt(lasting(device, ranks, largest) + jitter_of(device, mesh->block, meetings->inside_s) +
                  jitter_of(device, stages, meetings->stages_s) + jitter_of(device, replicas, meetings->replicas_s));
}
