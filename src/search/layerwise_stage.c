/* The problem of one stage: its strategies, and what blocks take under each. */
#include "search/layerwise.h"

#include "cost/orthogonal.h"
#include "cost/redistribute.h"
#include "cost/sharded.h"
#include "plan/plan.h"

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

/* What communication adds to passes that it runs beside: computation goes slower while it does, and waits for what is
 * left of it. */
static double beside_s(double comm_s, double passes_s, double slowdown)
{
  return comm_s <= slowdown * passes_s ? comm_s * (1 - 1 / slowdown) : comm_s - passes_s;
}

typedef struct {
  const Model *model;
  const Cluster *site;
  StageBlocks blocks;
  double held; /* micro-batches in flight */
} Stage;

static int stage_size(const Stage *stage)
{
  return MAX(1, stage->blocks.end - stage->blocks.first);
}

/* Data-parallel communication of a layer: alone, or its share of what all layers of the stage send at once. */
static double data_s(const Stage *stage, const Layout *l, Collective what, double bytes, gboolean alone)
{
  GroupShape group = state_group(l, stage->site, FALSE, what == l->states[0].reduction ? RANKS_SUMS : RANKS_SHARDS);
  int layers = alone ? 1 : stage_size(stage);

  return (sharded_cost(&l->states[0], stage->site, what, layers * bytes, &group,
                       (double)layers / stage_size(stage)).seconds +
          l->passes.framework->collective_s) / layers;
}

/* What that adds to a step: all of it, or what it adds to passes. */
static double exposed_s(const Stage *stage, const Layout *l, const LayerPrice *layer)
{
  const StateLayout *p = &l->states[0];
  GroupShape group = state_group(l, stage->site, FALSE, RANKS_SHARDS);
  double slowdown = overlap_slowdown(stage->site, &group), m = l->pipeline.shape.micro;
  double forward = layer->pass[PASS_FORWARD].seconds, backward = layer->pass[PASS_BACKWARD].seconds;

  if (!p->sums)
    return 0;
  double gather = data_s(stage, l, COLLECTIVE_ALL_GATHER, op_gathered_bytes(p, layer->params, layer->narrow[0]),
                         p->zero == 3 || p->overlap_parameters);
  double reduce = data_s(stage, l, p->reduction, layer->params * p->reduce_bytes,
                         p->zero == 3 || p->overlap_gradients);
  if (p->zero == 3 && p->overlap_gradients && p->overlap_parameters)
    return m * (beside_s(gather, forward, slowdown) + beside_s(gather + reduce, backward, slowdown));
  if (p->zero == 3)
    return m * (2 * gather + reduce);
  double beside = backward + (p->sums_each ? forward : 0); /* the next micro-batch's */
  double sum = p->overlap_gradients ? beside_s(reduce, beside, slowdown) : reduce;
  double fresh = p->zero == 0 ? 0 : p->overlap_parameters ? beside_s(gather, forward, slowdown) : gather;
  return (p->sums_each ? m : 1) * sum + fresh;
}

/* A layer's share of what the optimizer does beyond parameters, were all of the stage like it: the devices that a strategy
 * divides its states over share matrices, and the gathers of these. */
static double work_s(const Stage *stage, const Layout *layout, const OptimizerWork *layer)
{
  double micro = layout->pipeline.shape.micro;
  OptimizerWork all = { 0 };

  for (int i = 0; i < stage_size(stage); i++)
    optimizer_work_add(&all, layer);
  double bytes = optimizer_gather_bytes(&all, layout->states, micro);
  double gathers = optimizer_gathers(&all, layout->states, micro);
  double gather = bytes > 0 ? gathers * data_s(stage, layout, COLLECTIVE_ALL_GATHER, bytes / gathers, TRUE) : 0;
  return (optimizer_work_price(&all, layout->states, micro, stage->site).seconds + gather) / stage_size(stage);
}

static double update_s(const Stage *stage, const Layout *layout, const LayerPrice *l)
{
  const double params[2] = { l->params }, narrow[2] = { l->narrow[0] };

  return optimizer_price(layout->states, stage->site, params, narrow, NULL).seconds +
         work_s(stage, layout, &l->optimizer[0]);
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
    p->seconds[at] = m * passes + exposed_s(stage, &layout, l) +
                     update_s(stage, &layout, l);
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
    double scratch = 0, params = 0, placeholders = 0;
    for (int i = stage->blocks.first; i < stage->blocks.end; i++) {
      const LayerPrice *l = price_of_layer(prices, stage->model, 0, i);
      scratch = MAX(scratch, l->transient_bytes + l->recomputed_bytes);
      placeholders = placeholders_with(placeholders, l);
      params += l->params;
    }
    most = MAX(most, scratch * (1 + layout.passes.framework->fragmentation) + op_bucket_bytes(layout.states, params) +
                     placeholders);
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
    p->end_once_s += exposed_s(stage, layout, l) + update_s(stage, layout, l);
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
