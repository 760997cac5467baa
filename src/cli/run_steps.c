#include "cli/run_steps.h"

#include "base/table.h"
#include "base/units.h"

#include <math.h>

#define WITHHELD_MAX 0.03 /* of an undisturbed step */

static const ExecStep *step_at(const GArray *steps, guint i)
{
  return &g_array_index(steps, RunStep, i).step;
}

StepMeans run_step_means(const GArray *steps)
{
  StepMeans m = { .withheld = -1 };
  double withheld = 0;

  for (guint i = steps->len > 1; i < steps->len; i++) {
    const ExecStep *s = step_at(steps, i);
    m.mean_s += s->step_s;
    withheld += s->withheld;
    m.all++;
    if (s->withheld <= WITHHELD_MAX) {
      m.undisturbed_s += s->step_s;
      m.undisturbed++;
    }
  }
  m.mean_s /= m.all;
  m.undisturbed_s /= MAX(m.undisturbed, 1);
  if (step_at(steps, 0)->withheld >= 0)
    m.withheld = withheld / m.all;
  return m;
}

static char *means_text(const StepMeans *m)
{
  g_autofree char *mean = format_seconds(m->mean_s), *undisturbed = format_seconds(m->undisturbed_s);

  if (m->withheld < 0 || m->undisturbed == m->all)
    return g_strdup("");
  if (m->undisturbed == 0)
    return g_strdup_printf("mean    %s; processors were withheld in each step, %.1f %% of the time\n", mean,
                           100 * m->withheld);
  return g_strdup_printf("mean    %s; %s over the %d of %d steps in which processors were not withheld\n", mean,
                         undisturbed, m->undisturbed, m->all);
}

/* Columns that a run may lack. */
typedef struct {
  gboolean withheld, scaled;
} Columns;

static Columns columns_of(const GArray *steps)
{
  const ExecStep *first = steps->len > 0 ? step_at(steps, 0) : NULL;

  return (Columns) { first && first->withheld >= 0, first && first->loss_scale > 0 };
}

static void add_step(Table *table, guint number, const ExecStep *s, Columns columns, double tokens)
{
  table_add(table, "%u|%.6f|%.6f", number, s->loss, s->grad_norm);
  if (columns.scaled)
    table_add(table, "%g%s", s->loss_scale, s->skipped ? ", skipped" : "");
  table_take(table, format_seconds(s->step_s));
  table_take(table, format_count(tokens / s->step_s));
  if (columns.withheld)
    table_add(table, "%.1f %%", 100 * s->withheld);
}

static int skipped_steps(const GArray *steps)
{
  int n = 0;

  for (guint i = 0; i < steps->len; i++)
    n += step_at(steps, i)->skipped;
  return n;
}

static char *skipped_text(const GArray *steps)
{
  int n = skipped_steps(steps);

  if (n == 0)
    return g_strdup("");
  return g_strdup_printf("skipped %d of %u steps, whose gradients were not finite\n", n, steps->len);
}

char *run_steps_text(const GArray *steps, double tokens)
{
  Columns columns = columns_of(steps);
  g_autofree char *head = g_strconcat("step|loss|gradient norm", columns.scaled ? "|loss scale" : "", "|time|tokens/s",
                                      columns.withheld ? "|withheld" : "", NULL);
  g_autoptr(Table) table = table_new(head);

  for (guint i = 0; i < steps->len; i++)
    add_step(table, i + 1, step_at(steps, i), columns, tokens);
  g_autofree char *text = table_text(table, 0);
  if (steps->len == 0)
    return g_steal_pointer(&text);
  const StepMeans m = run_step_means(steps);
  g_autofree char *means = means_text(&m), *skipped = skipped_text(steps);
  return g_strconcat(text, means, skipped, NULL);
}

/* What overflowed is left out: JSON has no such number. */
static void put_finite(JsonWriter *w, const char *key, double value)
{
  if (isfinite(value))
    json_put_real(w, key, value);
}

static void write_step(const RunStep *run, JsonWriter *w)
{
  const ExecStep *s = &run->step;

  json_open(w, NULL, '{');
  put_finite(w, "loss", s->loss);
  put_finite(w, "grad_norm", s->grad_norm);
  if (s->loss_scale > 0) {
    json_put_real(w, "loss_scale", s->loss_scale);
    json_put_bool(w, "skipped", s->skipped);
  }
  json_put_real(w, "step_s", s->step_s);
  if (s->withheld >= 0)
    json_put_real(w, "withheld", s->withheld);
  if (run->reference_s > 0)
    json_put_real(w, "reference_s", run->reference_s);
  json_close(w, '}');
}

static void write_moved(const ExecStep *s, JsonWriter *w)
{
  json_open(w, "moved", '{');
  for (int kind = 0; kind < TASK_KIND_COUNT; kind++) {
    const ExecMoved *moved = &s->moved[kind];
    if (moved->tasks == 0)
      continue;
    json_open(w, task_kind_names[kind], '{');
    json_put_int(w, "tasks", moved->tasks);
    json_put_int(w, "differing", moved->differing);
    json_put_real(w, "elements", moved->elements);
    json_put_real(w, "expected", moved->expected);
    json_close(w, '}');
  }
  json_close(w, '}');
  json_put_int(w, "remade_blocks", s->remade);
  json_put_int(w, "remade_blocks_expected", s->remade_expected);
}

void run_steps_write(const GArray *steps, gboolean means, JsonWriter *w)
{
  json_open(w, "steps", '[');
  for (guint i = 0; i < steps->len; i++)
    write_step(&g_array_index(steps, RunStep, i), w);
  json_close(w, ']');
  if (columns_of(steps).scaled)
    json_put_int(w, "skipped_steps", skipped_steps(steps));
  if (!means)
    return;
  const StepMeans m = run_step_means(steps);
  write_moved(step_at(steps, steps->len - 1), w);
  json_put_real(w, "mean_step_s", m.mean_s);
  if (m.withheld < 0)
    return;
  json_put_real(w, "withheld", m.withheld);
  json_put_int(w, "undisturbed_steps", m.undisturbed);
  if (m.undisturbed > 0)
    json_put_real(w, "undisturbed_step_s", m.undisturbed_s);
}
