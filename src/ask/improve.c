#include "ask/improve.h"

#include "ask/notes.h"
#include "base/units.h"
#include "report/answer.h"

#include <math.h>

#define CHANGES_SHOWN 8
#define CHANGE_WIDTH 60 /* of a table */
#define LINE_WIDTH 100

static const AnswerColumn columns[] = {
  { "change", "<change", CELL_TEXT },        { "iteration_s", "step", CELL_SECONDS },
  { "against_own", "against your plan", CELL_PERCENT }, { "peak_memory_bytes", "memory", CELL_BYTES },
  { NULL, "<of a device's", CELL_TEXT },     { "fit_probability", "P(fits)", CELL_SHARE },
};

static Result result_for(const Improvement *m, const Plan *plan, const Metrics *metrics)
{
  Result r = result_of_metrics(m->model, m->cluster, plan, metrics);

  result_estimate(&r, m->accuracy);
  return r;
}

static Result result_own(const Improvement *m)
{
  Result r = result_for(m, m->plan, &m->near->metrics);

  r.parts = m->near->parts;
  return r;
}

/* Seconds that changes are compared with. */
static double own_s(const Improvement *m)
{
  return m->near->fits ? m->near->metrics.iteration_s : INFINITY;
}

static void add_row(const Improvement *m, Answer *a, const char *change, const Plan *plan, const Metrics *metrics)
{
  const Result r = result_for(m, plan, metrics);
  g_autofree char *room = format_bytes(cluster_whole_bytes(m->cluster, metrics->capacity_bytes));

  answer_add_text(a, change);
  answer_add(a, metrics->iteration_s);
  answer_add(a, isfinite(own_s(m)) ? metrics->iteration_s / own_s(m) - 1 : NAN);
  answer_add(a, metrics->peak_memory_bytes);
  answer_add_text(a, room);
  answer_add(a, r.estimate.fit_probability);
}

static Answer *table_of(const Improvement *m, const GArray *list, guint most)
{
  Answer *a = answer_new(columns, G_N_ELEMENTS(columns));

  for (guint i = 0; i < MIN(list->len, most); i++) {
    const Nearby *n = &g_array_index(list, Nearby, i);
    add_row(m, a, n->change, &n->plan, &n->metrics);
  }
  return a;
}

static Answer *best_of(const Improvement *m, const char *change)
{
  const Found *best = &m->found->robust;
  Answer *a = answer_new(columns, G_N_ELEMENTS(columns));

  add_row(m, a, *change ? change : "none", &best->plan, &best->metrics);
  return a;
}

/* ---- text ---- */

static void append_lines(GString *text, const char *title, const GPtrArray *lines)
{
  if (lines->len > 0)
    g_string_append_printf(text, "%s\n", title);
  for (guint i = 0; i < lines->len; i++)
    g_string_append_printf(text, "  %s\n", (const char *)lines->pdata[i]);
}

/* With the options that say it, in brackets; the caller frees it. */
static GPtrArray *assumed_lines(const Launch *l)
{
  GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);

  for (guint i = 0; i < l->assumed->len; i++) {
    const char *line = l->assumed->pdata[i], *option = l->options->pdata[i];
    g_ptr_array_add(lines, option ? g_strdup_printf("%s (%s)", line, option) : g_strdup(line));
  }
  return lines;
}

static void append_answer(GString *text, const char *title, const Answer *a)
{
  g_autofree char *rows = answer_text(a);
  g_string_append_printf(text, "\n%s\n%s", title, rows);
}

static void append_measured(const Improvement *m, GString *text)
{
  const Launch *l = m->launch;

  if (!l || (l->measured_s <= 0 && l->measured_bytes <= 0))
    return;
  if (l->measured_s > 0) {
    g_autofree char *step = format_seconds(l->measured_s);
    double error = 100 * (m->near->metrics.iteration_s / l->measured_s - 1);
    g_string_append_printf(text, "measured  %s, the median of the log's steps: predicted %+.1f %%\n", step, error);
  }
  if (l->measured_bytes > 0) {
    g_autofree char *bytes = format_bytes(l->measured_bytes);
    g_string_append_printf(text, "measured  %s allocated at the peak of the fullest rank\n", bytes);
  }
}

static void append_own(const Improvement *m, GString *text)
{
  g_string_append(text, "\nThe plan of the file\n");
  if (m->refused) {
    g_autofree char *label = plan_label(m->plan);
    g_string_append_printf(text, "plan      %s\nrefused   %s\n", label, m->refused);
    return;
  }
  const Result r = result_own(m);
  g_autofree char *summary = report_summary(&r), *excluded = note_excluded(m->model, m->cluster, m->plan);
  g_string_append(text, summary);
  append_measured(m, text);
  if (excluded)
    g_string_append_printf(text, "note      %s\n", excluded);
}

static void append_near(const Improvement *m, GString *text)
{
  g_autoptr(Answer) alone = table_of(m, m->near->changes, CHANGES_SHOWN);
  g_autoptr(Answer) few = table_of(m, m->near->path, NEARBY_CHANGES);

  if (m->near->changes->len == 0)
    g_string_append_printf(text, "\nNo single change %s%s.\n", m->near->fits ? "makes the plan faster" : "makes it run",
                           m->found->halted ? ", of those tried before the stop" : "");
  else
    append_answer(text, m->near->fits ? "One change" : "One change that makes it run", alone);
  if (m->near->path->len > 1)
    append_answer(text, m->near->changes->len > 0 || m->near->fits ? "A few changes, each with those above it"
                        : "A few changes that make it run, each with those above it", few);
}

/* A list of changes that is too wide for a table, on lines of its own. */
static void append_changes(GString *text, const char *list)
{
  g_auto(GStrv) changes = g_strsplit(list, ", ", -1);
  glong width = LINE_WIDTH;

  for (int i = 0; changes[i]; i++) {
    glong length = g_utf8_strlen(changes[i], -1) + 2;
    gboolean breaks = width + length > LINE_WIDTH;
    g_string_append_printf(text, "%s%s%s", i == 0 ? "" : breaks ? ",\n" : ", ", breaks ? "  " : "", changes[i]);
    width = breaks ? length : width + length;
  }
  g_string_append_c(text, '\n');
}

static void append_best(const Improvement *m, GString *text)
{
  const SearchResult *found = m->found;

  if (found->best->len == 0) {
    g_string_append(text, found->halted ? "\nStopped before any plan of the space that fits was found.\n"
                                        : "\nNo plan of the space fits.\n");
    return;
  }
  g_autofree char *change = nearby_change(m->plan, &found->robust.plan);
  gboolean wide = g_utf8_strlen(change, -1) > CHANGE_WIDTH;
  g_autoptr(Answer) best = best_of(m, wide ? "all of these" : change);
  g_autofree char *label = plan_label(&found->robust.plan);
  g_autofree char *of = found->halted ? g_strdup("by then")
                                      : g_strdup_printf("of the %" G_GINT64_FORMAT " of the search", found->space);
  g_autofree char *title = g_strdup_printf("The best plan %s: %s", of, label);
  g_autofree char *rows = answer_text(best);
  g_string_append_printf(text, "\n%s\n", title);
  if (wide)
    append_changes(text, change);
  g_string_append(text, rows);
}

static void append_why(GString *text, const char *of, const Result *r, const Trace *trace)
{
  g_autofree char *why = report_explain(r, trace), *comm = report_collectives(r, trace);
  g_string_append_printf(text, "\nWhy: %s\n%s\nCommunication: %s\n%s", of, why, of, comm);
}

static Result result_chosen(const Improvement *m)
{
  Metrics metrics;

  trace_metrics(m->changed, &metrics);
  return result_for(m, m->chosen, &metrics);
}

static void append_whys(const Improvement *m, GString *text)
{
  if (m->own) {
    const Result r = result_own(m);
    append_why(text, "the plan of the file", &r, m->own);
  }
  if (m->changed) {
    const Result r = result_chosen(m);
    append_why(text, m->chose, &r, m->changed);
  }
}

char *improvement_text(const Improvement *m)
{
  const Launch *l = m->launch;
  GString *text = g_string_new(NULL);
  const Found *best = m->found->best->len ? &m->found->robust : NULL;

  g_string_append_printf(text, "read      %s: %s\n", m->file, l ? l->title : "plan file");
  if (!m->refused || best) {
    const Result r = m->refused ? result_for(m, &best->plan, &best->metrics) : result_own(m);
    g_autofree char *inputs = report_inputs(&r);
    g_string_append(text, inputs);
  }
  if (l) {
    g_autoptr(GPtrArray) assumed = assumed_lines(l);
    append_lines(text, "\nTaken for granted", assumed);
    append_lines(text, "\nNot known, and left alone", l->unknown);
  }
  append_own(m, text);
  append_near(m, text);
  append_best(m, text);
  append_whys(m, text);
  if (l) {
    append_lines(text, "\nNot simulated, though time or memory may feel it", l->not_simulated);
    append_lines(text, "\nNo effect on time or memory", l->ignored);
  }
  return g_string_free(text, FALSE);
}

/* ---- JSON ---- */

static void write_lines(JsonWriter *w, const char *key, const GPtrArray *lines)
{
  json_put_strings(w, key, (const char *const *)lines->pdata, lines->len);
}

static void write_launch(const Launch *l, JsonWriter *w)
{
  g_autoptr(GPtrArray) assumed = assumed_lines(l);

  json_put_string(w, "kind", l->title);
  if (l->measured_s > 0)
    json_put_real(w, "measured_s", l->measured_s);
  if (l->measured_bytes > 0)
    json_put_real(w, "measured_memory_bytes", l->measured_bytes);
  write_lines(w, "assumed", assumed);
  write_lines(w, "ignored", l->ignored);
  write_lines(w, "not_simulated", l->not_simulated);
  write_lines(w, "unknown", l->unknown);
}

static void write_why(JsonWriter *w, const char *key, const Result *r, const Trace *trace)
{
  json_open(w, key, '{');
  report_explain_write(r, trace, w);
  json_close(w, '}');
}

static void write_whys(const Improvement *m, JsonWriter *w)
{
  if (m->own) {
    const Result r = result_own(m);
    write_why(w, "explain_own", &r, m->own);
  }
  if (m->changed) {
    const Result r = result_chosen(m);
    write_why(w, "explain", &r, m->changed);
  }
}

void improvement_write(const Improvement *m, JsonWriter *w)
{
  g_autoptr(Answer) alone = table_of(m, m->near->changes, G_MAXUINT);
  g_autoptr(Answer) few = table_of(m, m->near->path, NEARBY_CHANGES);

  json_open(w, NULL, '{');
  json_put_string(w, "schema", "tdp-plan-improve-1");
  json_put_string(w, "file", m->file);
  json_put_string(w, "model", m->model->name);
  json_put_string(w, "cluster", m->cluster->name);
  if (m->launch)
    write_launch(m->launch, w);
  if (m->refused) {
    json_put_string(w, "refused", m->refused);
    plan_write(m->plan, w, "plan");
  } else {
    const Result r = result_own(m);
    g_autofree char *excluded = note_excluded(m->model, m->cluster, m->plan);
    result_write(&r, NULL, w, "own");
    if (excluded) {
      json_open(w, "notes", '[');
      json_put_string(w, NULL, excluded);
      json_close(w, ']');
    }
  }
  answer_write(alone, w, "changes");
  answer_write(few, w, "few_changes");
  if (m->found->best->len > 0) {
    const Result r = result_for(m, &m->found->robust.plan, &m->found->robust.metrics);
    result_write(&r, NULL, w, "best");
  }
  write_whys(m, w);
  json_put_bool(w, "complete", !m->found->halted);
  json_close(w, '}');
}
