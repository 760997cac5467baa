#include "search/layerwise.h"

#include "cost/redistribute.h"
#include "cost/orthogonal.h"
#include "plan/plan.h"

#include <math.h>
#include <string.h>

/* ---- the solver ---- */

typedef struct {
  double seconds, bytes;
  int strategy, before; /* before: label of the layer before, -1 = none */
} Label;

static int by_bytes(gconstpointer a, gconstpointer b)
{
  const Label *x = a, *y = b;

  if (x->bytes != y->bytes)
    return x->bytes < y->bytes ? -1 : 1;
  if (x->seconds != y->seconds)
    return x->seconds < y->seconds ? -1 : 1;
  return (x->before > y->before) - (x->before < y->before);
}

/* Appends those labels that no other beats in both. */
static void keep_best(GArray *from, GArray *to)
{
  double least = INFINITY;

  g_array_sort(from, by_bytes);
  for (guint i = 0; i < from->len; i++) {
    const Label *l = &g_array_index(from, Label, i);
    if (l->seconds >= least)
      continue;
    least = l->seconds;
    g_array_append_vals(to, l, 1);
  }
}

/* Labels of a layer under one strategy, from those before[first..end). */
static void extend(const LayerwiseProblem *p, int layer, int strategy, const GArray *labels, int first, int end,
                   GArray *scratch)
{
  int at = layer * p->strategies + strategy;

  for (int i = first; i < end; i++) {
    const Label *l = &g_array_index(labels, Label, i);
    Label next = { l->seconds + p->change_s[l->strategy * p->strategies + strategy] + p->seconds[at],
                   l->bytes + p->bytes[at], strategy, i };
    if (next.bytes <= p->room)
      g_array_append_val(scratch, next);
  }
}

/* Whether what comes behind a layer takes the same under either. */
static gboolean change_alike(const LayerwiseProblem *p, int s, int t)
{
  return memcmp(p->change_s + s * p->strategies, p->change_s + t * p->strategies,
                p->strategies * sizeof *p->change_s) == 0;
}

/* The first strategy of each that changes alike. */
static int *find_layouts(const LayerwiseProblem *p)
{
  int *layout = g_new(int, p->strategies);

  for (int s = 0; s < p->strategies; s++) {
    layout[s] = 0;
    while (!change_alike(p, layout[s], s))
      layout[s]++;
  }
  return layout;
}

/* Labels of a layer: of those whose layouts are alike, the ones that no other beats in both. */
static void extend_all(const LayerwiseProblem *p, int layer, const int *layout, GArray *labels, int first,
                       GArray *scratch)
{
  int end = labels->len;

  for (int s = 0; s < p->strategies; s++) {
    g_array_set_size(scratch, 0);
    for (int t = s; t < p->strategies && layout[s] == s; t++)
      if (layout[t] == s)
        extend(p, layer, t, labels, first, end, scratch);
    keep_best(scratch, labels);
  }
}

gboolean layerwise_solve(const LayerwiseProblem *p, int *choice, double *seconds)
{
  g_autoptr(GArray) labels = g_array_new(FALSE, FALSE, sizeof(Label));
  g_autoptr(GArray) scratch = g_array_new(FALSE, FALSE, sizeof(Label));
  g_autofree int *layout = find_layouts(p);
  Label start = { 0, 0, p->outside, -1 };
  int first = 0, best = -1;

  g_array_append_val(labels, start);
  for (int layer = 0; layer < p->layers; layer++) {
    int end = labels->len;
    if (stop_asked(p->stop))
      return FALSE;
    extend_all(p, layer, layout, labels, first, scratch);
    first = end;
  }
  *seconds = INFINITY;
  for (int i = first; i < (int)labels->len; i++) {
    const Label *l = &g_array_index(labels, Label, i);
    double whole = l->seconds + p->change_s[l->strategy * p->strategies + p->outside];
    if (whole < *seconds) {
      *seconds = whole;
      best = i;
    }
  }
  for (int layer = p->layers - 1, i = best; i >= 0 && layer >= 0; layer--) {
    choice[layer] = g_array_index(labels, Label, i).strategy;
    i = g_array_index(labels, Label, i).before;
  }
  return best >= 0;
}

double layerwise_seconds(const LayerwiseProblem *p, const int *choice)
{
  double seconds = 0;
  int before = p->outside;

  for (int layer = 0; layer < p->layers; layer++) {
    seconds += p->change_s[before * p->strategies + choice[layer]] + p->seconds[layer * p->strategies + choice[layer]];
    before = choice[layer];
  }
  return seconds + p->change_s[before * p->strategies + p->outside];
}

double layerwise_bytes(const LayerwiseProblem *p, const int *choice)
{
  double bytes = 0;

  for (int layer = 0; layer < p->layers; layer++)
    bytes += p->bytes[layer * p->strategies + choice[layer]];
  return bytes;
}

void layerwise_problem_free(LayerwiseProblem *p)
{
  if (!p)
    return;
  g_free(p->seconds);
  g_free(p->bytes);
  g_free(p->change_s);
  g_free(p->pass_s);
  g_free(p);
}

/* Communicators of tensor degrees other than the plan's own, the first variant's, which are counted with it. */
static double group_bytes(const LayerwiseProblem *p, const GArray *variants, const int *choice)
{
  const Plan *own = &g_array_index(variants, Plan, 0);
  double bytes = 0;

  for (int i = 0; i < p->layers; i++) {
    const Plan *v = &g_array_index(variants, Plan, choice[i]);
    const Layout layout = layout_of(v);
    gboolean counted = v->tp == own->tp;
    for (int k = 0; k < i; k++)
      counted |= g_array_index(variants, Plan, choice[k]).tp == v->tp;
    bytes += counted ? 0 : op_layer_groups(&layout) * layout.passes.framework->group_bytes;
  }
  return bytes;
}

/* Less room each time, as often as there are sums of communicators at most. */
gboolean layerwise_solve_stage(const LayerwiseProblem *problem, const GArray *variants, int *choice, double *seconds)
{
  LayerwiseProblem p = *problem;

  while (layerwise_solve(&p, choice, seconds)) {
    double room = problem->room - group_bytes(&p, variants, choice);
    if (layerwise_bytes(&p, choice) <= room)
      return TRUE;
    p.room = MIN(room, nextafter(p.room, 0));
  }
  return FALSE;
}

double layerwise_stage_bytes(const LayerwiseProblem *p, const GArray *variants, const int *choice)
{
  return p->fixed_bytes + layerwise_bytes(p, choice) + group_bytes(p, variants, choice);
}

StageTime layerwise_stage_time(const LayerwiseProblem *p, const int *choice, int micro_batches)
{
  StageTime t = { p->end_pass_s, p->end_once_s };
  double passes = 0, changes = layerwise_seconds(p, choice), once = 0;

  for (int layer = 0; layer < p->layers; layer++) {
    int at = layer * p->strategies + choice[layer];
    passes += p->pass_s[at];
    once += p->seconds[at] - micro_batches * p->pass_s[at];
    changes -= p->seconds[at];
  }
  t.pass_s += passes + MAX(changes, 0) / micro_batches;
  t.once_s += once;
  return t;
}

double layerwise_step_s(const Layout *layout, const StageTime *stages)
{
  const ScheduleShape *shape = &layout->pipeline.shape;
  double most = 0, sum = 0, once = 0;

  for (int i = 0; i < layout->pipeline.cut.stages; i++) {
    most = MAX(most, stages[i].pass_s);
    sum += stages[i].pass_s;
    once = MAX(once, stages[i].once_s);
  }
  /* chunks of a rank take turns: a rank's share of the passes, the stages one after the other */
  return (shape->micro * most * shape->chunks - most) + sum + once * shape->chunks + layout->passes.framework->step_s;
}

gboolean layerwise_append(const LayerwiseProblem *p, const int *choice, const GArray *variants, LayerStrategies *out)
{
  for (int i = 0; i < p->layers; i++) {
    StrategyRun run = plan_run(&g_array_index(variants, Plan, choice[i]));
    run.layers = 1;
    if (!strategies_append(out, run))
      return FALSE;
  }
  return TRUE;
}

/* ---- a stage's problem ---- */

/* The plan with another tensor degree on the same devices; FALSE if it does not come out. */
static gboolean with_tensor(Plan *v, int tp)
{
  int devices = v->tp * v->dp;

  if (devices % tp != 0 || v->micro_batch * tp % v->tp != 0 || (v->tp % tp != 0 && tp % v->tp != 0))
    return FALSE;
  v->micro_batch = v->micro_batch * tp / v->tp;
  v->dp = devices / tp;
  v->tp = tp;
  return v->micro_batch > 0;
}

/* The plan's own choice comes first. */
static void add_variants(const Model *model, const Cluster *cluster, const Plan *plan, GArray *variants)
{
  g_array_append_vals(variants, plan, 1);
  for (int tp = 1; tp <= plan->tp * plan->dp; tp *= 2)
    for (int sp = 0; sp <= (tp > 1); sp++)
      for (int zero = 0; zero <= 3; zero++)
        for (int recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
          Plan v = *plan;
          v.sequence_parallel = sp;
          v.zero = zero;
          v.recompute = recompute;
          gboolean own = tp == plan->tp && sp == plan->sequence_parallel && zero == plan->zero &&
                         recompute == (int)plan->recompute;
          if (!own && with_tensor(&v, tp) && (zero == 0 || plan_replicas(&v) > 1) &&
              plan_check(&v, model, cluster, NULL) == RULE_NONE)
            g_array_append_val(variants, v);
        }
}

/* Data-parallel communication of a layer in a step that nothing hides: what runs
 * beside passes is charged where it is longer than they are. */
static double exposed_s(const Layout *l, const Cluster *site, const LayerPrice *layer, double passes_s)
{
  const StateLayout *p = &l->states[0];
  GroupShape group = state_group(l, site, FALSE, RANKS_SHARDS);
  double weights = op_gathered_bytes(p, layer->params, layer->narrow[0]);
  double gather = collective_cost(site, COLLECTIVE_ALL_GATHER, weights, &group).seconds;
  double reduce = collective_cost(site, p->zero ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE,
                                  layer->params * p->reduce_bytes, &group).seconds;
  double m = l->pipeline.shape.micro;

  if (!p->sums)
    return 0;
  if (p->zero == 3)
    return m * MAX(0, 2 * gather + reduce - (p->overlap_gradients && p->overlap_parameters ? passes_s : 0));
  double once = p->overlap_gradients ? MAX(0, reduce - passes_s) : reduce;
  if (p->zero == 2)
    once *= m;
  return once + (p->zero == 0 || p->overlap_parameters ? 0 : gather);
}

typedef struct {
  const Model *model;
  const Cluster *site;
  StageBlocks blocks;
  double held; /* micro-batches in flight */
} Stage;

/* A layer's update; the devices that a strategy divides its states over share the orthogonalisation of all layers. */
static double update_s(const Stage *stage, const StateLayout states[2], const LayerPrice *l)
{
  const double params[2] = { l->params }, narrow[2] = { l->narrow[0] };
  OptimizerWork work = l->optimizer[0];

  work.newton_most_s = 0;
  return optimizer_price(states, stage->site, params, narrow, NULL).seconds +
         optimizer_work_price(&work, &states[0], 1, stage->site).seconds;
}

static double layer_state_bytes(const Stage *stage, const StateLayout *states, const LayerPrice *l)
{
  HeldBytes held = op_held(states, &stage->site->device, l->params, l->narrow[0], l->frozen[0],
                           l->optimizer[0].state_bytes);
  return held_state_bytes(&held);
}

static void fill_strategy(const Stage *stage, const Plan *v, LayerwiseProblem *p, int strategy)
{
  const Layout layout = layout_of(v);
  g_autoptr(PriceTable) prices = price_table_new(stage->model, &layout, stage->site);
  double m = layout.pipeline.shape.micro, lost = layout.passes.framework->fragmentation;

  for (int i = 0; i < p->layers; i++) {
    const LayerPrice *l = price_of_layer(prices, stage->model, 0, stage->blocks.first + i);
    double passes = l->pass[PASS_FORWARD].seconds + l->pass[PASS_BACKWARD].seconds;
    int at = i * p->strategies + strategy;
    p->pass_s[at] = passes;
    p->seconds[at] = m * passes + exposed_s(&layout, stage->site, l, passes) +
                     update_s(stage, layout.states, l);
    p->bytes[at] = layer_state_bytes(stage, layout.states, l) + stage->held * l->saved_bytes * (1 + lost);
  }
}

/* Bytes of a stage that no choice of its blocks changes: the ends, libraries, and
 * buckets and scratch as large as any strategy's. */
static double fixed_bytes(const Stage *stage, const GArray *variants, Stop *stop)
{
  double most = 0;

  for (guint s = 0; s < variants->len && !stop_asked(stop); s++) {
    const Layout layout = layout_of(&g_array_index(variants, Plan, s));
    g_autoptr(PriceTable) prices = price_table_new(stage->model, &layout, stage->site);
    double scratch = 0, params = 0;
    for (int i = stage->blocks.first; i < stage->blocks.end; i++) {
      const LayerPrice *l = price_of_layer(prices, stage->model, 0, i);
      scratch = MAX(scratch, l->transient_bytes + l->recomputed_bytes);
      params += l->params;
    }
    most = MAX(most, scratch * (1 + layout.passes.framework->fragmentation) + op_bucket_bytes(layout.states, params));
  }
  const Layout own = layout_of(&g_array_index(variants, Plan, 0));
  return most + op_overhead_bytes(&own);
}

/* What the embedding and the head of a stage take, as the plan itself has them; returns their bytes. */
static double fill_ends(const Stage *stage, const Layout *layout, gboolean embedding, gboolean head,
                        LayerwiseProblem *p)
{
  g_autoptr(PriceTable) prices = price_table_new(stage->model, layout, stage->site);
  double lost = layout->passes.framework->fragmentation;
  int last = stage->model->n_layers - 1;
  double bytes = 0;

  for (int end = 0; end < 2; end++) {
    const LayerPrice *l = price_of_layer(prices, stage->model, 0, end ? last : 0);
    double passes = l->pass[PASS_FORWARD].seconds + l->pass[PASS_BACKWARD].seconds;
    if (!(end ? head : embedding))
      continue;
    p->end_pass_s += passes;
    p->end_once_s += exposed_s(layout, stage->site, l, passes) + update_s(stage, layout->states, l);
    bytes += layer_state_bytes(stage, layout->states, l) + stage->held * l->saved_bytes * (1 + lost);
  }
  return bytes;
}

LayerwiseProblem *layerwise_of_stage(const Model *model, const Cluster *cluster, const Plan *plan, int stage_index,
                                     GArray *variants, Stop *stop)
{
  const Layout layout = layout_of(plan);
  const PipelineLayout *pipeline = &layout.pipeline;
  const ScheduleShape *shape = &pipeline->shape;
  int rank = pipeline_rank(pipeline, stage_index, 0);
  StageBlocks blocks = stage_blocks(&pipeline->cut, model, stage_index);
  Stage stage = { model, mesh_site(&layout.mesh, cluster, rank), blocks,
                  (double)schedule_peak(pipeline->schedule, shape, rank) / shape->chunks };
  LayerwiseProblem *p = g_new0(LayerwiseProblem, 1);
  double m = shape->micro;

  p->stop = stop;
  add_variants(model, cluster, plan, variants);
  p->layers = blocks.end - blocks.first;
  p->strategies = variants->len;
  p->seconds = g_new(double, p->layers * p->strategies);
  p->bytes = g_new(double, p->layers * p->strategies);
  p->change_s = g_new0(double, p->strategies * p->strategies);
  p->pass_s = g_new(double, p->layers * p->strategies);
  p->fixed_bytes = fixed_bytes(&stage, variants, stop) +
                   fill_ends(&stage, &layout, stage_index == 0, stage_index == pipeline->cut.stages - 1, p);
  p->room = stage.site->device.memory_bytes / shape->chunks - p->fixed_bytes;
  for (int s = 0; s < p->strategies && (s == 0 || !stop_asked(stop)); s++) {
    const Plan *strategy = &g_array_index(variants, Plan, s);
    PassLayout from, to;
    fill_strategy(&stage, strategy, p, s);
    pass_layout_init(&from, strategy);
    for (int t = 0; t < p->strategies; t++) {
      pass_layout_init(&to, &g_array_index(variants, Plan, t));
      p->change_s[s * p->strategies + t] =
          m * (redistribute_s(model, &from, &to, stage.site) + redistribute_s(model, &to, &from, stage.site));
    }
  }
  return p;
}
