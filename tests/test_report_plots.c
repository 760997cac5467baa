/* Pictures that gnuplot draws, and what is said where it does not. */
#include "main.h"

#include "base/error.h"
#include "report/compare.h"
#include "report/plots.h"
#include "report_run.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>

/* The last two only of steps with too many passes for boxes. */
static const char *const pictures[] = { "timeline.svg", "timeline.png", "memory.svg", "memory.png",
                                        "timeline-start.svg", "timeline-start.png" };

static gboolean have_gnuplot(void)
{
  g_autofree char *path = g_find_program_in_path("gnuplot");
  return path != NULL;
}

/* Draws, checks that the pictures are there and whole, and removes them. */
static void check_plots(const Run *r, gboolean long_step, gsize most_bytes)
{
  g_autofree char *directory = test_directory(), *folder = g_build_filename(directory, "a", "b", NULL);
  GError *error = NULL;

  ck_assert_msg(report_plots(&r->result, r->trace, folder, 0, &error), "%s", error ? error->message : "");
  for (guint i = 0; i < (long_step ? 6 : 4); i++) {
    g_autofree char *path = g_build_filename(folder, pictures[i], NULL), *content = NULL;
    gsize length = 0;
    ck_assert(g_file_get_contents(path, &content, &length, NULL));
    ck_assert_uint_lt(length, most_bytes);
    ck_assert(g_str_has_suffix(path, "png") ? memcmp(content, "\211PNG", 4) == 0 : strstr(content, "</svg>") != NULL);
    ck_assert_int_eq(g_remove(path), 0);
  }
  ck_assert_int_eq(g_rmdir(folder), 0); /* nothing else lies there */
  g_autofree char *parent = g_build_filename(directory, "a", NULL);
  g_rmdir(parent);
  g_rmdir(directory);
}

START_TEST(plots_are_drawn)
{
  Run r = run_new((Shape) { 2, 2, 2, 2, 8, TRUE });

  g_free(r.model->name);
  r.model->name = g_strdup("it's \"a\" `false` {x}_1 \\ model\n");
  if (have_gnuplot())
    check_plots(&r, FALSE, 400000);
  run_clear(&r);
}
END_TEST

START_TEST(plots_of_long_steps_stay_small)
{
  Run r = run_new((Shape) { 1, 8, 1, 1, 5000, FALSE });

  if (have_gnuplot())
    check_plots(&r, TRUE, 2000000);
  run_clear(&r);
}
END_TEST

START_TEST(lines_hold_all_words)
{
  static const struct {
    const char *text;
    int letters;
    const char *lines;
  } cases[] = {
    { "", 10, "" },
    { "one, two", 8, "one, two" },
    { "one, two", 7, "one,|two" },
    { "one, two words more", 12, "one,|two words|more" },
    { "µµµ · the first", 9, "µµµ|· the|first" },
    { "one two·three", 8, "one|two·three" },
    { "uncommonlylong, a b", 5, "uncommonlylong,|a b" },
    { "uncommonlylong", 5, "uncommonlylong" },
    { "a uncommonlylong", 5, "a|uncommonlylong" },
  };

  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_auto(GStrv) lines = plot_lines(cases[i].text, cases[i].letters);
    g_autofree char *joined = g_strjoinv("|", lines);
    ck_assert_str_eq(joined, cases[i].lines);
  }
}
END_TEST

/* A label too long for the sheet goes on in a second line, with what is said behind it at its end. */
START_TEST(long_plans_stay_on_the_sheet)
{
  Run r = run_new((Shape) { 1, 8, 1, 1, 5000, FALSE });
  g_autofree char *folder = test_directory(), *one = g_strnfill(150, 'a'), *other = g_strnfill(150, 'b');
  Plan named = *r.result.plan;
  const PicturesTo to = { folder, 0 };

  named.types[0] = one;
  named.types[1] = other;
  named.types[2] = NULL;
  r.result.plan = &named;
  if (have_gnuplot()) {
    ck_assert(plot_timeline_start(&r.result, r.trace, &to, NULL) && plot_memory(&r.result, r.trace, &to, NULL));
    for (int i = 2; i < 6; i++) {
      g_autofree char *path = g_build_filename(folder, pictures[i], NULL), *text = NULL;
      ck_assert(g_file_get_contents(path, &text, NULL, NULL));
      if (g_str_has_suffix(path, "svg")) {
        const char *first = strstr(text, one), *second = strstr(text, other);
        ck_assert(first && second && first < second && memchr(first, '<', second - first)); /* two labels */
        ck_assert_int_eq(strstr(text, "the first ") != NULL, i == 4);
      }
      g_remove(path);
    }
  }
  g_rmdir(folder);
  r.result.plan = r.kept;
  run_clear(&r);
}
END_TEST

START_TEST(comparison_has_a_panel_a_plan)
{
  Run one = run_new((Shape) { 1, 4, 1, 1, 8, FALSE }), two = run_new((Shape) { 1, 8, 1, 1, 8, FALSE });
  Compared plans[] = { { "one", &one.result, one.trace }, { "folder/two.json", &two.result, two.trace } };
  g_autofree char *directory = test_directory(), *svg = NULL;
  g_autofree char *path = g_build_filename(directory, "compare.svg", NULL),
                          *png = g_build_filename(directory, "compare.png", NULL);
  GError *error = NULL;

  if (have_gnuplot()) {
    ck_assert_msg(report_compare_plot(plans, 2, directory, &error), "%s", error ? error->message : "");
    ck_assert(g_file_get_contents(path, &svg, NULL, NULL));
    ck_assert_ptr_nonnull(strstr(svg, "one: 33.0 s a step (1.000"));
    ck_assert_ptr_nonnull(strstr(svg, "two.json: "));
    ck_assert_ptr_null(strstr(svg, "folder"));
    ck_assert_int_eq(g_remove(path), 0);
    ck_assert_int_eq(g_remove(png), 0);
  }
  ck_assert_int_eq(g_rmdir(directory), 0);
  run_clear(&one);
  run_clear(&two);
}
END_TEST

START_TEST(folder_that_cannot_be_made)
{
  Run r = run_new((Shape) { 1, 1, 1, 1, 1, FALSE });
  GError *error = NULL;

  ck_assert(!report_plots(&r.result, r.trace, "/dev/null/plots", 0, &error));
  test_error(&error, TDP_ERROR_RUNTIME, "/dev/null/plots: cannot make this folder: Not a directory");
  run_clear(&r);
}
END_TEST

START_TEST(no_gnuplot)
{
  Run r = run_new((Shape) { 1, 1, 1, 1, 1, FALSE });
  g_autofree char *folder = test_directory(), *before = g_strdup(g_getenv("PATH"));
  GError *error = NULL;

  g_setenv("PATH", folder, TRUE);
  ck_assert(!report_plots(&r.result, r.trace, folder, 0, &error));
  test_error(&error, TDP_ERROR_RUNTIME, "plots: gnuplot is not installed (Debian: gnuplot-nox)");
  g_setenv("PATH", before, TRUE);
  ck_assert_int_eq(g_rmdir(folder), 0);
  run_clear(&r);
}
END_TEST

/* Plots with this in gnuplot's place fail with a message. */
static void check_gnuplot(const char *program, const char *message)
{
  Run r = run_new((Shape) { 1, 1, 1, 1, 1, FALSE });
  g_autofree char *folder = test_directory(), *path = g_build_filename(folder, "gnuplot", NULL);
  g_autofree char *before = g_strdup(g_getenv("PATH")), *with = g_strdup_printf("%s:%s", folder, before);
  GError *error = NULL;

  ck_assert(g_file_set_contents(path, program, -1, NULL));
  ck_assert_int_eq(g_chmod(path, 0755), 0);
  g_setenv("PATH", with, TRUE);
  ck_assert(!report_plots(&r.result, r.trace, folder, 0, &error));
  g_setenv("PATH", before, TRUE);
  test_error(&error, TDP_ERROR_RUNTIME, message);
  g_remove(path);
  ck_assert_int_eq(g_rmdir(folder), 0);
  run_clear(&r);
}

START_TEST(gnuplot_that_fails)
{
  check_gnuplot("#!/bin/sh\necho first >&2\necho no terminal >&2\nexit 3\n", "plots: gnuplot failed: no terminal");
  check_gnuplot("#!/bin/sh\nexit 3\n", "plots: gnuplot failed: ended with status 3");
  check_gnuplot("#!/bin/sh\nkill -9 $$\n", "plots: gnuplot failed: ended by signal 9");
  check_gnuplot("#!/bin/sh\nexit 0\n", "plots: gnuplot drew no timeline.svg");
  check_gnuplot("#!/usr/bin/perl\nmy $left = alarm 0; print STDERR $left > 0 ? 'limited' : 'unlimited'; exit 1\n",
                "plots: gnuplot failed: limited");
}
END_TEST

/* One that its alarm ended left a process with its outputs open, for which nobody waits. */
START_TEST(gnuplot_that_hangs)
{
  g_autofree char *folder = test_directory(), *note = g_build_filename(folder, "pid", NULL), *text = NULL;
  g_autofree char *end = g_build_filename(folder, "end", NULL);
  g_autofree char *program = g_strdup_printf("#!/bin/sh\nperl -e 'sleep 60; open F, \">%s\"' &\necho $! >%s\n"
                                             "kill -ALRM $$\n", end, note);

  check_gnuplot(program, "plots: gnuplot failed: took more than 120 s");
  ck_assert(!g_file_test(end, G_FILE_TEST_EXISTS));
  ck_assert(g_file_get_contents(note, &text, NULL, NULL));
  int left = (int)g_ascii_strtoll(text, NULL, 10);
  ck_assert_int_gt(left, 1);
  ck_assert_int_eq(kill(left, SIGKILL), 0);
  g_remove(note);
  ck_assert_int_eq(g_rmdir(folder), 0);
}
END_TEST

TEST_MAIN("report-plots", plots_are_drawn, plots_of_long_steps_stay_small, lines_hold_all_words,
          long_plans_stay_on_the_sheet, comparison_has_a_panel_a_plan,
          folder_that_cannot_be_made, no_gnuplot, gnuplot_that_fails, gnuplot_that_hangs)
