/* Case files: the CSV, its columns, and of a few rows the run that they describe, simulated where it is small. */
#include "fuzz.h"

#include "../program_check.h"
#include "sim/simulate.h"
#include "validate/case.h"

enum { ROWS = 3, PASSES_MOST = 256 };

static void run(const Case *c)
{
  const Layout layout = layout_of(&c->plan);
  g_autoptr(PriceTable) prices = price_table_new(c->model, &layout, c->cluster);
  g_autoptr(Program) program = program_new(c->model, &layout, c->cluster, prices);
  GError *error = NULL;

  program_check(program, &error);
  g_assert_no_error(error);
  g_autoptr(Trace) trace = simulate(program);
  g_assert(trace->end_s > 0);
}

static void read_row(const Csv *csv, int row)
{
  GError *error = NULL;
  g_autofree char *skipped = NULL;
  Case c;
  gboolean ok = case_init(&c, csv, row, (OpenChoice) { 0 }, &skipped, &error);

  fuzz_judge(ok, &error);
  if (ok && !skipped && plan_stages(&c.plan) * (gint64)plan_micro_batches(&c.plan) <= PASSES_MOST)
    run(&c);
  g_free(case_defaulted(&c));
  case_clear(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  GError *error = NULL;

  fuzz_serve(data, size, NULL);
  g_autofree char *text = fuzz_text(data, size);
  g_autoptr(Csv) csv = csv_parse(text, "input", &error);
  fuzz_judge(csv != NULL, &error);
  gboolean known = csv && case_check_columns(csv, &error);
  if (csv)
    fuzz_judge(known, &error);
  for (int row = 0; known && row < MIN((int)csv->rows->len, ROWS); row++)
    read_row(csv, row);
  return 0;
}
