/*
 * How many of many like cases a test tries, and which.
 */
#ifndef TDP_TESTS_STRIDE_H
#define TDP_TESTS_STRIDE_H

#include <glib.h>
#include <stdlib.h>

/* 1, so that all drawn cases are tried, except in builds with sanitizers: these look at what the code does to memory,
 * which one case shows as well as another. STRIDE in the environment is taken instead. */
static inline int test_stride(void)
{
  const char *text = g_getenv("STRIDE");
#ifdef __SANITIZE_ADDRESS__
  const int usual = 11;
#else
  const int usual = 1;
#endif
  return text ? MAX(1, atoi(text)) : usual;
}

/* For draws of which any must do, such as questions that are answered by brute force, too: those of the seed, or others of
 * their own for each number STREAM in the environment (make check-streams). */
static inline GRand *test_rand(guint32 seed)
{
  const char *text = g_getenv("STREAM");
  return g_rand_new_with_seed(seed + (text ? (guint32)atoi(text) * 1000003u : 0));
}

/* Whether these are the draws of the seeds, of which tests know what they meet: with others some may show nothing. */
static inline gboolean test_usual_draws(void)
{
  return g_getenv("STREAM") == NULL;
}

#endif
