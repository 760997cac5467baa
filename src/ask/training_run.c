/* A whole training run on the best plan: days, failures, money and energy. */
#include "ask/training_run.h"

#include "base/units.h"
#include "cost/offload.h"
#include "op/op.h"
#include "report/training.h"

#include <math.h>

static const AnswerColumn columns[] = {
  { "quantity", NULL, CELL_TEXT }, { NULL, "<", CELL_TEXT }, { "value", NULL, CELL_REAL }, { "low", NULL, CELL_REAL },
  { "high", NULL, CELL_REAL }, { NULL, "expected", CELL_TEXT }, { NULL, "80 % between", CELL_TEXT },
};

static gboolean best_plan(const Asked *q, const Cluster *cluster, Found *out, gboolean *halted)
{
  SearchOptions o = *q->options;
  Plan base = *o.base;

  base.gpus = cluster->devices;
  o.base = &base;
  o.top = 1;
  o.tie = ask_tie(&o);
  g_autoptr(SearchResult) found = search(q->model, cluster, &o, NULL);
  *halted = found->halted;
  if (found->best->len == 0)
    return FALSE;
  *out = *ask_recommended(found, o.tie);
  return TRUE;
}

/* What is trained: weights and what the optimizer keeps, each once. */
static double checkpoint_bytes(const Model *model, const Layout *layout)
{
  return adapter_trained(&layout->passes.adapter, model) * op_checkpoint_bytes(&layout->states[0]);
}

/* A rank's part of a checkpoint, to host memory; where that is not known, as fast as the device's link. */
static double copy_s(const Cluster *cluster, const StateLayout *states, double bytes)
{
  double seconds = host_copy_s(cluster, states, STORE_CPU, FALSE, bytes);

  return isfinite(seconds) ? seconds : bytes / cluster->device.host_bytes_per_s;
}

/* Of a device to where a checkpoint outlives its node: storage, or the memory of another node. */
static double safe_bytes_per_s(const Operations *o, const Cluster *c)
{
  return o->neighbour_checkpoints && c->network_tier > 0 ? c->tiers[c->network_tier].bytes_per_s
                                                         : o->storage_bytes_per_s;
}

/* Copied to the hosts while the steps wait, written from there beside the steps that follow. */
static void plan_campaign(Run *r)
{
  const Operations *o = &r->operations;
  const Cluster *cluster = r->cluster;
  const Layout *layout = &r->result.layout;
  double devices = layout->mesh.ranks, each = r->checkpoint_bytes / devices;
  Campaign *c = &r->campaign;

  *c = (Campaign) { .steps = ceil(r->tokens / r->result.tokens), .step_s = r->result.metrics.iteration_s,
                    .planned_per_s = o->planned_per_s };
  if (r->result.accuracy) {
    c->step_low_s = r->result.estimate.low_s;
    c->step_high_s = r->result.estimate.high_s;
  }
  c->interruptions = (Interruptions) { .between_s = o->failure_device_s / devices,
                                       .restart_s = o->detect_s + o->restart_s,
                                       .copy_s = copy_s(cluster, &layout->states[0], each),
                                       .safe_s = each / safe_bytes_per_s(o, cluster) };
  c->whole_low = o->whole_low;
  c->whole_high = o->whole_high;
  c->spares = o->spares;
  c->node_share = o->node_share;
  c->repair_s = o->node_repair_s;
  c->between_low_s = o->failure_device_low_s / devices;
  c->between_high_s = o->failure_device_high_s / devices;
  c->slow_share = o->slow_share;
  c->slow_share_low = o->slow_share_low;
  c->slow_share_high = o->slow_share_high;
  c->interval_s = interval_best_s(&c->interruptions);
}

/* In steps that last, slow or not. */
static double lasting_s(const CampaignRun *run)
{
  return run->spent_s[SPENT_STEPS] + run->spent_s[SPENT_SLOW];
}

double run_goodput(const Run *r)
{
  return lasting_s(&r->summary.mean) / r->summary.mean.total_s;
}

/* Devices of spare nodes. */
static double spare_devices(const Run *r)
{
  return MAX(r->operations.spares, 0) * (double)r->cluster->devices_per_node;
}

double run_gpu_hours(const Run *r)
{
  return r->summary.mean.total_s * (r->result.layout.mesh.ranks + spare_devices(r)) / HOUR;
}

double run_usd(const Run *r)
{
  return run_gpu_hours(r) * r->cluster->usd_per_device_hour;
}

/* Of a device over a step: computing up to its limit, waiting what it draws under any limit. */
static double step_w(const Run *r, double exchange_w)
{
  const Metrics *m = &r->result.metrics;
  double computing = (m->compute_s + m->optimizer_s) / m->iteration_s;
  double computing_w = cluster_power_w(r->cluster) * r->operations.training_power_share;

  return computing * computing_w + (1 - computing) * MIN(exchange_w, computing_w);
}

double run_joules(const Run *r)
{
  const Operations *o = &r->operations;
  const CampaignRun *mean = &r->summary.mean;
  double own_w = cluster_rated_power_w(r->cluster), idle_w = own_w * o->waiting_power_share;
  double exchange_w = own_w * (o->exchange_power_share > 0 ? o->exchange_power_share : o->training_power_share);
  double working = mean->spent_s[SPENT_STEPS] + mean->spent_s[SPENT_LOST], slow = mean->spent_s[SPENT_SLOW];
  double host_j = mean->total_s * o->host_w, average_w = step_w(r, exchange_w);
  double slow_w = MIN(exchange_w, average_w); /* most devices wait for few */
  double device_j = working * average_w + slow * slow_w + (mean->total_s - working - slow) * idle_w + host_j;
  double spare_j = mean->total_s * idle_w + host_j;

  return own_w > 0 ? o->pue * (r->result.layout.mesh.ranks * device_j + spare_devices(r) * spare_j) : 0;
}

RunEnd run_of(const Asked *q, const Cluster *cluster, Run *r, gboolean *halted)
{
  Found best;

  *r = (Run) { .cluster = cluster };
  return best_plan(q, cluster, &best, halted) ? run_with(q, cluster, &best, r) : RUN_NO_PLAN;
}

RunEnd run_with(const Asked *q, const Cluster *cluster, const Found *best, Run *r)
{
  *r = (Run) { .model = q->model, .cluster = cluster, .tokens = q->tokens, .operations = *q->operations,
                .best = *best };
  r->result = result_of_metrics(q->model, cluster, &r->best.plan, &r->best.metrics);
  result_estimate(&r->result, q->accuracy);
  r->checkpoint_bytes = checkpoint_bytes(q->model, &r->result.layout);
  plan_campaign(r);
  return campaign_summary(&r->campaign, &r->summary) ? RUN_ENDS : RUN_ENDLESS;
}

void run_free(gpointer run)
{
  Run *r = run;

  g_free((gpointer)r->cluster);
  g_free(r);
}

Run *run_on(const Asked *q, const Cluster *changed, int devices)
{
  Cluster *cluster = g_memdup2(changed, sizeof *changed);
  Run *r = g_new(Run, 1);
  gboolean halted = FALSE;

  *r = (Run) { .cluster = cluster };
  if (cluster_resize(cluster, devices, NULL) && run_of(q, cluster, r, &halted) == RUN_ENDS)
    return r;
  run_free(r);
  return NULL;
}

/* ---- rows ---- */

typedef char *(*Shown)(double value);

static char *shown_integer(double value)
{
  return format_integer((gint64)round(value));
}

static char *shown_amount(double value)
{
  return value >= 10 ? shown_integer(value) : g_strdup_printf("%.2g", value);
}

static char *shown_share(double value)
{
  return g_strdup_printf("%.1f %%", 100 * value);
}

typedef struct {
  const char *key, *title; /* in JSON, with the unit; for people */
  Shown shown;
} Quantity;

static const Quantity days = { "days", "days", shown_amount }, gpu_hours = { "gpu_hours", "GPU-hours", shown_integer },
                      usd = { "usd", "USD", shown_integer }, energy = { "energy_mwh", "MWh", shown_amount },
                      carbon = { "co2_t", "t CO2", shown_amount },
                      share = { "goodput", "goodput", shown_share },
                      failures = { "failures", "failures", shown_integer },
                      size = { "checkpoint_bytes", "checkpoint", format_bytes },
                      kept = { "stored_bytes", "  of those kept at once", format_bytes },
                      written = { "written_bytes", "  written in all", format_bytes },
                      interval = { "checkpoint_interval_s", "  one every", format_seconds },
                      young = { "young_interval_s", "  by Young's formula", format_seconds },
                      daly = { "daly_interval_s", "  by Daly's formula", format_seconds };

static const Quantity failed[FAILURE_COUNT] = {
  [FAILURE_GPU] = { "failures_gpu", "  of GPUs", shown_amount },
  [FAILURE_GPU_MEMORY] = { "failures_gpu_memory", "  of their memory", shown_amount },
  [FAILURE_HOST] = { "failures_host", "  of hosts", shown_amount },
  [FAILURE_NETWORK] = { "failures_network", "  of switches and cables", shown_amount },
  [FAILURE_SOFTWARE] = { "failures_software", "  of software", shown_amount },
};

/* Shares of the time. */
static const Quantity spent[SPENT_COUNT] = {
  [SPENT_STEPS] = { "steps_share", "time in steps at full speed", shown_share },
  [SPENT_SLOW] = { "slow_share", "  lost to slow devices and links", shown_share },
  [SPENT_COPIES] = { "copies_share", "time copying checkpoints", shown_share },
  [SPENT_LOST] = { "lost_share", "time in steps lost and repeated", shown_share },
  [SPENT_RESTARTS] = { "restarts_share", "time detecting and restarting", shown_share },
  [SPENT_WAITING] = { "waiting_share", "time waiting for nodes", shown_share },
  [SPENT_PLANNED] = { "planned_share", "time in planned stops", shown_share },
};

/* With what eight of ten runs have, if that is known. */
static void add(Answer *a, const Quantity *q, double value, double low, double high)
{
  g_autofree char *text = q->shown(value), *from = isfinite(low) ? q->shown(low) : NULL,
                  *to = isfinite(low) ? q->shown(high) : NULL;
  g_autofree char *between = from ? g_strdup_printf("%s and %s", from, to) : g_strdup("");

  answer_add_text(a, q->key);
  answer_add_text(a, q->title);
  answer_add(a, value);
  answer_add(a, low);
  answer_add(a, high);
  answer_add_text(a, text);
  answer_add_text(a, between);
}

static void add_known(Answer *a, const Quantity *q, double value)
{
  add(a, q, value, NAN, NAN);
}

/* What follows from the time alone: in proportion to it. */
static void add_timed(Answer *a, const Run *r, const Quantity *q, double of_mean)
{
  const CampaignSummary *s = &r->summary;
  double low = s->total_low_s / s->mean.total_s, high = s->total_high_s / s->mean.total_s;

  add(a, q, of_mean, of_mean * low, of_mean * high);
}

static void add_costs(Answer *a, const Run *r)
{
  add_timed(a, r, &days, r->summary.mean.total_s / DAY);
  add_timed(a, r, &gpu_hours, run_gpu_hours(r));
  if (run_usd(r) > 0)
    add_timed(a, r, &usd, run_usd(r));
  if (run_joules(r) > 0)
    add_timed(a, r, &energy, run_joules(r) / MWH);
  if (run_joules(r) * r->operations.grid_kg_per_j > 0)
    add_timed(a, r, &carbon, run_joules(r) * r->operations.grid_kg_per_j / 1000);
}

static void add_checkpoints(Answer *a, const Run *r)
{
  int kept_at_once = r->operations.checkpoints_kept;
  double in_all = fmax(1, ceil(lasting_s(&r->summary.mean) / r->campaign.interval_s)); /* the end is written too */

  add_known(a, &size, r->checkpoint_bytes);
  add_known(a, &kept, r->checkpoint_bytes * (kept_at_once > 0 ? MIN(kept_at_once, in_all) : in_all));
  add_known(a, &written, r->checkpoint_bytes * in_all);
}

static void add_interruptions(Answer *a, const Run *r)
{
  const CampaignSummary *s = &r->summary;
  const Campaign *c = &r->campaign;
  const double *parts = r->operations.failure_share;

  add_known(a, &share, run_goodput(r));
  add(a, &failures, s->failures_mean, s->failures_low, s->failures_high);
  for (int i = 0; i < FAILURE_COUNT; i++)
    if (parts[i] > 0)
      add_known(a, &failed[i], s->failures_mean * parts[i]);
  add_checkpoints(a, r);
  add_known(a, &interval, c->interval_s);
  add_known(a, &young, interval_young_s(&c->interruptions));
  add_known(a, &daly, interval_daly_s(&c->interruptions));
  for (int i = 0; i < SPENT_COUNT; i++)
    if (i != SPENT_WAITING || r->operations.spares >= 0)
      add_known(a, &spent[i], s->mean.spent_s[i] / s->mean.total_s);
}

static void say(GString *says, const Run *r)
{
  const CampaignSummary *s = &r->summary;
  const Operations *o = &r->operations;
  g_autofree char *label = plan_label(r->result.plan), *step = result_step_text(&r->result);
  g_autofree char *whole = shown_amount(s->mean.total_s / DAY);
  g_autofree char *tokens = format_count(r->tokens), *steps = format_integer((gint64)r->campaign.steps);

  g_string_append_printf(says, "%s on %s tokens with %d devices of %s: %s steps of %s. %s days, %.1f %% of them in steps "
                               "that are not lost to failures.\n", r->model->name, tokens, r->result.layout.mesh.ranks,
                         r->cluster->name, steps, step, whole,
                         100 * run_goodput(r));
  g_string_append_printf(says, "plan: %s\n", label);
  g_string_append_printf(says, "Assumed: one failure per %.0f GPU-hours (%.0f to %.0f), %.0f minutes to restart, "
                               "checkpoints %s while steps run. Change these with --operations.\n",
                         o->failure_device_s / HOUR, o->failure_device_low_s / HOUR, o->failure_device_high_s / HOUR,
                         (o->detect_s + o->restart_s) / 60,
                         o->neighbour_checkpoints ? "sent to other nodes' memory" : "written");
  if (o->spares >= 0)
    g_string_append_printf(says, "%d nodes are spare and paid for too; %.0f %% of the failures take a node away, for %.0f "
                                 "hours.\n", o->spares, 100 * o->node_share, o->node_repair_s / HOUR);
  if (r->cluster->usd_per_device_hour <= 0)
    g_string_append(says, "Cost: " TRAINING_NO_PRICE ".\n");
}

Answer *answer_training(const Asked *q)
{
  gboolean halted;
  Run r;

  if (q->jobs)
    return answer_training_jobs(q);
  if (q->vary)
    return answer_training_varied(q);
  if (q->from > 0)
    return answer_training_counts(q);
  Answer *a = answer_new(columns, G_N_ELEMENTS(columns));
  RunEnd end = run_of(q, q->cluster, &r, &halted);
  if (end == RUN_NO_PLAN) {
    g_string_append(a->says, halted ? "Stopped before any plan that fits was found." : "No plan fits.");
    return a;
  }
  if (halted)
    g_string_append(a->says, "Stopped before all plans were looked at: what follows is of the best so far.\n");
  if (end == RUN_ENDLESS) {
    g_string_append_printf(a->says, "The training does not end: %d devices fail every %.0f s, and it takes %.0f s until "
                                    "steps run again.", r.result.layout.mesh.ranks, r.campaign.interruptions.between_s,
                           r.campaign.interruptions.restart_s);
    return a;
  }
  say(a->says, &r);
  add_costs(a, &r);
  add_interruptions(a, &r);
  return a;
}
