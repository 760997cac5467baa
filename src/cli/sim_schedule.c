#include "cli/sim_schedule.h"

#include "base/error.h"
#include "cli/drawn.h"
#include "cli/say.h"
#include "report/page.h"
#include "report/schedule_trace.h"
#include "schedule/table.h"

#include <stdio.h>
#include <string.h>

#define MICRO_USUAL 2    /* micro-batches for each stage, if not given */
#define PASSES_MAX 2e6   /* of all ranks */
#define STAGES_MAX 1024  /* ranks, and chunks of each: a trace counts them in 16 bits */
#define VOCABULARY 0.5   /* of a forward: a rank's share of the output layer, and its gradients */

typedef struct {
  const Schedule *schedule;
  ScheduleTable *table; /* owned; NULL = not from a file */
  ScheduleShape shape;
  double times[PASS_COUNT];
  Replay *replay;
  Trace *trace;
  double *bubbles; /* of the ranks */
} Drawn;

static gboolean find(Drawn *d, const char *name, GError **error)
{
  d->schedule = schedule_find(name);
  if (d->schedule)
    return TRUE;
  if (strpbrk(name, "./")) {
    d->table = schedule_table_load(name, error);
    d->schedule = d->table ? &d->table->schedule : NULL;
    return d->table != NULL;
  }
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  for (int i = 0; schedules[i]; i++)
    g_ptr_array_add(names, (char *)schedules[i]->name);
  g_ptr_array_add(names, NULL);
  g_autofree char *hint = names_hint((const char *const *)names->pdata, name);
  return input_error(error, "--schedule: %s: expected a schedule or a schedule file: %s", name, hint);
}

static gboolean read_times(Drawn *d, const char *text, GError **error)
{
  double *const out[] = { &d->shape.forward, &d->shape.input, &d->shape.weight };
  g_auto(GStrv) parts = g_strsplit(text ? text : "1,1,1", ",", -1);
  gboolean ok = g_strv_length(parts) == G_N_ELEMENTS(out);

  for (gsize i = 0; ok && i < G_N_ELEMENTS(out); i++) {
    char *end;
    *out[i] = g_ascii_strtod(parts[i], &end);
    ok = end != parts[i] && *end == '\0' && *out[i] > 0 && *out[i] <= 1e6;
  }
  if (!ok)
    input_error(error,
                "--times: %s: expected three numbers above 0, as in 1,1,1: forward, input gradient, weight gradient",
                text);
  return ok;
}

static int given(int value, int usual)
{
  return value > 0 ? value : usual;
}

static gboolean make_shape(Drawn *d, const ScheduleOptions *o, GError **error)
{
  const ScheduleTable *t = d->table;

  d->shape.table = t;
  d->shape.ranks = t ? t->ranks : o->stages;
  d->shape.chunks = t ? t->chunks : given(o->chunks, MAX(d->schedule->min_chunks, 1));
  d->shape.micro = t ? t->micro : given(o->micro, MICRO_USUAL * MIN(o->stages, STAGES_MAX));
  if (t && (o->stages > 0 || o->chunks > 0 || o->micro > 0))
    return input_error(error,
                       "--schedule: %s: expected without --stages, --chunks and --micro-batches, which the file says",
                       t->name);
  if (d->shape.ranks <= 0)
    return input_error(error, "--stages: missing: expected how many, as in --stages 4");
  if (d->shape.ranks > STAGES_MAX || d->shape.chunks > STAGES_MAX)
    return input_error(error, "--stages: %d of %d chunks: expected at most %d of %d", d->shape.ranks, d->shape.chunks,
                       STAGES_MAX, STAGES_MAX);
  if ((double)d->shape.ranks * d->shape.chunks * d->shape.micro * 2 > PASSES_MAX)
    return input_error(error,
                       "--micro-batches: %d: expected fewer: with %d stages of %d chunks at most %g passes are drawn",
                       d->shape.micro, d->shape.ranks, d->shape.chunks, PASSES_MAX);
  return schedule_check(d->schedule, &d->shape, error);
}

static void run(Drawn *d)
{
  shape_times(&d->shape, d->times);
  d->times[PASS_LOGITS] = d->times[PASS_VOCAB] = VOCABULARY * d->times[PASS_FORWARD];
  d->replay = schedule_replay(d->schedule, &d->shape, d->times, 1);
  d->trace = schedule_trace(d->replay);
  d->bubbles = trace_bubbles(d->trace);
}

/* Idle share of the ranks. */
static double bubble(const Drawn *d)
{
  double idle = 0;

  for (int row = 0; row < d->trace->n_rows; row++)
    idle += d->bubbles[row];
  return idle / d->trace->n_rows;
}

static Table *ranks_table(const Drawn *d)
{
  Table *t = table_new("rank|<stages of its chunks|idle|most activations held");

  for (int rank = 0; rank < d->shape.ranks; rank++) {
    g_autoptr(GString) stages = g_string_new(NULL);
    for (int chunk = 0; chunk < d->shape.chunks; chunk++)
      g_string_append_printf(stages, "%s%d", chunk ? ", " : "",
                             schedule_stage(d->schedule, &d->shape, rank, chunk));
    table_add(t, "%d|%s|%.1f %%|%.4g", rank, stages->str, 100 * d->bubbles[rank],
              d->replay->peak[rank] / (double)d->shape.chunks);
  }
  return t;
}

static char *heading(const Drawn *d)
{
  return g_strdup_printf("%s: %d stages, %d micro-batches", d->table ? d->table->name : d->schedule->title,
                         d->shape.ranks, d->shape.micro);
}

static char *says(const Drawn *d)
{
  return g_strdup_printf("%d chunk%s on each rank; a rank's forward takes %g, its input gradient %g, its weight "
                         "gradient %g, transfers nothing.\nAll passes end at %g; ranks idle %.1f %%. Activations are "
                         "counted in micro-batches of a whole rank.",
                         d->shape.chunks, d->shape.chunks == 1 ? "" : "s", d->times[PASS_FORWARD], d->times[PASS_INPUT],
                         d->times[PASS_WEIGHT], d->replay->makespan, 100 * bubble(d));
}

static void print_json(const Drawn *d)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "schema", "tdp-sim-schedule-1");
  json_put_string(&w, "schedule", d->schedule->name);
  json_put_int(&w, "stages", d->shape.ranks);
  json_put_int(&w, "chunks", d->shape.chunks);
  json_put_int(&w, "micro_batches", d->shape.micro);
  json_put_real(&w, "makespan", d->replay->makespan);
  json_put_real(&w, "bubble_fraction", bubble(d));
  json_open(&w, "ranks", '[');
  for (int rank = 0; rank < d->shape.ranks; rank++) {
    json_open(&w, NULL, '{');
    json_put_int(&w, "rank", rank);
    json_put_real(&w, "bubble_fraction", d->bubbles[rank]);
    json_put_real(&w, "peak_activations", d->replay->peak[rank] / (double)d->shape.chunks);
    json_close(&w, '}');
  }
  json_close(&w, ']');
  json_close(&w, '}');
  printf("%s\n", text->str);
}

static gboolean write_page(const Drawn *d, const char *path, GError **error)
{
  g_autofree char *title = heading(d), *text = says(d);
  g_autoptr(Page) page = page_new(title, text);
  g_autoptr(Table) ranks = ranks_table(d);

  page_timeline(page, "The schedule", d->trace, 0);
  page_table(page, "Ranks", NULL, ranks);
  return page_write(page, path, error);
}

static void print_text(const Drawn *d, gboolean in_pixels)
{
  g_autofree char *title = heading(d), *text = says(d);
  g_autoptr(Table) ranks = ranks_table(d);
  g_autofree char *rows = table_text(ranks, 0);

  say("%s\n%s\n\n", title, text);
  if (in_pixels)
    drawn_schedule(d->trace, title, "");
  else
    drawn_timeline(d->trace);
  say("\n%s", rows);
}

static gboolean deliver(const Drawn *d, gboolean json, const char *report, const char *plots, GError **error)
{
  if (report && !write_page(d, report, error))
    return FALSE;
  if (plots && !drawn_asked(plots)) {
    g_autofree char *title = heading(d), *text = says(d);
    if (!report_schedule_plot(d->trace, title, g_strdelimit(text, "\n", ' '), plots, 0, error))
      return FALSE;
  }
  if (json)
    print_json(d);
  else
    print_text(d, drawn_asked(plots));
  return TRUE;
}

gboolean sim_schedule(const ScheduleOptions *o, gboolean json, const char *report, const char *plots,
                      GError **error)
{
  Drawn d = { 0 };
  gboolean ok = find(&d, o->schedule, error) && read_times(&d, o->times, error) && make_shape(&d, o, error);

  if (ok) {
    run(&d);
    ok = deliver(&d, json, report, plots, error);
  }
  g_free(d.bubbles);
  g_clear_pointer(&d.trace, trace_free);
  g_clear_pointer(&d.replay, replay_free);
  g_clear_pointer(&d.table, schedule_table_free);
  return ok;
}
