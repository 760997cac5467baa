#include "search/layerwise.h"

#include "cost/redistribute.h"
#include "cost/orthogonal.h"
#include "cost/sharded.h"
#include "plan/plan.h"

#include <math.h>
#include <string.h>

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

/* What labels are held against: no choice that goes on from one takes less than its seconds, the rest's seconds and
 * price x bytes, less price x the room that is left (Lagrange); `seconds` are some choice's that fits. */
typedef struct {
  double price, seconds;
  double *rest; /* [layer][strategy before]: least of seconds + price x bytes from the layer on */
} Bound;

#define ROUNDING 1e-9 /* of sums in another order */

static gboolean may_take(const LayerwiseProblem *p, int strategy)
{
  return !p->barred || !p->barred[strategy];
}

/* From the last layer to the first; `choice` gets what comes to the least. */
static void fill_rest(const LayerwiseProblem *p, Bound *b, double price, int *choice, int *next)
{
  int n = p->strategies;

  for (int s = 0; s < n; s++)
    b->rest[p->layers * n + s] = p->change_s[s * n + p->outside];
  for (int layer = p->layers - 1; layer >= 0; layer--)
    for (int s = 0; s < n; s++) {
      double *least = &b->rest[layer * n + s];
      *least = INFINITY;
      for (int t = 0; t < n; t++) {
        int at = layer * n + t;
        double sum = p->change_s[s * n + t] + p->seconds[at] + price * p->bytes[at] + b->rest[at + n];
        if (may_take(p, t) && sum < *least) {
          *least = sum;
          next[layer * n + s] = t;
        }
      }
    }
  for (int layer = 0, s = p->outside; layer < p->layers && isfinite(b->rest[p->outside]); layer++)
    choice[layer] = s = next[layer * n + s];
  b->price = price;
}

/* Fills for a price; returns whether what comes to the least fits. */
static gboolean try_price(const LayerwiseProblem *p, Bound *b, double price, int *choice, int *next)
{
  fill_rest(p, b, price, choice, next);
  if (!isfinite(b->rest[p->outside]) || layerwise_bytes(p, choice) > p->room)
    return FALSE;
  b->seconds = MIN(b->seconds, layerwise_seconds(p, choice));
  return TRUE;
}

/* The first layers as one choice has them, the others as another. */
static void try_mixtures(const LayerwiseProblem *p, Bound *b, const int *first, const int *others)
{
  g_autofree int *choice = g_memdup2(others, p->layers * sizeof *others);

  for (int i = 0; i < p->layers; i++) {
    choice[i] = first[i];
    if (layerwise_bytes(p, choice) <= p->room)
      b->seconds = MIN(b->seconds, layerwise_seconds(p, choice));
  }
}

/* With the price that bounds best, as far as halving finds it. */
static void find_bound(const LayerwiseProblem *p, Bound *b)
{
  g_autofree int *small = g_new0(int, p->layers + 1), *large = g_new0(int, p->layers + 1);
  g_autofree int *choice = g_new0(int, p->layers + 1), *next = g_new0(int, p->layers * p->strategies + 1);
  double low = 0, high, best = -INFINITY, price = 0;

  b->seconds = INFINITY;
  if (try_price(p, b, 0, large, next) || !isfinite(b->rest[p->outside]) || p->room <= 0)
    return;
  high = b->rest[p->outside] / p->room;
  for (int i = 0; i < 60 && !try_price(p, b, high, small, next); i++)
    high *= 2;
  for (int i = 0; i < 40 && !stop_asked(p->stop); i++) {
    double middle = (low + high) / 2;
    gboolean fits = try_price(p, b, middle, choice, next);
    double bound = b->rest[p->outside] - middle * p->room;
    *(fits ? &high : &low) = middle;
    memcpy(fits ? small : large, choice, p->layers * sizeof *choice);
    if (bound > best) {
      best = bound;
      price = middle;
    }
  }
  try_mixtures(p, b, small, large);
  try_mixtures(p, b, large, small);
  fill_rest(p, b, price, choice, next);
}

/* Labels of a layer under one strategy, from those before[first..end). */
static void extend(const LayerwiseProblem *p, const Bound *b, int layer, int strategy, const GArray *labels, int first,
                   int end, GArray *scratch)
{
  int at = layer * p->strategies + strategy;
  double rest = b->rest[at + p->strategies], most = b->seconds + ROUNDING * (fabs(b->seconds) + b->price * p->room);

  for (int i = first; i < end; i++) {
    const Label *l = &g_array_index(labels, Label, i);
    Label next = { l->seconds + p->change_s[l->strategy * p->strategies + strategy] + p->seconds[at],
                   l->bytes + p->bytes[at], strategy, i };
    if (next.bytes <= p->room && next.seconds + rest - b->price * (p->room - next.bytes) <= most)
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
static void extend_all(const LayerwiseProblem *p, const Bound *b, int layer, const int *layout, GArray *labels,
                       int first, GArray *scratch)
{
  int end = labels->len;

  for (int s = 0; s < p->strategies; s++) {
    g_array_set_size(scratch, 0);
    for (int t = s; t < p->strategies && layout[s] == s; t++)
      if (layout[t] == s && may_take(p, t))
        extend(p, b, layer, t, labels, first, end, scratch);
    keep_best(scratch, labels);
  }
}

gboolean layerwise_solve(const LayerwiseProblem *p, int *choice, double *seconds)
{
  g_autoptr(GArray) labels = g_array_new(FALSE, FALSE, sizeof(Label));
  g_autoptr(GArray) scratch = g_array_new(FALSE, FALSE, sizeof(Label));
  g_autofree int *layout = find_layouts(p);
  g_autofree double *rest = g_new(double, (p->layers + 1) * p->strategies);
  Bound bound = { 0, INFINITY, rest };
  Label start = { 0, 0, p->outside, -1 };
  int first = 0, best = -1;

  find_bound(p, &bound);
  g_array_append_val(labels, start);
  for (int layer = 0; layer < p->layers; layer++) {
    int end = labels->len;
    if (stop_asked(p->stop))
      return FALSE;
    extend_all(p, &bound, layer, layout, labels, first, scratch);
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

/* ---- communicators ---- */

#define DEGREES_MAX 32

/* The tensor degrees of a stage's strategies, the plan's own, the first variant's, first. */
typedef struct {
  int n, of[DEGREES_MAX];
  double bytes[DEGREES_MAX]; /* of communicators; the own ones are counted with the plan */
} Degrees;

static int degree_at(const Degrees *d, int tp)
{
  int i = 0;

  while (i < d->n && d->of[i] != tp)
    i++;
  return i;
}

static Degrees find_degrees(const GArray *variants)
{
  Degrees d = { 0 };

  for (guint i = 0; i < variants->len; i++) {
    const Layout layout = layout_of(&g_array_index(variants, Plan, i));
    int at = degree_at(&d, layout.passes.tp);
    g_assert(at < DEGREES_MAX);
    d.n = MAX(d.n, at + 1);
    d.of[at] = layout.passes.tp;
    d.bytes[at] = at == 0 ? 0 : MAX(d.bytes[at], op_layer_groups(&layout) * layout.passes.framework->group_bytes);
  }
  return d;
}

static guint taken_degrees(const LayerwiseProblem *p, const GArray *variants, const Degrees *d, const int *choice)
{
  guint taken = 0;

  for (int i = 0; i < p->layers; i++)
    taken |= 1u << degree_at(d, g_array_index(variants, Plan, choice[i]).tp);
  return taken;
}

static double group_bytes(const Degrees *d, guint degrees)
{
  double bytes = 0;

  for (int i = 0; i < d->n; i++)
    bytes += degrees >> i & 1 ? d->bytes[i] : 0;
  return bytes;
}

typedef struct {
  const LayerwiseProblem *problem;
  const GArray *variants;
  Degrees degrees;
  gboolean *barred;
  int *best; /* the best choice so far */
  double best_s;
} StageSearch;

/* With the degrees that must be paid for and without those that are barred; of one that the best then takes beside
 * these, both: paid for, and barred. What such a part can do at best is what it does where the others are free. */
static void solve_part(StageSearch *s, guint paid, guint barred)
{
  LayerwiseProblem p = *s->problem;
  g_autofree int *choice = g_new0(int, MAX(p.layers, 1));
  double seconds;

  for (int i = 0; i < p.strategies; i++)
    s->barred[i] = barred >> degree_at(&s->degrees, g_array_index(s->variants, Plan, i).tp) & 1;
  p.barred = s->barred;
  p.room -= group_bytes(&s->degrees, paid);
  if (!layerwise_solve(&p, choice, &seconds) || seconds >= s->best_s)
    return;
  guint taken = taken_degrees(&p, s->variants, &s->degrees, choice);
  if (layerwise_bytes(&p, choice) <= s->problem->room - group_bytes(&s->degrees, taken)) {
    memcpy(s->best, choice, p.layers * sizeof *choice);
    s->best_s = seconds;
    return;
  }
  int open = g_bit_nth_lsf(taken & ~paid & ~1u, -1);
  if (open < 0) /* a stage without layers, and no room */
    return;
  solve_part(s, paid | 1u << open, barred);
  solve_part(s, paid, barred | 1u << open);
}

gboolean layerwise_solve_stage(const LayerwiseProblem *p, const GArray *variants, int *choice, double *seconds)
{
  g_autofree gboolean *barred = g_new0(gboolean, MAX(p->strategies, 1));
  StageSearch s = { p, variants, find_degrees(variants), barred, choice, INFINITY };

  solve_part(&s, 0, 0);
  *seconds = s.best_s;
  return isfinite(s.best_s) && !stop_heard(p->stop);
}

double layerwise_stage_bytes(const LayerwiseProblem *p, const GArray *variants, const int *choice)
{
  const Degrees d = find_degrees(variants);

  return p->fixed_bytes + layerwise_bytes(p, choice) + group_bytes(&d, taken_degrees(p, variants, &d, choice));
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
  GroupShape group = state_group(l, stage->site, FALSE, RANKS_SHARDS);
  int layers = alone ? 1 : stage_size(stage);

  return (sharded_cost(&l->states[0], stage->site, what, layers * bytes, &group).seconds +
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
