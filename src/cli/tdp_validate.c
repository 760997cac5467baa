/* tdp-validate: published runs through the simulator. */
#include "base/error.h"
#include "base/files.h"
#include "base/table.h"
#include "cli/cli.h"
#include "cli/numbers.h"
#include "cli/say.h"
#include "report/page.h"
#include "report/scatter.h"
#include "validate/residuals.h"

#include <stdio.h>
#include <string.h>

typedef struct {
  char *csv, *plots, *report, *baseline, *write_baseline, *write_accuracy;
  gboolean json, rows, ablate, timed_passes;
} Options;

/* Whether the file to write is none of cases, as where the first of these stands behind the option. */
static gboolean spares_cases(const char *option, const char *path, GError **error)
{
  g_autofree char *text = NULL;

  if (!path || !g_file_test(path, G_FILE_TEST_IS_REGULAR) || !g_file_get_contents(path, &text, NULL, NULL))
    return TRUE;
  const char *end = text + strcspn(text, "\n"), *column = g_strstr_len(text, end - text, ",global_batch,");
  if (column)
    input_error(error, "--%s: %s: expected a file to write, this one has cases", option, path);
  return !column;
}

static gboolean read_options(int *argc, char ***argv, Options *o, GError **error)
{
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &o->json, "Print JSON", NULL },
    { "rows", 0, 0, G_OPTION_ARG_NONE, &o->rows, "Show every row", NULL },
    { "csv", 0, 0, G_OPTION_ARG_FILENAME, &o->csv, "Write one line a row", "FILE" },
    { "plots", 0, 0, G_OPTION_ARG_FILENAME, &o->plots, "Draw predicted over measured", "DIR" },
    { "report", 0, 0, G_OPTION_ARG_FILENAME, &o->report, "Write a web page or Markdown", "FILE.html|FILE.md" },
    { "ablate", 0, 0, G_OPTION_ARG_NONE, &o->ablate, "Show the error with each physical effect left out", NULL },
    { "timed-passes", 0, 0, G_OPTION_ARG_NONE, &o->timed_passes,
      "Let passes take the times that the rows' notes give", NULL },
    { "baseline", 0, 0, G_OPTION_ARG_FILENAME, &o->baseline, "Exit 4 if an accuracy of this file is lost", "FILE" },
    { "write-baseline", 0, 0, G_OPTION_ARG_FILENAME, &o->write_baseline, "Write the accuracy reached", "FILE" },
    { "write-accuracy", 0, 0, G_OPTION_ARG_FILENAME, &o->write_accuracy,
      "Write what the errors say of predictions: files of accuracy/", "DIR" },
    G_OPTION_ENTRY_NULL,
  };

  if (!cli_parse(argc, argv, entries,
                 "Simulates the measured runs of case files and of reports of tdp-run --json, and compares.",
                 error))
    return FALSE;
  if (*argc < 2)
    input_error(error, "CASES: missing: expected one or more case files");
  return *argc >= 2 && spares_cases("csv", o->csv, error) &&
         spares_cases("write-baseline", o->write_baseline, error) && (!o->report || page_check(o->report, error));
}

static Validation *validate(char **files, const Options *o, int ablation, const Accuracy *accuracy, GError **error)
{
  g_autoptr(Validation) v = validation_new(ablation);

  v->timed_passes = o->timed_passes;
  v->accuracy = accuracy;
  for (; *files; files++)
    if (!validation_add_file(v, *files, error))
      return NULL;
  validation_finish(v);
  return g_steal_pointer(&v);
}

static void add_ablation(Table *table, const char *name, const CaseSummary *s)
{
  table_add(table, "%s|%.2f|%.2f|%+.2f", name, s->mape_pct, s->median_ape_pct, s->bias_pct);
}

static gboolean print_ablation(char **files, const Options *o, const Validation *whole, GError **error)
{
  g_autoptr(Table) table = table_new("<left out|mean %|median %|bias %");
  CaseSummary all = validation_summary(whole, NULL);

  add_ablation(table, "nothing", &all);
  for (int i = 0; ablation_name(i); i++) {
    g_autoptr(Validation) v = validate(files, o, i, NULL, error);
    if (!v)
      return FALSE;
    CaseSummary s = validation_summary(v, NULL);
    add_ablation(table, ablation_name(i), &s);
  }
  g_autofree char *text = table_text(table, 0);
  say("\n%s", text);
  return TRUE;
}

static gboolean write_text(const char *path, char *text, GError **error)
{
  g_autofree char *owned = text;
  return files_write(path, owned, strlen(owned), error);
}

static void add_points(Page *page, const Validation *v)
{
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(PagePoint));
  CaseSummary all = validation_summary(v, NULL);
  g_autofree char *naive = validation_naive_text(&all);
  g_autofree char *says =
      g_strdup_printf("%d timed runs: mean error %.1f %%, median %.1f %%, bias %+.1f %%%s.",
                      all.count, all.mape_pct, all.median_ape_pct, all.bias_pct, naive);

  for (guint i = 0; i < v->cases->len; i++) {
    const CaseResult *r = g_ptr_array_index(v->cases, i);
    PagePoint point = { r->file, r->id, r->measured_s, r->predicted_s };
    if (case_is_timed(r))
      g_array_append_val(points, point);
  }
  if (points->len > 0)
    page_points(page, "Predicted over measured", says, (const PagePoint *)points->data, points->len);
}

static gboolean write_report(const Validation *v, const char *path, GError **error)
{
  g_autoptr(Page) page = page_new("Published runs, predicted", "Each run simulated as its source states it");
  g_autofree char *checks = validation_checks(v);
  const struct {
    const char *heading;
    Table *table;
  } tables[] = { { "By source", validation_sources(v) }, { "What was skipped", validation_skipped(v) },
                 { "What was not stated", validation_defaulted(v) }, { "Every run", validation_rows(v) } };
  const int last = G_N_ELEMENTS(tables) - 1;

  add_points(page, v);
  for (int i = 0; i <= last; i++) {
    if (i == last)
      page_text(page, "What fits, and the order of plans", checks);
    if (table_rows(tables[i].table) > 0)
      page_table(page, tables[i].heading, NULL, tables[i].table);
    table_free(tables[i].table);
  }
  return page_write(page, path, error);
}

static gboolean write_files(const Validation *v, const Options *o, GError **error)
{
  return (!o->csv || write_text(o->csv, validation_csv(v), error)) &&
         (!o->write_baseline || write_text(o->write_baseline, validation_baseline(v), error)) &&
         (!o->write_accuracy || residuals_write(v, o->write_accuracy, error)) &&
         (!o->plots || report_scatter(v, o->plots, error)) && (!o->report || write_report(v, o->report, error));
}

static gboolean run(char **files, const Options *o, GError **error)
{
  /* what is written anew need not be there */
  g_autoptr(Accuracy) accuracy = accuracy_load(o->write_accuracy ? NULL : error);
  if (!accuracy && !o->write_accuracy)
    return FALSE;
  g_autoptr(Validation) v = validate(files, o, -1, accuracy, error);
  gboolean any = v && validation_check_runs(v, error);
  if (!v || (any && !write_files(v, o, error)))
    return FALSE;
  g_autofree char *text = o->json ? validation_json(v) : validation_text(v, o->rows);
  say_or_print(o->json, text);
  if (!any)
    return FALSE;
  if (o->ablate && !print_ablation(files, o, v, error))
    return FALSE;
  return !o->baseline || validation_check(v, o->baseline, error);
}

int main(int argc, char **argv)
{
  Options o = { 0 };
  GError *error = NULL;

  cli_numbers();
  g_set_prgname("tdp-validate");
  cli_keep_memory();
  gboolean ok = read_options(&argc, &argv, &o, &error) && run(argv + 1, &o, &error);
  char *const strings[] = { o.csv, o.plots, o.report, o.baseline, o.write_baseline, o.write_accuracy };
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_free(strings[i]);
  return ok ? cli_finish("tdp-validate") : cli_fail("tdp-validate", error);
}
