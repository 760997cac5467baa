#include "report/ranking.h"

#include "base/units.h"
#include "plan/describe.h"
#include "report/tables.h"

#include <math.h>

/* Columns that are there only where some plan has them. */
typedef struct {
  gboolean context, experts, estimates;
  gboolean choice[PLAN_SHOWN]; /* shown where plans differ in it */
} RankingColumns;

static RankingColumns ranking_columns(const Result *results, int n)
{
  RankingColumns c = { .estimates = n > 0 && results[0].accuracy };

  for (int k = 0; k < PLAN_SHOWN; k++) {
    const char *first = NULL;
    for (int i = 0; i < n; i++) {
      const char *own = plan_shown(results[i].plan, k);
      c.choice[k] |= first && own && !g_str_equal(first, own);
      first = first ? first : own;
    }
  }
  for (int i = 0; i < n; i++) {
    c.context |= results[i].layout.passes.cp > 1;
    c.experts |= results[i].layout.passes.experts_apart;
  }
  return c;
}

static char *choice_titles(const RankingColumns *c)
{
  GString *s = g_string_new(NULL);

  for (int k = 0; k < PLAN_SHOWN; k++)
    if (c->choice[k])
      g_string_append_printf(s, "<%s|", plan_shown_name(k));
  return g_string_free(s, FALSE);
}

static void add_degrees(Table *t, const Layout *l, const RankingColumns *c)
{
  const PassLayout *p = &l->passes;

  table_add(t, "%d|%s", p->tp, p->sequence_parallel ? "on" : "off");
  if (l->pipeline.cut.split_rank)
    table_add(t, "%d, encoder %d", l->pipeline.shape.ranks, l->pipeline.cut.split_rank);
  else
    table_add(t, "%d", l->pipeline.shape.ranks);
  table_add(t, "%d", l->pipeline.shape.chunks);
  if (c->context)
    table_add(t, "%d", p->cp);
  if (c->experts && p->etp != p->tp)
    table_add(t, "%d, etp %d", p->ep, p->etp);
  else if (c->experts)
    table_add(t, "%d", p->ep);
  table_add(t, "%d%s", l->mesh.dense[AXIS_DATA].size, l->mesh.inner ? " around pp" : "");
}

static void add_choices(Table *t, const Result *result, const RankingColumns *c)
{
  const Layout *l = &result->layout;
  const StateLayout *s = &l->states[0];
  const RecomputeLayout *r = &l->passes.recompute;
  g_autoptr(GString) scope = g_string_new(NULL);

  const char *kept = s->sharding.keeps_gathered ? " kept" : "";
  if (s->copies > 1)
    table_add(t, "%d/%d%s", s->zero, s->shards, kept);
  else
    table_add(t, "%d%s", s->zero, kept);
  table_add(t, "%d", l->passes.micro_batch);
  for (int k = 0; k < PLAN_SHOWN; k++)
    if (c->choice[k]) {
      const char *own = plan_shown(result->plan, k);
      table_add(t, "%s", own ? own : "-");
    }
  recompute_short(&r->scope, scope);
  table_add(t, "%s%s|%s", recompute_names[r->granularity], scope->str, l->pipeline.schedule->name);
}

static void add_figures(Table *t, const Result *r, const RankingColumns *c)
{
  table_take(t, format_seconds_exact(r->metrics.iteration_s));
  if (c->estimates)
    table_take(t, result_interval_text(r));
  table_add(t, "%.0f|%.1f %%|%.1f %%", r->tokens_per_s_per_gpu, 100 * r->mfu, 100 * r->metrics.bubble_fraction);
  table_take(t, format_bytes(r->metrics.peak_memory_bytes));
  if (c->estimates)
    table_add(t, "%.0f %%", 100 * r->estimate.fit_probability);
}

Table *ranking_table(const Result *results, int n)
{
  const RankingColumns c = ranking_columns(results, n);
  g_autofree char *titles = choice_titles(&c);
  g_autofree char *columns = g_strdup_printf(
      "#|tp|sp|pp|chunks|%s%sdp|zero|micro|%s<recompute|<schedule|step|%stokens/s/GPU|MFU|bubble|memory%s",
      c.context ? "cp|" : "", c.experts ? "ep|" : "", titles, c.estimates ? "80 % between|" : "",
      c.estimates ? "|P(fits)" : "");
  Table *t = table_new(columns);

  for (int i = 0; i < n; i++) {
    table_add(t, "%d", i + 1);
    add_degrees(t, &results[i].layout, &c);
    add_choices(t, &results[i], &c);
    add_figures(t, &results[i], &c);
  }
  return t;
}

char *report_ranking(const Result *results, int n)
{
  g_autoptr(Table) t = ranking_table(results, n);
  return table_text(t, 2);
}

typedef struct {
  const char *title;
  double (*seconds)(const Metrics *);
} Cause;

static double compute(const Metrics *m) { return m->compute_s; }
static double tensor(const Metrics *m) { return m->tensor_comm_s + m->context_comm_s + m->expert_comm_s; }
static double pipeline(const Metrics *m) { return m->pipeline_comm_s + m->idle_s; }
static double data(const Metrics *m) { return m->data_comm_s; }
static double optimizer(const Metrics *m) { return m->optimizer_s; }
static double offload(const Metrics *m) { return m->offload_s; }

/* The last one, waits for the host, where a plan has any. */
static const Cause causes[] = {
  { "compute", compute }, { "tp, cp, ep comm", tensor }, { "bubble, sends", pipeline },
  { "data comm", data }, { "optimizer", optimizer }, { "offload", offload },
};

/* What is shown as 0 has no sign. */
static void add_change(Table *t, double seconds)
{
  if (fabs(seconds) < 0.0005)
    table_add(t, "0.000 s");
  else
    table_add(t, "%+.3f s", seconds);
}

char *report_losses(const Result *results, int n)
{
  g_autoptr(GString) titles = g_string_new("<plan|step|lost");
  gsize shown = G_N_ELEMENTS(causes) - 1;

  for (int i = 0; i < n; i++)
    if (results[i].metrics.offload_s > 0)
      shown = G_N_ELEMENTS(causes);
  for (gsize c = 0; c < shown; c++)
    g_string_append_printf(titles, "|%s", causes[c].title);
  g_autoptr(Table) t = table_new(titles->str);
  for (int i = 0; i < n; i++) {
    const Metrics *m = &results[i].metrics, *best = &results[0].metrics;
    g_autofree char *label = plan_label(results[i].plan);
    table_add(t, "%d: %s", i + 1, label);
    table_take(t, format_seconds_exact(m->iteration_s));
    add_change(t, m->iteration_s - best->iteration_s);
    for (gsize c = 0; c < shown; c++)
      add_change(t, causes[c].seconds(m) - causes[c].seconds(best));
  }
  return table_text(t, 2);
}

char *report_bottleneck(const Result *r)
{
  const Metrics *m = &r->metrics;
  g_autofree char *step = format_seconds(m->iteration_s), *ends = result_data_adjective(r);
  GString *s = g_string_new(NULL);

  g_string_append_printf(s, "The critical stage spends its step of %s as follows: computation %.1f %%, exposed tensor, context "
                            "and expert-parallel communication %.1f %%, exposed %s communication %.1f %%, "
                            "idle and sends %.1f %%", step, 100 * m->compute_s / m->iteration_s,
                         100 * tensor(m) / m->iteration_s, ends, 100 * m->data_comm_s / m->iteration_s,
                         100 * (m->idle_s + m->pipeline_comm_s) / m->iteration_s);
  if (m->offload_s > 0)
    g_string_append_printf(s, ", exposed copies to and from the host %.1f %%", 100 * m->offload_s / m->iteration_s);
  g_string_append_printf(s, ", optimizer %.1f %%.\n", 100 * m->optimizer_s / m->iteration_s);
  return g_string_free(s, FALSE);
}

/* Which stages compute longest and least. */
static void say_balance(GString *s, const Trace *t)
{
  g_autofree double *seconds = trace_computes(t);
  int most = 0, least = 0;
  double sum = 0;

  for (int row = 0; row < t->n_rows; row++) {
    sum += seconds[row];
    most = seconds[row] > seconds[most] ? row : most;
    least = seconds[row] < seconds[least] ? row : least;
  }
  g_autofree char *longest = format_seconds(seconds[most]), *shortest = format_seconds(seconds[least]);
  g_string_append_printf(s, "Stage %d computes longest, %s, %.1f %% more than the mean stage; stage %d least, %s.\n",
                         most, longest, 100 * (seconds[most] * t->n_rows / sum - 1), least, shortest);
}

/* Seconds of each pass for a micro-batch on a mean row; FALSE if pairs shorten them. */
static gboolean mean_passes(const Result *r, const Trace *t, double seconds[PASS_COUNT])
{
  double share = 1.0 / t->n_rows / r->layout.pipeline.shape.micro;

  for (int pass = 0; pass < PASS_COUNT; pass++)
    seconds[pass] = 0;
  for (guint i = 0; i < t->spans->len; i++) {
    const Span *s = &g_array_index(t->spans, Span, i);
    if (s->paired)
      return FALSE;
    if (s->kind == TASK_PASS)
      seconds[s->pass] += (s->end - s->start) * share;
  }
  return TRUE;
}

/* The bubble beside what the order alone would leave. */
static void say_bubble(GString *s, const Result *r, const Trace *t)
{
  const PipelineLayout *pipeline = &r->layout.pipeline;
  double seconds[PASS_COUNT], busy = 0;

  g_string_append_printf(s, "Stages idle %.1f %% of the pipeline phase", 100 * r->metrics.bubble_fraction);
  g_autoptr(Replay) ideal =
      mean_passes(r, t, seconds) ? schedule_replay(pipeline->schedule, &pipeline->shape, seconds, 1) : NULL;
  for (int pass = 0; ideal && pass < PASS_COUNT; pass++)
    busy += seconds[pass] * pipeline->shape.micro;
  if (ideal)
    g_string_append_printf(s, "; with equal stages and no transfer time the schedule %s would idle %.1f %%",
                           pipeline->schedule->name, 100 * (1 - busy / ideal->makespan));
  g_string_append(s, ".\n");
}

static void say_memory(GString *s, const Result *r)
{
  const Metrics *m = &r->metrics;
  double room = m->capacity_bytes - m->peak_memory_bytes;
  int largest = 0;

  for (int part = 0; part < PART_COUNT; part++)
    largest = m->memory[part] > m->memory[largest] ? part : largest;
  g_autofree char *bytes = format_bytes(m->memory[largest]), *peak = format_bytes(m->peak_memory_bytes);
  g_autofree char *left = format_bytes(ABS(room)), *all = format_bytes(m->capacity_bytes);
  g_string_append_printf(s, "Stage %d is %s with %s, of which %s %s; ", m->peak_row, result_peak_text(r), peak,
                         memory_part_names[largest], bytes);
  g_string_append_printf(s, room >= 0 ? "%s of the usable %s are free.\n" : "%s are missing, as %s are usable.\n", left, all);
}

char *report_explain(const Result *result, const Trace *trace)
{
  GString *s = g_string_new(NULL);
  g_autofree char *bottleneck = report_bottleneck(result);

  g_string_append(s, bottleneck);
  if (trace->n_rows > 1) {
    say_balance(s, trace);
    say_bubble(s, result, trace);
  }
  say_memory(s, result);
  return g_string_free(s, FALSE);
}
