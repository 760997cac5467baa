/*
 * What every test file shares: a main that runs its list of tests, and checks
 * of errors. One binary a module, each test in a process of its own, but all in
 * one with sanitizers (CK_FORK=yes: each in its own there too).
 *
 *   START_TEST(adds) { ck_assert_int_eq(1 + 1, 2); } END_TEST
 *   TEST_MAIN("sums", adds)
 */
#ifndef TDP_TESTS_MAIN_H
#define TDP_TESTS_MAIN_H

#include "stride.h"

#include <check.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#include <stdio.h>
#include <unistd.h>
#endif

/* A test that runs `times` times with _i counting from 0; 0 means once. What `drawn` cases differ in is numbers, not the
 * code that they run: every test_stride()-th of them is enough. */
typedef struct {
  const TTest *test;
  int times;
  gboolean drawn;
} TestLoop;

#ifdef __SANITIZE_ADDRESS__
/* Looks for leaks, as at each exit, and then ends at once: to lift the guards of all globals at a process' end takes longer
 * than many a test. */
static inline void test_end(int status, void *data)
{
  (void)data;
  fflush(NULL);
  __lsan_do_leak_check();
  _exit(status);
}
#endif

static inline int test_main(const char *name, const TestLoop *tests, gsize n)
{
  Suite *suite = suite_create(name);
  TCase *tcase = tcase_create(name);
  tcase_set_timeout(tcase, 120);
#ifdef __SANITIZE_ADDRESS__
  on_exit(test_end, NULL);
#endif
  for (gsize i = 0; i < n; i++)
    for (int k = 0; k < MAX(tests[i].times, 1); k += tests[i].drawn ? test_stride() : 1)
      tcase_add_loop_test(tcase, tests[i].test, k, k + 1);
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
#ifdef __SANITIZE_ADDRESS__
  /* A fork copies the page tables of all shadow memory, and each process looks for leaks: a quarter of these tests' time.
   * The plain build shows that no test needs what another left. */
  if (!g_getenv("CK_FORK")) srunner_set_fork_status(runner, CK_NOFORK);
#endif
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define TEST_MAIN(name, ...)                            \
  int main(void)                                        \
  {                                                     \
    const TTest *const all[] = {__VA_ARGS__};           \
    TestLoop tests[G_N_ELEMENTS(all)] = {{NULL, 0, FALSE}};    \
    for (gsize i = 0; i < G_N_ELEMENTS(all); i++)       \
      tests[i].test = all[i];                           \
    return test_main(name, tests, G_N_ELEMENTS(tests)); \
  }

/* The same from { test, times, drawn }. */
#define TEST_LOOPS(name, ...)                           \
  int main(void)                                        \
  {                                                     \
    const TestLoop tests[] = {__VA_ARGS__};             \
    return test_main(name, tests, G_N_ELEMENTS(tests)); \
  }

/* Checks that `*error` has this exit code and message, and clears it. */
static inline void test_error(GError **error, int code, const char *message)
{
  ck_assert_ptr_nonnull(*error);
  ck_assert_str_eq((*error)->message, message);
  ck_assert_int_eq((*error)->code, code);
  g_clear_error(error);
}

/* Compares newly allocated text and frees it. */
static inline void test_text(char *found, const char *expected)
{
  ck_assert_str_eq(found, expected);
  g_free(found);
}

/* An empty directory of this test's own; newly allocated path. */
static inline char *test_directory(void)
{
  char *path = g_dir_make_tmp("tdp-test-XXXXXX", NULL);
  ck_assert_ptr_nonnull(path);
  return path;
}

#endif
