/* tdp-validate: published runs through the simulator. */
#include "base/error.h"
#include "base/files.h"
#include "cli/cli.h"
#include "validate/validate.h"

#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char *csv;
  gboolean json, rows;
} Options;

static gboolean read_options(int *argc, char ***argv, Options *o, GError **error)
{
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &o->json, "Print JSON", NULL },
    { "csv", 0, 0, G_OPTION_ARG_FILENAME, &o->csv, "Write one line a row", "FILE" },
    { "rows", 0, 0, G_OPTION_ARG_NONE, &o->rows, "Show every row", NULL },
    G_OPTION_ENTRY_NULL,
  };

  if (!cli_parse(argc, argv, entries, "Simulates the measured runs of case files (CASES.csv...) and compares.", error))
    return FALSE;
  if (*argc < 2)
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "CASES: missing: expected one or more case files");
  return *argc >= 2;
}

static gboolean run(char **files, const Options *o, GError **error)
{
  g_autoptr(Validation) v = validation_new();

  for (; *files; files++)
    if (!validation_add_file(v, *files, error))
      return FALSE;
  validation_finish(v);
  if (o->csv) {
    g_autofree char *csv = validation_csv(v);
    if (!files_write(o->csv, csv, strlen(csv), error))
      return FALSE;
  }
  g_autofree char *text = o->json ? validation_json(v) : validation_text(v, o->rows);
  fputs(text, stdout);
  return TRUE;
}

int main(int argc, char **argv)
{
  Options o = { 0 };
  GError *error = NULL;

  gsl_set_error_handler_off();
  g_set_prgname("tdp-validate");
  if (read_options(&argc, &argv, &o, &error) && run(argv + 1, &o, &error))
    return cli_finish("tdp-validate");
  return cli_fail("tdp-validate", error);
}
