#include "search/nearby.h"

#include "plan/keys.h"
#include "plan/nearest.h"
#include "search/bound.h"
#include "search/excluded.h"
#include "search/rounds.h"
#include "search/space.h"
#include "sim/simulate.h"

#include <math.h>
#include <string.h>

/* ---- words ---- */

/* The row of a key "overlap: gradients" or "recompute_granularity"; NULL where it has none of its own. */
static const PlanKey *row_of(const char *key)
{
  const char *member = strstr(key, ": ");
  gsize object = member ? (gsize)(member - key) : 0;

  for (const PlanKey *row = plan_keys; row->field.key; row++)
    if (member ? row->object && strlen(row->object) == object && strncmp(key, row->object, object) == 0 &&
                   g_str_equal(row->field.key, member + 2)
               : !row->object && g_str_equal(row->field.key, key))
      return row;
  return NULL;
}

static const char *contrary(const char *value)
{
  return g_strcmp0(value, "true") == 0 ? "off" : g_strcmp0(value, "false") == 0 ? "on" : "-";
}

/* A value as rankings print it; a switch that is not written has the contrary of what the other plan writes. The caller
 * frees it. */
static char *word(const char *value, const char *other)
{
  if (!value)
    return g_strdup(contrary(other));
  if (g_str_equal(value, "true") || g_str_equal(value, "false"))
    return g_strdup(*value == 't' ? "on" : "off");
  g_auto(GStrv) parts = g_strsplit_set(*value == '[' ? value : "", "[]\"", -1);
  return *value == '[' ? g_strjoinv("", parts) : g_strdup(value);
}

static void say(gpointer subject, const char *key, const char *before, const char *after, const char *reason)
{
  const PlanKey *row = row_of(key);
  GString *text = subject;
  gboolean sharding = g_str_has_prefix(key, "zero_optimization: ");
  const char *name = row && row->shorter ? row->shorter : sharding ? strchr(key, ' ') + 1 : key;
  g_autofree char *old = word(before, after), *new = word(after, before);

  (void)reason;
  if (g_str_equal(key, "pipeline_schedule")) /* chunks say it */
    return;
  g_string_append_printf(text, "%s%s %s -> %s", text->len ? ", " : "", name, old, new);
}

char *nearby_change(const Plan *before, const Plan *after)
{
  GString *text = g_string_new(NULL);
  const PlanListener listener = { say, text };

  plan_compare(before, after, NULL, &listener);
  return g_string_free(text, FALSE);
}

/* ---- changes ---- */

static void propose(GArray *out, const Plan *plan)
{
  g_array_append_vals(out, plan, 1);
}

static void micro_batches(const Plan *p, GArray *out)
{
  static const int factors[] = { 2, 4, 8 };

  for (gsize i = 0; i < G_N_ELEMENTS(factors); i++) {
    Plan more = *p, less = *p;
    more.micro_batch *= factors[i];
    propose(out, &more);
    less.micro_batch /= factors[i];
    if (p->micro_batch % factors[i] == 0)
      propose(out, &less);
  }
}

static void recomputation(const Plan *p, GArray *out)
{
  for (int i = 0; i < RECOMPUTE_COUNT; i++) {
    Plan plan = *p;
    plan.recompute = i;
    plan.scope = (RecomputeScope) { 0 };
    plan.partition_activations = p->partition_activations && i == RECOMPUTE_FULL;
    propose(out, &plan);
    for (int m = 0; i == RECOMPUTE_SELECTIVE && m < p->framework->n_recompute_modules; m++) {
      plan.scope.modules = 1u << p->framework->recompute_modules[m];
      propose(out, &plan);
    }
  }
}

static void rows(const Plan *p, GArray *out)
{
  Plan plan = *p;

  plan.sequence_parallel = !p->sequence_parallel;
  plan.comm_chunks = p->comm_chunks && plan.sequence_parallel;
  plan.comm_fp8 = p->comm_fp8 && plan.comm_chunks;
  propose(out, &plan);
  plan = *p;
  plan.comm_chunks = !p->comm_chunks;
  plan.comm_fp8 = FALSE;
  plan.sequence_parallel = p->sequence_parallel || plan.comm_chunks;
  propose(out, &plan);
}

/* Equal stages, with chunks or without. */
static void set_chunks(Plan *plan, int chunks)
{
  plan->split = (LayerSplit) { 0 };
  plan->balanced = FALSE;
  plan->micro_group = 0;
  if (plan->pp > 1)
    plan_set_schedule(plan, schedule_find(chunks > 1 ? "interleaved" : "1f1b"), chunks);
  else
    plan_set_schedule(plan, schedule_find("1f1b"), 1);
}

static void chunks(const Plan *p, GArray *out)
{
  for (int n = 1; p->pp > 1 && n <= 16; n++) {
    Plan plan = *p;
    set_chunks(&plan, n);
    if (n != p->vpp)
      propose(out, &plan);
  }
}

static void shard(const Plan *p, int zero, gboolean kept, GArray *out)
{
  Plan plan = *p;

  if (zero < p->zero)
    plan_lower(&plan, zero);
  plan.zero = zero;
  plan.sharding.keeps_gathered = kept;
  if (zero >= 2)
    plan.overlap.gradients = plan.overlap.gradients || p->framework->overlap_gradients;
  if (zero == 3)
    plan.overlap.parameters = plan.overlap.parameters || p->framework->overlap_parameters;
  if (zero != p->zero || kept != p->sharding.keeps_gathered)
    propose(out, &plan);
}

static void sharding(const Plan *p, GArray *out)
{
  for (int zero = 0; zero <= p->framework->zero_max; zero++)
    shard(p, zero, FALSE, out);
  if (framework_offers(p->framework, CHOICE_RESHARD) && p->framework->zero_max == 3)
    shard(p, 3, TRUE, out);
}

static void overlaps(const Plan *p, GArray *out)
{
  const Overlap usual = framework_overlap(p->framework);
  Plan plan = *p;

  plan.overlap.gradients |= usual.gradients;
  plan.overlap.parameters |= usual.parameters;
  propose(out, &plan);
  plan = *p;
  plan.overlap.pipeline |= usual.pipeline;
  propose(out, &plan);
  plan = *p;
  plan.overlap.experts |= p->framework->shared_overlap && plan_experts_apart(p);
  propose(out, &plan);
  plan = *p;
  plan.overlap.exchange |= p->framework->exchange_overlap && plan_experts_apart(p);
  propose(out, &plan);
}

static void kernels(const Plan *p, GArray *out)
{
  Plan plan = *p;

  plan.attention = p->framework->attention;
  propose(out, &plan);
}

static void graphs(const Plan *p, GArray *out)
{
  Plan plan = *p;

  plan_set_graph(&plan, GRAPH_NONE);
  propose(out, &plan);
  plan_set_graph(&plan, GRAPH_PARTIAL);
  propose(out, &plan);
  plan.graph_modules = RECORDED_ROUTERS;
  propose(out, &plan);
  plan_set_graph(&plan, GRAPH_FULL);
  plan.dispatch = DISPATCH_HYBRID;
  if (plan_experts_apart(p) && p->framework->paged_stash)
    propose(out, &plan);
}

static void exchanges(const Plan *p, GArray *out)
{
  for (int i = 0; i < DISPATCH_COUNT; i++) {
    Plan plan = *p;
    plan.dispatch = i;
    if (plan_experts_apart(p) && p->framework->dispatch >> i & 1)
      propose(out, &plan);
  }
  for (int i = 0; i < CONTEXT_COUNT; i++) {
    Plan plan = *p;
    plan.context = i;
    if (p->cp > 1 && i != CONTEXT_BOTH && p->framework->context >> i & 1)
      propose(out, &plan);
  }
}

typedef enum { DEGREE_TP, DEGREE_PP, DEGREE_CP, DEGREE_DP, DEGREE_COUNT } Degree;

static int *degree_of(Plan *plan, Degree degree)
{
  int *const degrees[] = { &plan->tp, &plan->pp, &plan->cp, &plan->dp };
  return degrees[degree];
}

/* Half of one goes to the other. */
static void degrees(const Plan *p, GArray *out)
{
  for (int from = 0; from < DEGREE_COUNT; from++)
    for (int to = 0; to < DEGREE_COUNT; to++) {
      Plan plan = *p;
      if (from == to || *degree_of(&plan, from) % 2)
        continue;
      *degree_of(&plan, from) /= 2;
      *degree_of(&plan, to) *= 2;
      plan.sequence_parallel = plan.tp > 1 && (p->sequence_parallel || p->tp == 1);
      plan.comm_chunks = p->comm_chunks && plan.sequence_parallel;
      plan.comm_fp8 = p->comm_fp8 && plan.comm_chunks;
      if (plan.cp > 1 && p->cp == 1)
        plan.context = p->framework->context_first;
      if (plan.pp != p->pp)
        set_chunks(&plan, p->vpp > 1 && plan.pp > 1 ? p->vpp : 1);
      if (plan.etp == plan.tp)
        plan.etp = 0;
      propose(out, &plan);
    }
}

static void experts(const Plan *p, GArray *out)
{
  const int sizes[] = { p->ep * 2, p->ep % 2 ? 0 : p->ep / 2 };

  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
    Plan plan = *p;
    plan.ep = sizes[i];
    if (sizes[i] > 0 && p->framework->experts != EXPERTS_WHOLE)
      propose(out, &plan);
  }
  Plan whole = *p;
  whole.etp = p->etp == 1 || p->tp == 1 ? 0 : 1;
  propose(out, &whole);
}

static void (*const kinds[])(const Plan *plan, GArray *out) = { micro_batches, recomputation, rows, chunks, sharding,
                                                               overlaps, kernels, graphs, exchanges,
                                                               degrees, experts };

/* ---- the search ---- */

typedef struct {
  const Model *model;
  const Cluster *cluster;
  Rounds *rounds;
  Stop *stop;
} Walk;

static gboolean seen(const GArray *proposals, guint n, const Plan *plan)
{
  for (guint i = 0; i < n; i++) {
    g_autofree char *change = nearby_change(&g_array_index(proposals, Plan, i), plan);
    if (!*change)
      return TRUE;
  }
  return FALSE;
}

/* Those that may beat `least` seconds, the most promising first. */
static GArray *rank(const Walk *w, const Plan *from, double least, const GArray *proposals)
{
  GArray *ranked = g_array_new(FALSE, FALSE, sizeof(Ranked));

  for (guint i = 0; i < proposals->len && !stop_asked(w->stop); i++) {
    const Plan *plan = &g_array_index(proposals, Plan, i);
    g_autofree char *change = nearby_change(from, plan);
    if (!*change || plan_check(plan, w->model, w->cluster, NULL) != RULE_NONE ||
        excluded_newly(plan, from, w->model, w->cluster) || seen(proposals, i, plan))
      continue;
    const Layout layout = layout_of(plan);
    PriceSums *sums = price_sums_new(w->model, &layout, w->cluster);
    Ranked r = { bound_time(w->model, &layout, w->cluster, sums, NULL), i };
    price_sums_free(sums);
    if (r.bound_s < least)
      g_array_append_val(ranked, r);
  }
  g_array_sort(ranked, ranked_by_bound);
  return ranked;
}

static int by_step(gconstpointer a, gconstpointer b)
{
  double x = ((const Nearby *)a)->metrics.iteration_s, y = ((const Nearby *)b)->metrics.iteration_s;
  return (x > y) - (x < y);
}

static void nearby_clear(gpointer nearby)
{
  g_free(((Nearby *)nearby)->change);
}

static GArray *nearby_list(void)
{
  GArray *list = g_array_new(FALSE, FALSE, sizeof(Nearby));

  g_array_set_clear_func(list, nearby_clear);
  return list;
}

/* Changes of a plan that fit and take less than `least`, the best first; `leanest`: of those that do not fit the one that
 * needs least memory, if it needs less than it says. */
static GArray *changes_of(const Walk *w, const Plan *from, double least, Nearby *leanest)
{
  g_autoptr(GArray) proposals = g_array_new(FALSE, FALSE, sizeof(Plan));
  GArray *found = nearby_list();

  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    kinds[i](from, proposals);
  g_autoptr(GArray) ranked = rank(w, from, least, proposals);
  for (guint first = 0; first < ranked->len; first += ROUND) {
    Simulation tried[ROUND];
    int n = MIN(ROUND, (int)(ranked->len - first));
    for (int i = 0; i < n; i++)
      tried[i] = (Simulation) { .plan = g_array_index(proposals, Plan, g_array_index(ranked, Ranked, first + i).at) };
    rounds_run(w->rounds, tried, n);
    for (int i = 0; i < n; i++) {
      const Metrics *m = &tried[i].metrics;
      Nearby change = { tried[i].plan, *m, NULL };
      if (tried[i].done && m->peak_memory_bytes > m->capacity_bytes &&
          m->peak_memory_bytes < leanest->metrics.peak_memory_bytes)
        *leanest = change;
      if (!tried[i].done || m->peak_memory_bytes > m->capacity_bytes || m->iteration_s >= least)
        continue;
      change.change = nearby_change(from, &tried[i].plan);
      g_array_append_val(found, change);
    }
  }
  g_array_sort(found, by_step);
  return found;
}

static void measure(const Walk *w, const Plan *plan, NearbyPlans *out)
{
  out->legal = plan_check(plan, w->model, w->cluster, NULL) == RULE_NONE;
  if (!out->legal)
    return;
  g_autoptr(Trace) trace = simulate_plan(w->model, w->cluster, plan);
  trace_metrics(trace, &out->metrics);
  trace_parts(trace, out->metrics.critical_row, &out->parts);
  out->fits = out->metrics.peak_memory_bytes <= out->metrics.capacity_bytes;
}

/* Where a path is: its step and its memory, INFINITY where it does not fit or is not legal. */
typedef struct {
  Plan at;
  double step_s, bytes;
} Standing;

static void take(GArray *path, Standing *p, const Nearby *change)
{
  const Metrics *m = &change->metrics;
  Nearby taken = { change->plan, *m, nearby_change(&p->at, &change->plan) };

  *p = (Standing) { change->plan, m->peak_memory_bytes > m->capacity_bytes ? INFINITY : m->iteration_s,
                    m->peak_memory_bytes };
  g_array_append_val(path, taken);
}

NearbyPlans *nearby_plans(const Model *model, const Cluster *cluster, const Plan *plan, Stop *stop, int threads)
{
  NearbyPlans *out = g_new0(NearbyPlans, 1);
  g_autoptr(PriceCache) prices = price_cache_new(model, cluster);
  g_autoptr(Rounds) rounds = rounds_new(model, cluster, prices, NULL, NULL, stop, threads);
  const Walk w = { model, cluster, rounds, stop };

  measure(&w, plan, out);
  Standing p = { *plan, out->fits ? out->metrics.iteration_s : INFINITY,
                 out->legal ? out->metrics.peak_memory_bytes : INFINITY };
  out->path = nearby_list();
  for (int i = 0; i < NEARBY_CHANGES; i++) {
    Nearby leanest = { .metrics.peak_memory_bytes = p.bytes };
    GArray *changes = changes_of(&w, &p.at, i == 0 ? p.step_s : p.step_s * (1 - NEARBY_GAIN), &leanest);
    const Nearby *best = changes->len ? &g_array_index(changes, Nearby, 0) : NULL;
    gboolean gains = best && (!isfinite(p.step_s) || best->metrics.iteration_s <= p.step_s * (1 - NEARBY_GAIN));
    gboolean leaner = !gains && !isfinite(p.step_s) && leanest.metrics.peak_memory_bytes < p.bytes;
    if (gains || leaner)
      take(out->path, &p, gains ? best : &leanest);
    if (i == 0)
      out->changes = changes;
    else
      g_array_unref(changes);
    if (!gains && !leaner)
      break;
  }
  if (!isfinite(p.step_s))
    g_array_set_size(out->path, 0);
  return out;
}

void nearby_plans_free(NearbyPlans *plans)
{
  g_array_unref(plans->changes);
  g_array_unref(plans->path);
  g_free(plans);
}
