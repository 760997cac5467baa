/*
 * Does anybody's published layout beat our answer? bench/published FILE.csv...
 *
 * For each row of case files that is simulated and fits: the planner is asked for the row's model, cluster, GPUs,
 * batch, sequence, formats and framework with all memory of the device, and what it finds is held against the row's
 * own layout as simulated. Prints each layout that is faster than what was found, both plans, and how many were
 * looked at; exit 1 if one was faster, 2 if none could be looked at.
 */
#include "plan/keys.h"
#include "search/search.h"
#include "sim/simulate.h"
#include "validate/case.h"
#include "validate/unstated.h"

#include <stdio.h>

#define ROUNDING 1e-9

typedef struct {
  int rows, skipped, misfits, beaten, nothing;
} Counts;

static gboolean simulated(const Case *c, double *seconds)
{
  const Layout layout = layout_of(&c->plan);
  g_autoptr(PriceTable) prices = price_table_new(c->model, &layout, c->cluster);
  g_autoptr(Program) program = program_new(c->model, &layout, c->cluster, prices);
  g_autoptr(Trace) trace = simulate(program);
  Metrics metrics;

  trace_metrics(trace, &metrics);
  *seconds = metrics.iteration_s;
  return metrics.peak_memory_bytes <= metrics.capacity_bytes;
}

/* What the row's owner would ask: all that is not the planner's to choose is the row's. */
static Plan question_of(const Case *c)
{
  Plan base = plan_given(c->model, &c->plan);

  base.attention = c->plan.attention;
  return base;
}

/* What one plan says and the other does not, by key. */
static void print_differences(const Plan *theirs, const Plan *ours)
{
  const Plan *const plans[2] = { theirs, ours };
  char **lines[2];

  for (int i = 0; i < 2; i++) {
    JsonWriter w;
    g_autoptr(GString) text = g_string_new(NULL);
    json_writer_init(&w, text);
    plan_write_all(plans[i], &w, NULL);
    lines[i] = g_strsplit(text->str, "\n", -1);
  }
  for (int i = 0; lines[0][i]; i++)
    if (!g_strv_contains((const char *const *)lines[1], lines[0][i]))
      printf("   %s", lines[0][i]);
  printf("\n");
  g_strfreev(lines[0]);
  g_strfreev(lines[1]);
}

static void compare(const Case *c, const char *id, double published_s, Counts *counts)
{
  const Plan base = question_of(c);
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1, .refine = TRUE };
  g_autoptr(SearchResult) found = search(c->model, c->cluster, &options, NULL);
  const Found *best = found->best->len ? &g_array_index(found->best, Found, 0) : NULL;

  counts->nothing += !best;
  if (best && best->metrics.iteration_s <= published_s * (1 + ROUNDING))
    return;
  g_autofree char *theirs = plan_label(&c->plan), *ours = best ? plan_label(&best->plan) : g_strdup("nothing fits");
  counts->beaten++;
  printf("%s: published %.4f s: %s\n  found %.4f s: %s\n", id, published_s, theirs,
         best ? best->metrics.iteration_s : 0, ours);
  if (best)
    print_differences(&c->plan, &best->plan);
  fflush(stdout);
}

/* The row with what it leaves open as light as it needs to be to fit. */
static void look_at(const Csv *csv, int row, Counts *counts)
{
  gboolean fits = FALSE, again = TRUE;

  for (int steps = 0; again && !fits; steps++) {
    Case c;
    g_autofree char *skipped = NULL;
    double seconds;
    gboolean read = case_init(&c, csv, row, (OpenChoice) { .steps = steps }, &skipped, NULL) && !skipped;

    again = FALSE;
    if (read) {
      fits = simulated(&c, &seconds);
      again = !fits && unstated_lighten(&c, 1);
      if (fits)
        compare(&c, csv_cell(csv, row, "id"), seconds, counts);
    } else {
      counts->skipped++;
    }
    counts->misfits += read && !fits && !again;
    case_clear(&c);
  }
  counts->rows++;
}

int main(int argc, char **argv)
{
  Counts counts = { 0 };

  for (int i = 1; i < argc; i++) {
    GError *error = NULL;
    g_autoptr(Csv) csv = csv_load(argv[i], &error);
    if (!csv || !case_check_columns(csv, &error)) {
      fprintf(stderr, "published: %s\n", error->message);
      return 2;
    }
    for (int row = 0; row < (int)csv->lines->len; row++)
      look_at(csv, row, &counts);
  }
  printf("%d rows: %d not simulated, %d that do not fit, %d questions without an answer, %d layouts faster than ours\n",
         counts.rows, counts.skipped, counts.misfits, counts.nothing, counts.beaten);
  if (counts.skipped == counts.rows) {
    fprintf(stderr, "published: expected rows that can be simulated, and the models and clusters that they name\n");
    return 2;
  }
  return counts.beaten > 0;
}
