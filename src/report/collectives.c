/* Each distinct communication of a step and why it takes what it takes. */
#include "report/report.h"

#include "base/table.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

#define SAME_SIZE 1e-3

typedef struct {
  const char *purpose, *detail; /* detail NULL = several */
  Collective what;
  double bytes;
  GroupShape group;
  CollectiveCost cost;
  gint64 count; /* that the critical row takes part in */
} Use;

typedef struct {
  const Cluster *cluster;
  GArray *uses;    /* Use, in order of first appearance */
} Walk;

/* What a task's communication is for; passes name the ops inside them, by axis. */
static const char *const purposes[TASK_KIND_COUNT] = {
  [TASK_SEND] = "between stages",
  [TASK_GATHER] = "parameters",
  [TASK_REDUCE] = "gradients",
  [TASK_OUTPUTS] = "outputs",
  [TASK_TIED] = "tied embedding",
  [TASK_COPIES] = "gradients of copies",
  [TASK_VOCAB] = "output layer",
  [TASK_NORM] = "gradient norm",
};

static const char *const axis_purposes[] = {
  [AXIS_TENSOR] = "tensor parallel",
  [AXIS_CONTEXT] = "context parallel",
  [AXIS_EXPERT] = "expert parallel",
};

/* Sizes that read the same are the same. */
static gboolean alike(const Use *a, const Use *b)
{
  return a->purpose == b->purpose && a->what == b->what && fabs(a->bytes - b->bytes) <= SAME_SIZE * a->bytes &&
         memcmp(&a->group, &b->group, sizeof a->group) == 0;
}

static void add_use(Walk *w, Use use)
{
  for (guint i = 0; i < w->uses->len; i++) {
    Use *known = &g_array_index(w->uses, Use, i);
    if (!alike(known, &use))
      continue;
    known->count += use.count;
    if (known->detail && g_strcmp0(known->detail, use.detail) != 0)
      known->detail = NULL;
    return;
  }
  g_array_append_val(w->uses, use);
}

static void add_op(Walk *w, const PassOp *described, gint64 count)
{
  const Op *op = &described->op;

  if (op->kind == OP_COLLECTIVE && op->collective.group.size > 1)
    add_use(w, (Use) { .purpose = axis_purposes[op->collective.axis], .detail = op->name,
                       .what = op->collective.what, .bytes = op->collective.bytes, .group = op->collective.group,
                       .cost = described->cost, .count = count });
}

static void add_segment(Walk *w, const Segment *s, gint64 count)
{
  for (guint pass = 0; s->passes && pass < s->passes->len; pass++) {
    const GArray *ops = g_array_index(s->passes, LayerPass, pass).ops;
    for (guint i = 0; i < ops->len; i++)
      add_op(w, &g_array_index(ops, PassOp, i), count);
  }
  if (s->kind != TASK_PASS && s->group.size > 1)
    add_use(w, (Use) { .purpose = purposes[s->kind], .what = s->collective, .bytes = s->comm_bytes, .group = s->group,
                       .cost = s->cost, .count = count });
}

/* How often the critical row takes part in each segment, in the norm with all others; -1 = no row runs it. */
static gint64 *count_segments(const Trace *t, int row)
{
  gint64 *count = g_new(gint64, t->segments->len);

  for (guint i = 0; i < t->segments->len; i++)
    count[i] = -1;
  for (guint i = 0; i < t->spans->len; i++) {
    const Span *s = &g_array_index(t->spans, Span, i);
    count[s->segment] = MAX(count[s->segment], 0) + (s->row == row || s->kind == TASK_NORM);
  }
  return count;
}

/* The longest in all first; else in order of appearance. */
static int by_time(gconstpointer a, gconstpointer b)
{
  const Use *x = a, *y = b;
  double difference = y->count * y->cost.seconds - x->count * x->cost.seconds;

  return (difference > 0) - (difference < 0);
}

/* "16, 8 a node": how many ranks, and how many of them share a node. */
static char *group_text(const Cluster *c, const GroupShape *g)
{
  int tier = c->network_tier;
  int near = group_ranks_of_node(g, tier);
  const char *node = tier > 0 && c->tiers[tier - 1].devices > c->devices_per_node ? "domain" : "node";

  if (near >= g->size)
    return g_strdup_printf("%d in a %s", g->size, node);
  return g_strdup_printf("%d, %d a %s", g->size, near, node);
}

static void add_row(Table *table, const Cluster *c, const Use *u)
{
  g_autofree char *rate = format_count(u->cost.bus_bytes_per_s);

  if (u->detail)
    table_add(table, "%s: %s", u->purpose, u->detail);
  else
    table_add(table, "%s", u->purpose);
  table_add(table, "%s", collective_names[u->what]);
  table_take(table, format_bytes(u->bytes));
  table_take(table, group_text(c, &u->group));
  table_add(table, "%s", u->cost.algorithm ? u->cost.algorithm : "-");
  table_take(table, format_seconds(u->cost.seconds));
  table_add(table, "%sB/s|%s%s", rate, u->cost.runner_up ? u->cost.runner_up : "-",
            u->cost.runner_up_lacking ? " *" : "");
  table_take(table, u->cost.runner_up ? format_seconds(u->cost.runner_up_s) : g_strdup("-"));
  table_add(table, "%" G_GINT64_FORMAT, u->count);
  table_take(table, format_seconds(u->count * u->cost.seconds));
}

static char *table_of(const Walk *w)
{
  g_autoptr(Table) table = table_new("<for|<kind|size|<group|<algorithm|time|bus|<runner-up|its time|a step|in all");

  gboolean lacking = FALSE;
  int others = 0;
  for (guint i = 0; i < w->uses->len; i++) {
    const Use *use = &g_array_index(w->uses, Use, i);
    others += use->count == 0;
    if (use->count == 0)
      continue;
    add_row(table, w->cluster, use);
    lacking = lacking || use->cost.runner_up_lacking;
  }
  g_autofree char *rows = table_text(table, 0);
  GString *text = g_string_new(table_rows(table) > 0 ? rows : "");
  if (lacking)
    g_string_append(text, "* this cluster's library does not have it, so it is not used (hierarchical_collectives)\n");
  if (others > 0)
    g_string_append_printf(text, "not shown: %d in which the critical stage takes no part\n", others);
  return g_string_free(text, FALSE);
}

/* All of a trace, the longest first. */
static GArray *uses_of(const Result *result, const Trace *trace)
{
  GArray *uses = g_array_new(FALSE, FALSE, sizeof(Use));
  g_autofree gint64 *count = count_segments(trace, result->metrics.critical_row);
  Walk w = { result->cluster, uses };

  /* rows of a mixed cluster differ: those of the critical row's devices alone */
  for (guint i = 0; i < trace->segments->len; i++)
    if (count[i] >= (result->cluster->n_types > 0))
      add_segment(&w, &g_array_index(trace->segments, Segment, i), count[i]);
  g_array_sort(uses, by_time);
  return uses;
}

char *report_collectives(const Result *result, const Trace *trace)
{
  g_autoptr(GArray) uses = uses_of(result, trace);
  const Walk w = { result->cluster, uses };

  return uses->len > 0 ? table_of(&w) : g_strdup("no communication\n");
}

static void write_use(JsonWriter *w, const Use *u)
{
  json_open(w, NULL, '{');
  json_put_string(w, "for", u->purpose);
  if (u->detail)
    json_put_string(w, "operator", u->detail);
  json_put_string(w, "kind", collective_names[u->what]);
  json_put_real(w, "bytes", u->bytes);
  json_put_int(w, "ranks", u->group.size);
  if (u->cost.algorithm)
    json_put_string(w, "algorithm", u->cost.algorithm);
  json_put_real(w, "seconds", u->cost.seconds);
  json_put_real(w, "bus_bytes_per_s", u->cost.bus_bytes_per_s);
  if (u->cost.runner_up) {
    json_put_string(w, "runner_up", u->cost.runner_up);
    json_put_real(w, "runner_up_s", u->cost.runner_up_s);
    json_put_bool(w, "runner_up_lacking", u->cost.runner_up_lacking);
  }
  json_put_int(w, "count", u->count);
  json_close(w, '}');
}

void report_collectives_write(const Result *result, const Trace *trace, JsonWriter *w)
{
  g_autoptr(GArray) uses = uses_of(result, trace);

  json_open(w, "communication", '[');
  for (guint i = 0; i < uses->len; i++)
    write_use(w, &g_array_index(uses, Use, i));
  json_close(w, ']');
}

void report_explain_write(const Result *result, const Trace *trace, JsonWriter *w)
{
  g_autofree char *text = report_explain(result, trace);
  g_auto(GStrv) lines = g_strsplit(g_strchomp(text), "\n", -1);

  json_put_strings(w, "why", (const char *const *)lines, g_strv_length(lines));
  report_collectives_write(result, trace, w);
}
