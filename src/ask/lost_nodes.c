/* What to run while nodes are away, and how many to keep in reserve: the best plan of each number of nodes. */
#include "ask/question.h"

#include "base/units.h"
#include "sim/simulate.h"
#include "training/spares.h"

#include <math.h>

#define CANDIDATES 24    /* plans of the whole cluster that are cut down to fewer nodes */
#define BATCH_OFF 0.1    /* that a step may have fewer or more sequences than were asked for */
#define REPLICAS_OFF 8   /* of so many pipelines, one may idle for the others to be dealt what the plan needs */
#define CUTS_LEAVE 0.05  /* of what the nodes left should do: where cuts leave more undone, plans are searched for */
#define UNLIKELY 0.01    /* rows end where more nodes are away less often, */
#define ROWS_LEAST 4
#define ROWS_MOST 24     /* or at so many */

static const AnswerColumn columns[] = {
  { "lost", "lost", CELL_INT }, { "nodes", "nodes", CELL_INT }, { "more_lost", "P(more lost)", CELL_SHARE },
  { "same_change", "same plan", CELL_PERCENT }, { "change", "best plan", CELL_PERCENT },
  { "iteration_s", "step", CELL_SECONDS }, { "global_batch_size", "batch", CELL_INT },
  { "moved_s", "time to move states", CELL_SECONDS }, { "spare_waits_change", "that many spares: waiting", CELL_PERCENT },
  { "spare_change", "that many spares: replanning", CELL_PERCENT }, { "plan", "<plan", CELL_TEXT },
};

/* A plan cut down to some nodes. */
typedef struct {
  Plan plan;
  Metrics metrics;
  double tokens_per_s; /* 0: none */
} Cut;

typedef struct {
  Cut same, best;
} Row;

/* Some replicas of the plan's model, with as many of its micro-batches for each as come nearest to the batch and the
 * schedule can have. */
static gboolean deal(const Asked *q, Plan *plan, int dp, int model, Cluster *used)
{
  double batch = q->options->base->global_batch, at_once = (double)dp * plan->micro_batch, each = batch / at_once;

  plan->dp = dp;
  plan->gpus = dp * model;
  if (!cluster_resize(used, plan->gpus, NULL))
    return FALSE;
  for (int off = 0; off <= ceil(each * BATCH_OFF); off++)
    for (int sign = -1; sign <= 1; sign += 2) {
      double sequences = at_once * MAX(round(each) + sign * off, 1);
      if (fabs(sequences / batch - 1) > BATCH_OFF || sequences > G_MAXINT)
        continue;
      plan->global_batch = (int)sequences;
      if (plan_check(plan, q->model, used, NULL) == RULE_NONE)
        return TRUE;
    }
  return FALSE;
}

/* The most replicas on so many devices that the plan can have. */
static gboolean cut_down(const Asked *q, const Plan *plan, const Cluster *cluster, Plan *out, Cluster *used)
{
  int model = plan->gpus / plan->dp, most = cluster->devices / model;

  for (int dp = most; dp > 0 && dp >= most - MAX(most / REPLICAS_OFF, 1); dp--) {
    *out = *plan;
    *used = *cluster;
    if (deal(q, out, dp, model, used))
      return TRUE;
  }
  return FALSE;
}

static Cut try_plan(const Asked *q, const Plan *plan, const Cluster *cluster)
{
  Cut cut = { .tokens_per_s = 0 };
  Cluster used;

  if (!cut_down(q, plan, cluster, &cut.plan, &used))
    return cut;
  g_autoptr(Trace) trace = simulate_plan(q->model, &used, &cut.plan);
  trace_metrics(trace, &cut.metrics);
  if (cut.metrics.peak_memory_bytes <= cut.metrics.capacity_bytes)
    cut.tokens_per_s = (double)cut.plan.global_batch * cut.plan.seq / cut.metrics.iteration_s;
  return cut;
}

static void search_batch(const Asked *q, int devices, double batch, Cut *best)
{
  SearchOptions options = *q->options;
  Plan base = *options.base;
  Found found;

  if (!(batch > 0) || fabs(batch / base.global_batch - 1) > BATCH_OFF)
    return;
  base.global_batch = (int)batch;
  options.base = &base;
  if (!ask_best(q->model, q->cluster, &options, devices, &found))
    return;
  double rate = batch * found.plan.seq / found.metrics.iteration_s;
  if (rate > best->tokens_per_s)
    *best = (Cut) { found.plan, found.metrics, rate };
}

/* Batches near the one asked for that divide over the devices, or over as large a part of them as can be. */
static void search_anew(const Asked *q, int devices, Cut *best)
{
  double batch = q->options->base->global_batch;

  for (int part = 1; part <= devices; part *= 2) {
    double unit = (double)devices / part, below = floor(batch / unit) * unit, above = ceil(batch / unit) * unit;
    if (devices % part != 0)
      return;
    if (fmin(fabs(below - batch), fabs(above - batch)) > BATCH_OFF * batch)
      continue;
    search_batch(q, devices, below, best);
    if (above > below)
      search_batch(q, devices, above, best);
    return;
  }
}

/* Whether plans of the whole cluster that are cut down do much less than the devices left could. */
static gboolean cuts_leave(const Row *row, const Row *whole, int devices, int all)
{
  return row->best.tokens_per_s < (1 - CUTS_LEAVE) * whole->best.tokens_per_s * devices / all;
}

static Row row_of(const Asked *q, const SearchResult *found, const Plan *recommended, const Row *whole, int lost)
{
  Cluster cluster = *q->cluster;
  Row row = { .same.tokens_per_s = 0 };

  if (!cluster_resize(&cluster, (q->cluster->nodes - lost) * q->cluster->devices_per_node, NULL))
    return row;
  row.best = row.same = try_plan(q, recommended, &cluster);
  for (guint i = 0; i < found->best->len && !stop_asked(q->options->stop); i++) {
    Cut cut = try_plan(q, &g_array_index(found->best, Found, i).plan, &cluster);
    if (cut.tokens_per_s > row.best.tokens_per_s)
      row.best = cut;
  }
  if (whole && cuts_leave(&row, whole, cluster.devices, q->cluster->devices) && !stop_asked(q->options->stop))
    search_anew(q, cluster.devices, &row.best);
  return row;
}

static gboolean same_shape(const Plan *a, const Plan *b)
{
  return a->tp == b->tp && a->pp == b->pp && a->vpp == b->vpp && a->cp == b->cp && a->ep == b->ep &&
         a->zero == b->zero && a->schedule == b->schedule;
}

/* At most: each device is sent all that it then holds of weights and the optimizer, or what ZeRO divides anew where
 * the model is divided as before. */
static double moved_s(const Cluster *c, const Plan *before, const Cut *after)
{
  gboolean same = same_shape(before, &after->plan);
  double bytes = same && after->plan.zero == 0 ? 0 : after->metrics.memory[PART_OPTIMIZER];

  if (!same || after->plan.zero >= 3)
    bytes += after->metrics.memory[PART_WEIGHTS];
  return before->dp == after->plan.dp && same ? 0 : bytes / c->tiers[c->network_tier].bytes_per_s;
}

/* ---- reserve ---- */

static double load_of(const Asked *q, double nodes)
{
  const Operations *o = q->operations;

  return nodes * q->cluster->devices_per_node / o->failure_device_s * o->node_share * o->node_repair_s;
}

/* Tokens a second over a long time if the job has all nodes but `spares`, and waits or is planned anew when more are
 * away; then each node that comes back stops it once more. Away for repair are those of all nodes. */
static double waiting_rate(const Asked *q, const Row *rows, int spares)
{
  return rows[spares].best.tokens_per_s * (1 - spares_wait(spares, load_of(q, q->cluster->nodes - spares)));
}

static double replanned_rate(const Asked *q, const Row *rows, int n, int spares)
{
  const Operations *o = q->operations;
  double load = load_of(q, q->cluster->nodes), sum = 0;
  double returns = o->node_repair_s > 0 ? load / o->node_repair_s * (spares > 0 ? away_more(spares - 1, load) : 1) : 0;

  for (int away = 0; away < n; away++)
    sum += away_just(away, load) * rows[MAX(away, spares)].best.tokens_per_s;
  sum += away_more(n - 1, load) * rows[n - 1].best.tokens_per_s; /* seldom: as the last row */
  return sum * MAX(1 - returns * o->restart_s, 0);
}

static int rows_of(const Asked *q)
{
  int n = 0, most = MIN(ROWS_MOST, q->cluster->nodes - 1);

  while (n < most && (n < ROWS_LEAST || away_more(n, load_of(q, q->cluster->nodes)) > UNLIKELY))
    n++;
  return n + 1;
}

static void add(Answer *a, const Asked *q, const Row *rows, int n, int lost)
{
  double whole = rows[0].best.tokens_per_s;
  const Row *row = &rows[lost];
  gboolean any = row->best.tokens_per_s > 0;
  g_autofree char *label = any ? plan_label(&row->best.plan) : g_strdup("-");

  answer_add(a, lost);
  answer_add(a, q->cluster->nodes - lost);
  answer_add(a, away_more(lost, load_of(q, q->cluster->nodes)));
  answer_add(a, row->same.tokens_per_s > 0 ? row->same.tokens_per_s / whole - 1 : NAN);
  answer_add(a, any ? row->best.tokens_per_s / whole - 1 : NAN);
  answer_add(a, any ? row->best.metrics.iteration_s : NAN);
  answer_add(a, any ? row->best.plan.global_batch : NAN);
  answer_add(a, any ? moved_s(q->cluster, &rows[0].best.plan, &row->best) : NAN);
  answer_add(a, waiting_rate(q, rows, lost) / whole - 1);
  answer_add(a, replanned_rate(q, rows, n, lost) / whole - 1);
  answer_add_text(a, label);
}

static void say(GString *says, const Asked *q, const SearchResult *found)
{
  double away = load_of(q, q->cluster->nodes), repair_s = q->operations->node_repair_s;

  g_string_printf(says, "%s on %d nodes of %s.", q->model->name, q->cluster->nodes, q->cluster->name);
  if (away > 0) {
    g_autofree char *between = format_seconds(repair_s / away), *gone = format_seconds(repair_s);
    g_string_append_printf(says, " A node fails every %s and is away for %s, so %.2g of %d are away on average.",
                           between, gone, away, q->cluster->nodes);
  }
  g_string_append_printf(says, " The columns give the loss of tokens a second compared with the whole cluster: \"same "
                               "plan\" is the recommended plan with fewer replicas, \"best plan\" the best of the %u plans "
                               "that were tried, or of all where these do much less than the nodes that are left "
                               "could.",
                         found->best->len);
}

/* How many nodes are best kept in reserve, by one of the two. */
static void say_best(GString *says, const Asked *q, const Row *rows, int n)
{
  int wait = 0, replan = 0;

  for (int i = 1; i < n; i++) {
    wait = waiting_rate(q, rows, i) > waiting_rate(q, rows, wait) ? i : wait;
    replan = replanned_rate(q, rows, n, i) > replanned_rate(q, rows, n, replan) ? i : replan;
  }
  double whole = rows[0].best.tokens_per_s;
  g_string_append_printf(says, " Over a long time a job that waits for nodes does best with %d spare (%.1f %% of the full "
                               "rate), a job that is planned again with %d (%.1f %%).",
                         wait, 100 * waiting_rate(q, rows, wait) / whole, replan,
                         100 * replanned_rate(q, rows, n, replan) / whole);
}

Answer *answer_lost_nodes(const Asked *q)
{
  Answer *a = answer_new(columns, G_N_ELEMENTS(columns));
  SearchOptions options = *q->options;
  Row rows[ROWS_MOST + 1];
  int n = rows_of(q), done = 0;

  if (stop_heard(q->options->stop)) {
    g_string_append(a->says, "Stopped before any plan that fits was found.");
    return a;
  }
  if (q->cluster->nodes < 2 || q->cluster->network_tier < 0) {
    g_string_append(a->says, "The cluster is one node: none can be lost.");
    return a;
  }
  options.top = CANDIDATES;
  options.tie = ask_tie(&options);
  g_autoptr(SearchResult) found = search(q->model, q->cluster, &options, NULL);
  if (found->best->len == 0) {
    g_string_append(a->says, found->halted ? "Stopped before any plan that fits was found." : "No plan fits.");
    return a;
  }
  for (; done < n && !stop_asked(q->options->stop); done++)
    rows[done] = row_of(q, found, &ask_recommended(found, options.tie)->plan, done > 0 ? rows : NULL, done);
  if (done == 0) {
    g_string_append(a->says, "Stopped before any number of nodes was looked at.");
    return a;
  }
  for (int i = done - 2; i >= 0; i--) /* with more nodes some may idle */
    if (rows[i].best.tokens_per_s < rows[i + 1].best.tokens_per_s)
      rows[i].best = rows[i + 1].best;
  say(a->says, q, found);
  say_best(a->says, q, rows, done);
  for (int i = 0; i < done; i++)
    add(a, q, rows, done, i);
  if (stop_heard(q->options->stop))
    g_string_append(a->says, ANSWER_STOPPED);
  return a;
}
