/*
 * Random numbers of a distribution of steps: the largest of `size` normal ones,
 * from a table of quantiles. Each step has a generator of its own (splitmix64,
 * Steele et al. 2014), so that it draws the same whatever is drawn beside it.
 * Private to src/sim.
 */
#ifndef TDP_SIM_NOISE_H
#define TDP_SIM_NOISE_H

#include <glib.h>

#define NOISE_BITS 14

/* 2^NOISE_BITS quantiles; the caller frees them. */
double *noise_quantiles(int size, double deviation);

/* 64 random bits. */
static inline guint64 noise_bits(guint64 *state)
{
  guint64 z = *state += 0x9e3779b97f4a7c15u;

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static inline double noise_draw(const double *quantiles, guint64 *state)
{
  return quantiles[noise_bits(state) >> (64 - NOISE_BITS)];
}

/* The largest of what so many ranks are behind, each with noise of its own beside what lasts; four share random bits. */
static inline double noise_slowest(const double *quantiles, guint64 *state, const double *lasting, int ranks)
{
  double most = -G_MAXDOUBLE;
  guint64 bits = 0;

  for (int i = 0; i < ranks; i++) {
    bits = i % 4 ? bits >> NOISE_BITS : noise_bits(state);
    double behind = lasting[i] + quantiles[bits & ((1 << NOISE_BITS) - 1)];
    most = MAX(most, behind);
  }
  return most;
}

/* The state of a generator of its own for each `which` below another's. */
static inline guint64 noise_apart(guint64 state, guint64 which)
{
  guint64 z = state + (which + 1) * 0xd1342543de82ef95u;

  z = (z ^ (z >> 32)) * 0xff51afd7ed558ccdu;
  return z ^ (z >> 29);
}

#endif
