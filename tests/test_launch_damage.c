/* Runs of other tools in other encodings, and damaged. */
#include "launch_sample.h"

#include <string.h>

/* A byte that is no UTF-8, and lines that end as on Windows, change nothing. */
START_TEST(other_encodings)
{
  static const char *const names[] = { "strings.slurm", "llama-1b.log", "tiny.yaml", "llama3_8b.toml" };
  GError *error = NULL;
  g_autofree char *text = launch_sample(names[_i]);
  g_autofree char *latin = g_strdup_printf("%s# caf\xe9\n", text);
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  g_autofree char *windows = g_strjoinv("\r\n", lines);
  const char *const others[] = { latin, windows };
  g_autoptr(Launch) usual = launch_read(text, names[_i], &(LaunchOptions) { _i < 3 ? 0 : 16 }, &error);

  ck_assert_msg(!error, "%s", error ? error->message : "");
  for (gsize i = 0; i < G_N_ELEMENTS(others); i++) {
    ck_assert(launch_recognises(others[i]));
    g_autoptr(Launch) l = launch_read(others[i], names[_i], &(LaunchOptions) { _i < 3 ? 0 : 16 }, &error);
    ck_assert_msg(!error, "%s", error ? error->message : "");
    ck_assert_str_eq(l->plan, usual->plan);
    ck_assert_double_eq(l->measured_s, usual->measured_s);
    ck_assert_double_eq(l->measured_bytes, usual->measured_bytes);
  }
}
END_TEST

/* Damaged scripts are read or refused, and never worse. */
static void check_damaged(guint seed)
{
  static const char *const samples[] = { "arrays.sh", "strings.slurm", "llama-1b.log", "llama3_8b.toml",
                                        "tiny.yaml", "zero2.json", "olmo.yaml", "litgpt.yaml", "primus.yaml",
                                        "nemo.yaml", "kempner.toml" };
  g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
  g_autofree char *text = launch_sample(samples[seed % G_N_ELEMENTS(samples)]);
  gsize length = strlen(text);

  for (int i = 0; i < 4; i++) {
    gsize at = g_rand_int_range(rand, 0, (gint32)length), n = g_rand_int_range(rand, 1, 40);
    if (g_rand_boolean(rand))
      memmove(text + at, text + MIN(length, at + n), length - MIN(length, at + n) + 1);
    else
      text[at] = "$\"'`(){}[];|&<>\\# \n09-=xX\x01\xff"[g_rand_int_range(rand, 0, 27)];
    length = strlen(text);
  }
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) l = launch_read(text, "x", &(LaunchOptions) { 0 }, &error);
  ck_assert_msg((l == NULL) == (error != NULL), "seed %u", seed);
  if (seed % 10 == 0) {
    g_autoptr(GPtrArray) left = g_ptr_array_new_with_free_func(g_free);
    g_free(launch_change(text, "x", NULL, "run x.py --tensor-model-parallel-size 2",
                         "run x.py --tensor-model-parallel-size 4 --s", left));
  }
}

/* Many in a process: one takes less time than a process does. */
START_TEST(damage)
{
  for (guint i = 0; i < 100; i++)
    check_damaged(100 * _i + i);
}
END_TEST

TEST_LOOPS("launch-damage", { other_encodings, 4 }, { damage, 6 })
