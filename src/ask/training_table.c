/* Whole training runs beside one another: on several numbers of GPUs, on a cluster with other numbers. */
#include "ask/training_run.h"

#include "base/error.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DAY 86400.0
#define MWH 3.6e9

/* ---- numbers of the cluster ---- */

typedef struct VaryKey {
  const char *name, *unit;
  void (*set)(Cluster *cluster, double value);
  gboolean (*can)(const Cluster *cluster, double value); /* NULL = always */
} VaryKey;

static void set_memory(Cluster *c, double gib)
{
  c->device.memory_bytes = gib * GIB * (1 - c->memory_margin);
}

static void set_memory_rate(Cluster *c, double gb_per_s)
{
  c->device.memory_bytes_per_s = gb_per_s * 1e9;
}

static void set_peak(Cluster *c, double tflops)
{
  cluster_scale_peak(c, tflops * 1e12 / c->device.peak_flops_per_s[DTYPE_BF16]);
}

static void set_nvlink(Cluster *c, double gb_per_s)
{
  tier_scale_rate(&c->tiers[0], gb_per_s * 1e9 / c->tiers[0].bytes_per_s);
}

static void set_network(Cluster *c, double gbit_per_s)
{
  double factor = gbit_per_s / 8 * 1e9 / c->tiers[c->network_tier].bytes_per_s;

  for (int t = c->network_tier; t < c->n_tiers; t++)
    tier_scale_rate(&c->tiers[t], factor);
}

static void set_domain(Cluster *c, double gpus)
{
  c->tiers[0].devices = (int)gpus;
  c->tiers[0].devices_whole = 0;
  cluster_resize(c, c->devices, NULL);
}

static gboolean has_peak(const Cluster *c, double value)
{
  (void)value;
  return c->device.peak_flops_per_s[DTYPE_BF16] > 0;
}

static gboolean has_network(const Cluster *c, double value)
{
  (void)value;
  return c->network_tier > 0;
}

/* Domains of whole nodes. */
static gboolean can_join(const Cluster *c, double gpus)
{
  return c->network_tier == 1 && gpus == floor(gpus) && fmod(gpus, c->devices_per_node) == 0;
}

static const VaryKey keys[] = {
  { "memory", "GiB", set_memory },
  { "memory_rate", "GB/s", set_memory_rate },
  { "tflops", "bf16 TFLOP/s", set_peak, has_peak },
  { "nvlink", "GB/s", set_nvlink },
  { "nvlink_domain", "GPUs", set_domain, can_join },
  { "network", "Gbit/s a GPU", set_network, has_network },
};

static const VaryKey *key_find(const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    if (g_str_equal(keys[i].name, name))
      return &keys[i];
  return NULL;
}

static gboolean refuse(GError **error, const char *text, const char *expected)
{
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "--vary: %s: expected %s", text, expected);
  return FALSE;
}

/* One list of values of a key. */
static gboolean parse_list(const char *list, const Cluster *cluster, GArray *out, GError **error)
{
  g_auto(GStrv) halves = g_strsplit(list, "=", 2);
  const VaryKey *key = halves[0] && halves[1] ? key_find(halves[0]) : NULL;

  if (!key)
    return refuse(error, list, "memory, memory_rate, tflops, nvlink, nvlink_domain or network with values, as in "
                               "memory=80,141");
  g_auto(GStrv) values = g_strsplit(halves[1], ",", -1);
  for (char **text = values; *text; text++) {
    char *end;
    Varied v = { key, g_ascii_strtod(*text, &end) };
    if (end == *text || *end != '\0' || !(v.value > 0 && v.value <= 1e6))
      return refuse(error, list, "numbers above 0 and up to a million");
    if (key->can && !key->can(cluster, v.value))
      return refuse(error, list, key->set == set_domain
                                     ? "a multiple of the node's GPUs, on a cluster of nodes and one network"
                                     : "a cluster that has it");
    g_array_append_val(out, v);
  }
  return TRUE;
}

GArray *vary_parse(char **lists, const Cluster *cluster, GError **error)
{
  g_autoptr(GArray) out = g_array_new(FALSE, FALSE, sizeof(Varied));

  if (cluster->n_types > 0 || cluster->n_tiers == 0) {
    refuse(error, cluster->name, "a cluster of alike nodes with links");
    return NULL;
  }
  for (char **list = lists; *list; list++) {
    g_auto(GStrv) words = g_strsplit(*list, " ", -1);
    for (char **word = words; *word; word++)
      if (**word && !parse_list(*word, cluster, out, error))
        return NULL;
  }
  if (out->len == 0) {
    refuse(error, "\"\"", "values, as in memory=80,141");
    return NULL;
  }
  return g_steal_pointer(&out);
}

/* ---- rows ---- */

#define RUN_COLUMNS { "days", "days", CELL_REAL }, { "usd", "USD", CELL_INT }, { "days_low", NULL, CELL_REAL }, \
                    { "days_high", NULL, CELL_REAL }, { NULL, "80 % between", CELL_TEXT }, \
                    { "gpu_hours", "GPU-hours", CELL_INT }, { "energy_mwh", "MWh", CELL_INT }, \
                    { "goodput", "goodput", CELL_SHARE }, { "iteration_s", "step", CELL_SECONDS }

static const AnswerColumn count_columns[] = {
  RUN_COLUMNS, { "gpus", "GPUs", CELL_INT }, { "front", "<front", CELL_TEXT }, { "plan", "<plan", CELL_TEXT },
};

static const AnswerColumn varied_columns[] = {
  { "number", "<number", CELL_TEXT }, RUN_COLUMNS, { "days_change", "days", CELL_PERCENT },
  { "usd_change", "USD", CELL_PERCENT }, { "plan", "<plan", CELL_TEXT },
};

static double known(double value)
{
  return value > 0 ? value : NAN;
}

static void add_run(Answer *a, const Run *r)
{
  const CampaignSummary *s = &r->summary;
  g_autofree char *between = g_strdup_printf("%.1f and %.1f", s->total_low_s / DAY, s->total_high_s / DAY);

  answer_add(a, s->mean.total_s / DAY);
  answer_add(a, known(round(run_usd(r))));
  answer_add(a, s->total_low_s / DAY);
  answer_add(a, s->total_high_s / DAY);
  answer_add_text(a, between);
  answer_add(a, round(s->mean.total_s * r->result.layout.mesh.ranks / 3600));
  answer_add(a, known(round(run_joules(r) / MWH)));
  answer_add(a, run_goodput(r));
  answer_add(a, r->result.metrics.iteration_s);
}

/* What is paid for; where there is no price, device-seconds are. */
static double paid(const Run *r)
{
  return run_usd(r) > 0 ? run_usd(r) : r->summary.mean.total_s * r->result.layout.mesh.ranks;
}

/* No other of the runs is both sooner and cheaper. */
static gboolean on_front(const GPtrArray *runs, const Run *r)
{
  for (guint i = 0; i < runs->len; i++) {
    const Run *other = runs->pdata[i];
    if (other != r && other->summary.mean.total_s <= r->summary.mean.total_s && paid(other) <= paid(r))
      return FALSE;
  }
  return TRUE;
}

/* The cheapest run that nine of ten times ends in time. */
static void say_deadline(GString *says, const GPtrArray *runs, double deadline_s)
{
  const Run *best = NULL;

  for (guint i = 0; i < runs->len; i++) {
    const Run *r = runs->pdata[i];
    if (r->summary.total_high_s <= deadline_s && (!best || paid(r) < paid(best)))
      best = r;
  }
  if (best)
    g_string_append_printf(says, " In %.4g days, nine times of ten: %d GPUs are the cheapest.", deadline_s / DAY,
                           best->result.layout.mesh.ranks);
  else
    g_string_append_printf(says, " None ends in %.4g days nine times of ten.", deadline_s / DAY);
}

static void run_free(gpointer run)
{
  Run *r = run;

  g_free((gpointer)r->cluster);
  g_free(r);
}

/* The run on so many devices of a changed cluster, that belongs to it; NULL if none ends. */
static Run *run_on(const Asked *q, const Cluster *changed, int devices)
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

Answer *answer_training_counts(const Asked *q)
{
  Answer *a = answer_new(count_columns, G_N_ELEMENTS(count_columns));
  g_autoptr(GPtrArray) runs = g_ptr_array_new_with_free_func(run_free);
  g_autofree char *tokens = format_count(q->tokens);

  g_string_printf(a->says, "%s on %s tokens, on each number of GPUs; of those on the front no other is sooner and "
                           "cheaper.", q->model->name, tokens);
  for (int gpus = q->from; gpus <= q->cluster->devices && !stop_asked(q->options->stop); gpus *= 2) {
    Run *r = run_on(q, q->cluster, gpus);
    if (r)
      g_ptr_array_add(runs, r);
    else if (!stop_heard(q->options->stop))
      g_string_append_printf(a->says, " On %d it fits no plan, or does not end.", gpus);
  }
  for (guint i = 0; i < runs->len; i++) {
    const Run *r = runs->pdata[i];
    g_autofree char *label = plan_label(r->result.plan);
    add_run(a, r);
    answer_add(a, r->result.layout.mesh.ranks);
    answer_add_text(a, on_front(runs, r) ? "yes" : "-");
    answer_add_text(a, label);
  }
  if (q->deadline_s > 0)
    say_deadline(a->says, runs, q->deadline_s);
  if (stop_heard(q->options->stop))
    g_string_append(a->says, ANSWER_STOPPED);
  return a;
}

static void add_varied(Answer *a, const char *number, const Run *r, const Run *first)
{
  g_autofree char *label = plan_label(r->result.plan);

  answer_add_text(a, number);
  add_run(a, r);
  answer_add(a, r->summary.mean.total_s / first->summary.mean.total_s - 1);
  answer_add(a, run_usd(first) > 0 ? run_usd(r) / run_usd(first) - 1 : NAN);
  answer_add_text(a, label);
}

Answer *answer_training_varied(const Asked *q)
{
  Answer *a = answer_new(varied_columns, G_N_ELEMENTS(varied_columns));
  g_autoptr(GPtrArray) runs = g_ptr_array_new_with_free_func(run_free);
  Run *first = run_on(q, q->cluster, q->cluster->devices);
  g_autofree char *tokens = format_count(q->tokens);

  g_string_printf(a->says, "%s on %s tokens with %d GPUs of %s, one number changed at a time and the best plan "
                           "searched anew; kernels are those measured on its device, prices stay.", q->model->name, tokens,
                  q->cluster->devices, q->cluster->name);
  if (!first) {
    g_string_append(a->says, " As it is it fits no plan, or does not end.");
    return a;
  }
  g_ptr_array_add(runs, first);
  add_varied(a, "as it is", first, first);
  for (guint i = 0; i < q->vary->len && !stop_asked(q->options->stop); i++) {
    const Varied *v = &g_array_index(q->vary, Varied, i);
    g_autofree char *number = g_strdup_printf("%s %g %s", v->key->name, v->value, v->key->unit);
    Cluster changed = *q->cluster;
    v->key->set(&changed, v->value);
    Run *r = run_on(q, &changed, changed.devices);
    if (r) {
      g_ptr_array_add(runs, r);
      add_varied(a, number, r, first);
    } else if (!stop_heard(q->options->stop)) {
      g_string_append_printf(a->says, " With %s it fits no plan, or does not end.", number);
    }
  }
  if (stop_heard(q->options->stop))
    g_string_append(a->says, ANSWER_STOPPED);
  return a;
}
