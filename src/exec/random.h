/*
 * Random numbers by place instead of in sequence, so that any rank can make any
 * part: a hash of a seed and two indices (splitmix64's finalizer, Steele et al.
 * 2014).
 */
#ifndef TDP_EXEC_RANDOM_H
#define TDP_EXEC_RANDOM_H

#include <glib.h>
#include <math.h>

static inline guint64 random_mix(guint64 x)
{
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static inline guint64 random_at(guint64 seed, guint64 stream, guint64 index)
{
  return random_mix(random_mix(random_mix(seed) ^ stream) ^ index);
}

/* Above 0, up to 1. */
static inline double random_unit(guint64 bits)
{
  return ((bits >> 11) + 1) * 0x1p-53;
}

/* Normal with mean 0 and deviation 1 (Box and Muller 1958). */
static inline double random_normal(guint64 seed, guint64 stream, guint64 index)
{
  guint64 bits = random_at(seed, stream, index);
  return sqrt(-2 * log(random_unit(bits))) * cos(2 * G_PI * random_unit(random_mix(bits)));
}

#endif
