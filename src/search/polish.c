#include "search/polish.h"

#include "program/balance.h"
#include "search/bound.h"
#include "search/excluded.h"
#include "search/rounds.h"

#include <math.h>
#include <string.h>

typedef struct {
  const Model *model;
  const Cluster *cluster;
  Plan plan; /* the best so far */
  Layout layout;   /* of it, as what follows */
  Metrics metrics;
  const Trace *trace;
  Trace *own;      /* the same, unless it is the caller's */
  PriceSums *sums;
  Rounds *rounds;
  Stop *stop;
} Polish;

static void propose(GArray *proposals, const Plan *plan)
{
  g_array_append_vals(proposals, plan, 1);
}

static int stage_layers(const Polish *p, int stage)
{
  StageBlocks blocks = stage_blocks(&p->layout.pipeline.cut, p->model, stage);

  return blocks.end - blocks.first;
}

static int rank_of(const Polish *p, int stage)
{
  return pipeline_rank(&p->layout.pipeline, stage, 0);
}

/* ---- recompute ---- */

/* Bytes that a layer keeps for a micro-batch where it is not made again, beyond what it keeps else. */
static double kept_bytes(const Polish *p)
{
  Plan none = p->plan;
  int block = p->model->n_layers / 2;

  none.recompute = RECOMPUTE_NONE;
  none.scope = (RecomputeScope) { 0 };
  Plan all = none;
  all.recompute = RECOMPUTE_FULL;
  const Layout keeping = layout_of(&none), making = layout_of(&all);
  g_autoptr(PriceTable) kept = price_table_new(p->model, &keeping, p->cluster);
  g_autoptr(PriceTable) made = price_table_new(p->model, &making, p->cluster);
  double bytes = price_of_layer(kept, p->model, 0, block)->saved_bytes;
  return (bytes - price_of_layer(made, p->model, 0, block)->saved_bytes) * (1 + keeping.passes.framework->fragmentation);
}

/* Takes `layers` from what the stages of a rank make again, those with most first. */
static void keep_more(const Polish *p, Plan *plan, int rank, int layers)
{
  LayerSplit *made = &plan->scope.stages;

  for (; layers > 0; layers--) {
    int most = -1;
    for (int stage = made->stages - 1; stage >= 0; stage--)
      if (rank_of(p, stage) == rank && made->layers[stage] > (most >= 0 ? made->layers[most] : 0))
        most = stage;
    if (most < 0)
      return;
    made->layers[most]--;
  }
}

/* Each rank fills a share of the room that it has with layers that it need not make again. */
static void propose_recompute(const Polish *p, GArray *proposals)
{
  static const double shares[] = { 1, 0.8, 0.6, 0.3 };
  const PipelineLayout *pipeline = &p->layout.pipeline;
  int stages = pipeline->cut.stages;
  Plan start = p->plan;

  if (start.recompute != RECOMPUTE_FULL || (start.scope.method == RECOMPUTE_UNIFORM && start.scope.layers > 1) ||
      pipeline->schedule->recompute || schedule_copies(pipeline->schedule) > 1 || stages > SPLIT_STAGES_MAX)
    return;
  start.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .stages.stages = stages };
  for (int stage = 0; stage < stages; stage++)
    start.scope.stages.layers[stage] = p->plan.scope.method == RECOMPUTE_BLOCK
                                           ? recompute_of_stage(&p->plan.scope, stage, stage_layers(p, stage))
                                           : stage_layers(p, stage);
  const Trace *trace = p->trace;
  double each = kept_bytes(p);
  for (gsize i = 0; each > 0 && trace->n_rows == pipeline->shape.ranks && i < G_N_ELEMENTS(shares); i++) {
    Plan plan = start;
    for (int rank = 0; rank < trace->n_rows; rank++) {
      double bytes[PART_COUNT], room = trace->rows[rank].capacity_bytes - trace_row_peak(trace, rank, bytes);
      double held = MAX(1, (double)schedule_peak(pipeline->schedule, &pipeline->shape, rank) / pipeline->shape.chunks);
      keep_more(p, &plan, rank, (int)floor(shares[i] * MAX(0, room) / (each * held)));
    }
    if (memcmp(&plan.scope, &start.scope, sizeof plan.scope) != 0)
      propose(proposals, &plan);
  }
}

/* "3x4, 0x12": runs of equal numbers. */
static char *runs_text(const LayerSplit *split)
{
  GString *s = g_string_new(NULL);

  for (int i = 0, n; i < split->stages; i += n) {
    for (n = 1; i + n < split->stages && split->layers[i + n] == split->layers[i]; n++)
      ;
    g_string_append_printf(s, n > 1 ? "%s%d (%d times)" : "%s%d", i ? ", " : "", split->layers[i], n);
  }
  return g_string_free(s, FALSE);
}

static char *say_recompute(const Plan *plan)
{
  g_autofree char *runs = runs_text(&plan->scope.stages);
  return plan->scope.stages.stages ? g_strdup_printf("layers made again, by stage: %s", runs) : NULL;
}

/* ---- layers ---- */

/* Seconds of a rank's layers for a micro-batch, the embedding and the head counted. */
static double *rank_seconds(const Polish *p)
{
  const double *forward = p->sums->forward_s, *backward = p->sums->backward_s;
  const PipelineLayout *pipeline = &p->layout.pipeline;
  double *seconds = g_new0(double, pipeline->shape.ranks);

  for (int stage = 0; stage < pipeline->cut.stages; stage++) {
    int first = stage_first_layer(&pipeline->cut, p->model, stage);
    int end = stage_first_layer(&pipeline->cut, p->model, stage + 1);
    seconds[rank_of(p, stage)] += forward[end] - forward[first] + backward[end] - backward[first];
  }
  return seconds;
}

/* The rank's stage with most or, with sign -1, fewest layers. */
static int stage_with(const Polish *p, const LayerSplit *split, int rank, int sign)
{
  int found = -1;

  for (int stage = 0; stage < split->stages; stage++)
    if (rank_of(p, stage) == rank && (found < 0 || sign * split->layers[stage] > sign * split->layers[found]))
      found = stage;
  return found;
}

/* Whether layers may move between the stages of a plan. */
static gboolean layers_move(const Polish *p)
{
  const PipelineLayout *pipeline = &p->layout.pipeline;

  return pipeline->shape.ranks > 1 && pipeline->cut.stages <= SPLIT_STAGES_MAX && pipeline->cut.split_rank == 0 &&
         p->layout.passes.framework->splits > SPLITS_COSTS && !recompute_counts(&p->plan.scope) &&
         schedule_copies(pipeline->schedule) == 1 && p->cluster->n_types == 0;
}

/* One layer from the busiest rank to each other one. */
static void propose_moves(const Polish *p, const Plan *start, GArray *proposals)
{
  g_autofree double *seconds = rank_seconds(p);
  int busiest = 0, ranks = p->layout.pipeline.shape.ranks;

  for (int rank = 1; rank < ranks; rank++)
    busiest = seconds[rank] > seconds[busiest] ? rank : busiest;
  int from = stage_with(p, &start->split, busiest, 1);
  for (int rank = 0; rank < ranks && start->split.layers[from] > 0; rank++) {
    Plan plan = *start;
    int to = stage_with(p, &start->split, rank, -1);
    if (rank == busiest || plan.split.layers[to] == SPLIT_LAYERS_MAX)
      continue;
    plan.split.layers[from]--;
    plan.split.layers[to]++;
    propose(proposals, &plan);
  }
}

static void propose_layers(const Polish *p, GArray *proposals)
{
  Plan start = p->plan;

  if (!layers_move(p))
    return;
  if (!start.split.stages) {
    start.split.stages = p->layout.pipeline.cut.stages;
    for (int stage = 0; stage < start.split.stages; stage++)
      start.split.layers[stage] = stage_layers(p, stage);
  }
  Plan balanced = start;
  if (balance_by_room(p->model, p->cluster, &p->layout, p->sums->prices, &balanced.split))
    propose(proposals, &balanced);
  propose_moves(p, &start, proposals);
}

static char *say_layers(const Plan *plan)
{
  g_autofree char *runs = runs_text(&plan->split);
  return plan->split.stages ? g_strdup_printf("layer_split: %s", runs) : NULL;
}

/* ---- groups, buckets, prefetch ---- */

static void propose_groups(const Polish *p, GArray *proposals)
{
  const ScheduleShape *shape = &p->layout.pipeline.shape;
  int pp = shape->ranks, micro = shape->micro;
  const int sizes[] = { pp, pp + 1, pp * 5 / 4, pp * 3 / 2, 2 * pp, 3 * pp, 4 * pp, micro / 2, micro };

  for (gsize i = 0; p->layout.pipeline.schedule->grouped && i < G_N_ELEMENTS(sizes); i++) {
    Plan plan = p->plan;
    plan.micro_group = sizes[i] == pp ? 0 : sizes[i];
    if (plan.micro_group != p->plan.micro_group)
      propose(proposals, &plan);
  }
}

static char *say_groups(const Plan *plan)
{
  return plan->micro_group ? g_strdup_printf("microbatch_group_size_per_vp_stage: %d", plan->micro_group) : NULL;
}

static void propose_buckets(const Polish *p, GArray *proposals)
{
  static const double factors[] = { 0.125, 0.25, 0.5, 2, 4 };

  for (gsize i = 0; p->layout.has_replicas && i < G_N_ELEMENTS(factors); i++) {
    Plan plan = p->plan;
    plan.sharding.bucket = round(op_bucket_params(&p->layout.states[0]) * factors[i]);
    propose(proposals, &plan);
  }
}

static char *say_buckets(const Plan *plan)
{
  return plan->sharding.bucket > 0 ? g_strdup_printf("reduce_bucket_size: %.0f", plan->sharding.bucket) : NULL;
}

static void propose_prefetch(const Polish *p, GArray *proposals)
{
  double layer = model_layer(p->model, p->model->n_layers / 2)->params / p->layout.passes.tp;

  for (int layers = 2; p->layout.states[0].zero == 3 && p->layout.has_replicas && layers <= 4; layers++) {
    Plan plan = p->plan;
    plan.sharding.prefetch = layers * layer;
    propose(proposals, &plan);
  }
}

static char *say_prefetch(const Plan *plan)
{
  double params = plan->sharding.prefetch;
  return params > 0 ? g_strdup_printf("stage3_prefetch_bucket_size: %.0f", params) : NULL;
}

/* ---- placement ---- */

static void propose_placement(const Polish *p, GArray *proposals)
{
  Plan plan = p->plan;

  plan.pipeline_inner = !plan.pipeline_inner;
  if (plan.pp > 1 && plan.dp > 1)
    propose(proposals, &plan);
}

static char *say_placement(const Plan *plan)
{
  return g_strdup_printf("use_tp_pp_dp_mapping: %s", plan->pipeline_inner ? "true" : "false");
}

/* ---- the search ---- */

typedef struct {
  const char *name;
  void (*propose)(const Polish *polish, GArray *proposals); /* Plan */
  char *(*say)(const Plan *plan); /* what it has of this kind, NULL = nothing */
} Kind;

static const Kind kinds[] = {
  { "recompute", propose_recompute, say_recompute }, { "layers", propose_layers, say_layers },
  { "groups", propose_groups, say_groups },          { "buckets", propose_buckets, say_buckets },
  { "prefetch", propose_prefetch, say_prefetch },
  { "placement", propose_placement, say_placement },
};

/* Those that may gain, the most promising first. */
static GArray *rank(const Polish *p, const GArray *proposals)
{
  GArray *ranked = g_array_new(FALSE, FALSE, sizeof(Ranked));

  for (guint i = 0; i < proposals->len && !stop_asked(p->stop); i++) {
    const Plan *plan = &g_array_index(proposals, Plan, i);
    if (plan_check(plan, p->model, p->cluster, NULL) != RULE_NONE ||
        excluded_newly(plan, &p->plan, p->model, p->cluster))
      continue;
    gboolean same = !recompute_counts(&plan->scope) && !recompute_counts(&p->plan.scope);
    const Layout layout = layout_of(plan);
    PriceSums *own = same ? NULL : price_sums_new(p->model, &layout, p->cluster);
    Ranked r = { bound_time(p->model, &layout, p->cluster, own ? own : p->sums, NULL), i };
    if (r.bound_s < p->metrics.iteration_s)
      g_array_append_val(ranked, r);
    price_sums_free(own);
  }
  g_array_sort(ranked, ranked_by_bound);
  return ranked;
}

/* Less than this share is no gain. */
#define GAIN_LEAST 1e-6

static void take(Polish *p, const Plan *plan, const Metrics *metrics, const Trace *trace)
{
  p->plan = *plan;
  p->layout = layout_of(&p->plan);
  p->metrics = *metrics;
  p->trace = trace;
  price_sums_free(p->sums);
  p->sums = price_sums_new(p->model, &p->layout, p->cluster);
}

/* One change of a kind; FALSE if none gains. */
static gboolean improve(Polish *p, const Kind *kind, PolishStep *step)
{
  g_autoptr(GArray) proposals = g_array_new(FALSE, FALSE, sizeof(Plan));
  Simulation tried[POLISH_TRIES];
  int n = 0, best = -1;

  G_STATIC_ASSERT(POLISH_TRIES <= ROUND);
  kind->propose(p, proposals);
  g_autoptr(GArray) ranked = rank(p, proposals);
  for (; n < (int)MIN(ranked->len, POLISH_TRIES); n++)
    tried[n] = (Simulation) { .keeps = TRUE, .plan = g_array_index(proposals, Plan, g_array_index(ranked, Ranked, n).at) };
  rounds_run(p->rounds, tried, n);
  for (int i = 0; i < n; i++) {
    const Metrics *m = &tried[i].metrics;
    if (!tried[i].done)
      continue;
    step->simulated++;
    double than = best < 0 ? p->metrics.iteration_s * (1 - GAIN_LEAST) : tried[best].metrics.iteration_s;
    if (m->peak_memory_bytes <= m->capacity_bytes && m->iteration_s < than)
      best = i;
  }
  step->proposed += proposals->len;
  if (best >= 0) {
    step->gained_s += p->metrics.iteration_s - tried[best].metrics.iteration_s;
    trace_free(p->own);
    p->own = g_steal_pointer(&tried[best].trace);
    take(p, &tried[best].plan, &tried[best].metrics, p->own);
  }
  for (int i = 0; i < n; i++)
    trace_free(tried[i].trace);
  return best >= 0;
}

static void step_clear(gpointer step)
{
  g_free(((PolishStep *)step)->now);
}

Polished *polish_plan(const Model *model, const Cluster *cluster, const Plan *plan, const Trace *trace, Stop *stop,
                      int threads)
{
  Polish p = { .model = model, .cluster = cluster, .stop = stop };
  Polished *out = g_new0(Polished, 1);
  Metrics first;

  trace_metrics(trace, &first);
  take(&p, plan, &first, trace);
  g_autoptr(PriceCache) prices = price_cache_new(model, cluster);
  p.rounds = rounds_new(model, cluster, prices, NULL, NULL, stop, threads);
  out->steps = g_array_new(FALSE, FALSE, sizeof(PolishStep));
  g_array_set_clear_func(out->steps, step_clear);
  for (gsize k = 0; k < G_N_ELEMENTS(kinds) && !stop_asked(stop); k++) {
    PolishStep step = { .kind = kinds[k].name };
    for (int i = 0; i < POLISH_REPEATS && improve(&p, &kinds[k], &step); i++)
      ;
    step.now = step.gained_s > 0 ? kinds[k].say(&p.plan) : NULL;
    if (step.proposed > 0)
      g_array_append_val(out->steps, step);
  }
  out->halted = stop_heard(stop);
  out->plan = p.plan;
  out->metrics = p.metrics;
  out->gained_s = first.iteration_s - p.metrics.iteration_s;
  rounds_free(p.rounds);
  trace_free(p.own);
  price_sums_free(p.sums);
  return out;
}

void polished_free(Polished *polished)
{
  if (!polished)
    return;
  g_array_unref(polished->steps);
  g_free(polished);
}
