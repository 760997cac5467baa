/*
 * How many of many like cases a test tries.
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

#endif
