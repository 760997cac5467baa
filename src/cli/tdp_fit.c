/* tdp-fit: fits the constants of hardware/kernels and hardware/links to the
 * measured times of hardware/data, as its fits.csv lists them. */
#include "base/error.h"
#include "base/table.h"
#include "cli/cli.h"
#include "cli/numbers.h"
#include "cli/say.h"
#include "fit/jobs.h"

#include <stdio.h>
#include <string.h>

typedef struct {
  char *only;
  gboolean dry_run;
} Options;

static gboolean read_options(int *argc, char ***argv, Options *options, GError **error)
{
  const GOptionEntry entries[] = {
    {"only", 0, 0, G_OPTION_ARG_STRING, &options->only, "Fits of this target alone, as in h100 or efa", "NAME"},
    {"dry-run", 'n', 0, G_OPTION_ARG_NONE, &options->dry_run, "Print errors, write no file", NULL},
    G_OPTION_ENTRY_NULL,
  };
  if (!cli_parse(argc, argv, entries, "Fits constants of kernels and links to measured times.", error))
    return FALSE;
  if (*argc > 1)
    return input_error(error, "%s: expected no further argument", (*argv)[1]);
  return TRUE;
}

static void add_errors(Table *table, const FitErrors *errors)
{
  table_add(table, "%d", errors->n);
  const double shown[] = {errors->mean, errors->median, errors->p90};
  for (guint i = 0; i < G_N_ELEMENTS(shown); i++)
    table_take(table, errors->n ? g_strdup_printf("%.1f", 100 * shown[i]) : g_strdup(""));
}

static void add_result(Table *table, const FitJob *job, const FitResult *result)
{
  table_add(table, "%s|%s|%s|%s", job->fit, job->target, job->constants, job->data);
  add_errors(table, &result->fit);
  add_errors(table, &result->check);
}

static gboolean run(const Options *options, GError **error)
{
  g_autoptr(FitData) data = fit_data_load(error);
  if (!data)
    return FALSE;
  g_autoptr(Table) table =
    table_new("<fit|<target|<constants|<data|rows|mean %|median %|p90 %|checks|mean %|median %|p90 %");
  int n = 0;
  for (int i = 0; i < data->n_jobs; i++) {
    const FitJob *job = &data->jobs[i];
    FitResult result = {0};
    if (options->only && strcmp(options->only, job->target) != 0)
      continue;
    fprintf(stderr, "%s %s %s\n", job->fit, job->target, job->constants);
    if (!fit_job_run(data, job, options->dry_run, &result, error))
      return FALSE;
    add_result(table, job, &result);
    n++;
  }
  if (n == 0)
    return input_error(error, "--only: %s: expected a target of fits.csv", options->only);
  g_autofree char *text = table_text(table, 0);
  say("%s", text);
  return TRUE;
}

int main(int argc, char **argv)
{
  GError *error = NULL;
  Options options = {0};
  cli_numbers();
  gboolean done = read_options(&argc, &argv, &options, &error) && run(&options, &error);
  g_free(options.only);
  return done ? cli_finish("tdp-fit") : cli_fail("tdp-fit", error);
}
