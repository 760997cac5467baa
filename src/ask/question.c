#include "ask/question.h"

#include "base/units.h"
#include "search/price_cache.h"
#include "search/rounds.h"
#include "search/space.h"
#include "sim/simulate.h"

#include <math.h>

/* The best plan, or the first one found, of the cluster with so many devices. */
static gboolean ask(const Model *model, const Cluster *cluster, SearchOptions o, int devices, Found *out,
                    Floors **bounds)
{
  Cluster changed = *cluster;
  Plan base = *o.base;

  if (devices != cluster->devices && !cluster_resize(&changed, devices, NULL))
    return FALSE;
  base.gpus = changed.devices;
  o.base = &base;
  o.top = 1;
  o.tie = 0;
  o.brief = TRUE;
  g_autoptr(SearchResult) found = search(model, &changed, &o, NULL);
  if (found->best->len == 0)
    return FALSE;
  *out = g_array_index(found->best, Found, 0);
  if (bounds)
    *bounds = g_steal_pointer(&found->bounds);
  return TRUE;
}

gboolean ask_bounded(const Model *model, const Cluster *cluster, const SearchOptions *options, Found *out,
                     Floors **bounds)
{
  return ask(model, cluster, *options, cluster->devices, out, bounds);
}

gboolean ask_best(const Model *model, const Cluster *cluster, const SearchOptions *options, int devices, Found *out)
{
  return ask(model, cluster, *options, devices, out, NULL);
}

double ask_tie(const SearchOptions *o)
{
  return o->objective == &objectives[0] ? TIE_SHARE : 0;
}

const Found *ask_recommended(const SearchResult *found, double tie)
{
  return tie > 0 ? &found->robust : &g_array_index(found->best, Found, 0);
}

static gboolean until_one(gpointer data, const SearchProgress *at)
{
  const SearchOptions *o = data;

  return (o->watch && o->watch(o->data, at)) || at->best != NULL;
}

/* Whether the plan is of the space on the cluster, with the split of layers that it has there, and fits; it is among
 * what was `simulated` (Simulation) then. */
static gboolean is_there(const Model *model, const Cluster *cluster, const SearchOptions *o, GArray *simulated, Plan *plan,
                         Metrics *m)
{
  if (stop_asked(o->stop) || !price_split_again(model, cluster, plan) ||
      plan_check(plan, model, cluster, NULL) != RULE_NONE)
    return FALSE;
  *m = *simulation_among(simulated, model, cluster, plan);
  return m->peak_memory_bytes <= m->capacity_bytes;
}

double ask_known(const Model *model, const Cluster *cluster, const SearchOptions *o, const Plan *plan, gboolean more,
                 GArray *simulated)
{
  Plan own = *plan;
  Metrics m;

  gboolean there = !recompute_counts(&plan->scope) && is_there(model, cluster, o, simulated, &own, &m);
  while (!there && more && space_next_set(o, model, cluster, &own))
    there = is_there(model, cluster, o, simulated, &own, &m);
  if (!there)
    return 0;
  const Layout layout = layout_of(&own);
  return o->objective->value(&layout, cluster, m.iteration_s, m.peak_memory_bytes);
}

/* Whether the plan with the batch and sequence that are asked for is of the space, and fits. */
static gboolean still_fits(const Model *model, const Cluster *cluster, const SearchOptions *o, int devices, Plan *plan,
                           GArray *simulated)
{
  Metrics m;

  plan->seq = o->base->seq;
  plan->global_batch = o->base->global_batch;
  return plan->gpus == devices && cluster->devices == devices && o->fixed.value[KEY_MICRO_BATCH] < 0 &&
         is_there(model, cluster, o, simulated, plan, &m);
}

/* Divided over all devices: weights, gradients and what the optimizer keeps, each once; where formats are open, and of
 * frozen ones, weights alone. */
static gboolean states_alone_exceed(const Model *model, const Cluster *cluster, const SearchOptions *options,
                                    int devices)
{
  if (cluster->n_types > 0 || options->space & SPACE_OFFLOAD || options->fixed.value[KEY_OFFLOAD] >= 0)
    return FALSE;
  const Plan *base = options->base;
  StateLayout states = layout_of(base).states[0];
  double each = dtype_bytes[base->precision], bytes;

  states.zero = 3;
  if (!(options->space & SPACE_STATES))
    each = op_checkpoint_bytes(&states) + states.gradient_bytes;
  bytes = adapter_trained(&base->adapter, model) * each +
          adapter_frozen_model_bytes(&base->adapter, model, base->precision);
  return bytes / devices > cluster->device.memory_bytes;
}

/* With the least of what a plan holds for each micro-batch, where that is free, and nothing beside computation: few
 * plans that fit have none of these. */
static gboolean ask_lean(const Model *model, const Cluster *cluster, SearchOptions o, int devices, Found *out)
{
  int *size = &o.fixed.value[KEY_MICRO_BATCH], *recompute = &o.fixed.value[KEY_RECOMPUTE];
  int *overlap = &o.fixed.value[KEY_OVERLAP];

  if (*size >= 0 && *recompute >= 0)
    return FALSE;
  *overlap = *overlap < 0 ? 0 : *overlap;
  *size = *size < 0 ? 1 : *size;
  *recompute = *recompute < 0 ? RECOMPUTE_FULL : *recompute;
  return ask(model, cluster, o, devices, out, NULL);
}

gboolean ask_fits(const Model *model, const Cluster *cluster, const SearchOptions *options, int devices, guint tried,
                  Plan *likely)
{
  g_autoptr(GArray) simulated = g_array_new(FALSE, FALSE, sizeof(Simulation));
  SearchOptions o = *options;
  Found found;

  if (states_alone_exceed(model, cluster, options, devices))
    return FALSE;
  if (still_fits(model, cluster, options, devices, likely, simulated))
    return TRUE;
  o.objective = objective_find("memory");
  o.refine = FALSE;
  o.watch = until_one;
  o.data = (gpointer)options;
  if (!(tried & TRY_LEAN && ask_lean(model, cluster, o, devices, &found)) &&
      !(tried & TRY_ALL && ask(model, cluster, o, devices, &found, NULL)))
    return FALSE;
  *likely = found.plan;
  return TRUE;
}

static const AnswerColumn plan_columns[] = {
  { "gpus", "GPUs", CELL_INT }, { "layers", "layers", CELL_INT }, { "seq_length", "context", CELL_INT },
  { "micro_batch_size", "micro-batch", CELL_INT }, { "iteration_s", "step", CELL_SECONDS }, INTERVAL_COLUMNS,
  { "peak_memory_bytes", "memory", CELL_BYTES }, FIT_COLUMN, { "plan", "<plan", CELL_TEXT },
};

Result ask_result(const Asked *q, const Model *model, const Found *f)
{
  Cluster cluster = *q->cluster;

  if (f->plan.gpus != cluster.devices)
    cluster_resize(&cluster, f->plan.gpus, NULL);
  Result r = result_of_metrics(model, &cluster, &f->plan, &f->metrics);
  result_estimate(&r, q->accuracy);
  r.cluster = q->cluster;
  return r;
}

void answer_add_interval(Answer *a, const Result *r)
{
  gboolean known = r && r->accuracy;
  g_autofree char *text = known ? result_interval_text(r) : g_strdup("-");

  answer_add(a, known ? r->estimate.low_s : NAN);
  answer_add(a, known ? r->estimate.high_s : NAN);
  answer_add_text(a, text);
}

void answer_add_fit(Answer *a, const Result *r)
{
  answer_add(a, r && r->accuracy ? r->estimate.fit_probability : NAN);
}

static void add_plan(Answer *a, const Asked *q, const Model *model, const Found *f)
{
  const Result r = ask_result(q, model, f);
  g_autofree char *label = plan_label(&f->plan);

  answer_add(a, f->plan.gpus);
  answer_add(a, model->blocks);
  answer_add(a, f->plan.seq);
  answer_add(a, f->plan.micro_batch);
  answer_add(a, f->metrics.iteration_s);
  answer_add_interval(a, &r);
  answer_add(a, f->metrics.peak_memory_bytes);
  answer_add_fit(a, &r);
  answer_add_text(a, label);
}

static Answer *plan_answer(void)
{
  return answer_new(plan_columns, G_N_ELEMENTS(plan_columns));
}

/* The next number of devices that a cluster can have: divisors of a node, then whole nodes. */
static int next_devices(const Cluster *c, int devices)
{
  int node = c->devices_per_node;

  if (devices >= node)
    return devices + node;
  do
    devices++;
  while (node % devices != 0);
  return devices;
}

/* Whether states may go to the host, are where they are fixed to be, or cannot go there. */
static gboolean offload_is_settled(const SearchOptions *o)
{
  return o->space & SPACE_OFFLOAD || o->fixed.value[KEY_OFFLOAD] >= 0 || !space_can(o->base->framework, SPACE_OFFLOAD);
}

/* What else the host could do. */
static const char *held_there(const SearchOptions *o)
{
  return offload_is_settled(o) ? "" : " if all states stay on them (--space offload allows states on the host)";
}

/* The most devices that are tried; without a network `ends`, as there are no more. */
static int most_devices(const Cluster *c, gboolean *ends)
{
  Cluster larger = *c;
  int there = MAX(c->devices, c->devices_per_node), most = there * 16;

  *ends = !cluster_resize(&larger, most, NULL);
  return *ends ? MAX(c->nodes * c->devices_per_node, there) : most;
}

static Answer *fewest_gpus(const Asked *q)
{
  Answer *a = plan_answer();
  gboolean ends;
  int most = most_devices(q->cluster, &ends), devices = 0, tried = 0;
  Plan likely = { 0 };
  Found found;

  do {
    int before = devices;
    devices = next_devices(q->cluster, devices);
    tried++;
    if (ask_fits(q->model, q->cluster, q->options, devices, TRY_LEAN | TRY_ALL, &likely) &&
        ask_best(q->model, q->cluster, q->options, devices, &found)) {
      g_string_printf(a->says, "%s needs at least %d GPUs%s.", q->model->name, devices, held_there(q->options));
      add_plan(a, q, q->model, &found);
      return a;
    }
    if (stop_heard(q->options->stop)) {
      g_string_printf(a->says, "Stopped: %s fits on no number of GPUs up to %d; more were not tried.", q->model->name,
                      before);
      return a;
    }
  } while (devices < most);
  g_string_printf(a->says, "%s fits on no number of GPUs up to %d (%d tried)%s%s%s.%s", q->model->name, devices, tried,
                  held_there(q->options), ends ? ", all of " : "", ends ? q->cluster->name : "",
                  ends ? " It has no network." : "");
  return a;
}

/* The last of what was found to fit, as far as it is known after a stop: it is simulated alone. */
static void add_likely(Answer *a, const Asked *q, const Model *model, const Plan *likely)
{
  Found f = { .plan = *likely };

  if (likely->gpus == 0)
    return;
  g_autoptr(Trace) trace = simulate_plan(model, q->cluster, likely);
  trace_metrics(trace, &f.metrics);
  add_plan(a, q, model, &f);
}

/* Whether a value fits, as of ask_fits(); with `best` which plan is best there. */
typedef gboolean (*Fits)(const Asked *asked, int value, guint tried, Plan *likely, Found *best);

/* Of a large value, the last step is at most this part. */
#define GROWTH_STEPS 32

/* What was found of the largest value that fits. */
typedef struct {
  int most;  /* 0: none fits */
  int step;  /* `most` and this is too large, unless a stop came first */
  Plan plan; /* one that fits at `most` */
} Grown;

static gboolean grows(const Asked *q, Fits fits, int value, guint tried, Grown *g)
{
  Plan likely = g->plan;

  if (!fits(q, value, tried, &likely, NULL))
    return FALSE;
  g->most = value;
  g->plan = likely;
  return TRUE;
}

/* The largest value that fits: doubling from the first, then halving what is between it and one that is too large, down
 * to `least` or to a part of the value. */
static Grown climb(const Asked *q, Fits fits, int first, int least, int limit, guint tried)
{
  Grown g = { 0 };
  int above = first; /* too large, or beyond the limit */

  while (above <= limit && grows(q, fits, above, tried, &g))
    above *= 2;
  while (above - g.most > MAX(1, 2 * MAX(least, g.most / GROWTH_STEPS) - 2) && !stop_heard(q->options->stop)) {
    int middle = g.most + (above - g.most) / 2;
    if (middle > limit || !grows(q, fits, middle, tried, &g))
      above = middle;
  }
  g.step = above - g.most;
  return g;
}

/* The same: that nothing fits is proved of the next value alone, since what does not fit fits no larger one either. */
static Grown grow(const Asked *q, Fits fits, int first, int least, int limit)
{
  Grown g = climb(q, fits, first, least, limit, TRY_LEAN), next = g;

  if (g.most + g.step > limit || !grows(q, fits, g.most + g.step, TRY_ALL, &next))
    return g;
  return climb(q, fits, first, least, limit, TRY_LEAN | TRY_ALL);
}

/* What is known of such a question after a stop. */
static void say_grown(Answer *a, const Grown *g, const char *unit)
{
  if (g->most > 0)
    g_string_printf(a->says, "Stopped: %d %s fit, and perhaps more.", g->most, unit);
  else
    g_string_assign(a->says, "Stopped before anything that fits was found.");
}

/* `likely` is known to fit where the best plan is asked for. */
static gboolean ask_either(const Asked *q, const Model *model, SearchOptions o, guint tried, Plan *likely, Found *best)
{
  g_autoptr(GArray) simulated = g_array_new(FALSE, FALSE, sizeof(Simulation));
  int devices = q->cluster->devices;

  if (!best)
    return ask_fits(model, q->cluster, &o, devices, tried, likely);
  if (still_fits(model, q->cluster, &o, devices, likely, simulated))
    o.known = ask_known(model, q->cluster, &o, likely, TRUE, simulated);
  o.simulated = simulated;
  return ask_best(model, q->cluster, &o, devices, best);
}

static gboolean fits_context(const Asked *q, int seq, guint tried, Plan *likely, Found *best)
{
  Plan base = *q->options->base;
  SearchOptions o = *q->options;

  base.seq = seq;
  o.base = &base;
  return ask_either(q, q->model, o, tried, likely, best);
}

static Answer *largest_context(const Asked *q)
{
  Answer *a = plan_answer();
  int seq = q->options->base->seq, least = MAX(1, seq / 8), positions = model_positions(q->model);
  int limit = positions ? positions : 1 << 24;
  Found best;
  Grown g = grow(q, fits_context, seq, least, limit);
  int most = g.most, step = g.step;
  gboolean found = most > 0 && fits_context(q, most, 0, &g.plan, &best);

  if (!found && stop_heard(q->options->stop)) {
    say_grown(a, &g, "tokens of context");
    add_likely(a, q, q->model, &g.plan);
    return a;
  }
  if (!found) {
    g_string_printf(a->says, "No context from %d tokens up fits.", step);
    return a;
  }
  g_string_printf(a->says, "Sequences of %d tokens fit, in steps of %d.", most, step);
  if (positions && most + step > positions)
    g_string_append_printf(a->says, " The model's %d positions allow no more.", positions);
  add_plan(a, q, q->model, &best);
  return a;
}

/* The block that stands for one of a stack of `n`: its first, its last or a middle one of `like`, from `first` on. */
static int stretched(int i, int n, int first, int like)
{
  return first + (i == 0 ? 0 : i == n - 1 ? like - 1 : like / 2);
}

/* Block `i` of the deeper model, as a layer of the model: the most common one, but of an encoder-decoder's stacks. */
static int block_like(const Model *m, const Model *deeper, int i)
{
  int encoder = m->encoder_blocks;

  if (!encoder)
    return m->n_layers / 2;
  return i < deeper->encoder_blocks
             ? stretched(i, deeper->encoder_blocks, 1, encoder)
             : stretched(i - deeper->encoder_blocks, deeper->blocks - deeper->encoder_blocks, 1 + encoder,
                         m->blocks - encoder);
}

/* The model with another number of blocks, of an encoder-decoder in both stacks. */
static Model deeper(const Model *m, int blocks, int **layers)
{
  Model copy = *m;

  copy.blocks = blocks;
  copy.encoder_blocks = (int)((gint64)m->encoder_blocks * blocks / m->blocks);
  copy.n_layers = m->n_layers - m->blocks + blocks;
  copy.layers = *layers = g_new(int, copy.n_layers);
  copy.layers[0] = m->layers[0];
  for (int i = 0; i < blocks; i++)
    copy.layers[i + 1] = m->layers[block_like(m, &copy, i)];
  for (int i = m->blocks + 1; i < m->n_layers; i++)
    copy.layers[blocks + i - m->blocks] = m->layers[i];
  for (int i = 1; i <= m->blocks; i++)
    copy.params -= model_layer(m, i)->params;
  for (int i = 1; i <= blocks; i++)
    copy.params += model_layer(&copy, i)->params;
  return copy;
}

static gboolean fits_depth(const Asked *q, int blocks, guint tried, Plan *likely, Found *best)
{
  g_autofree int *layers = NULL;
  Model model = deeper(q->model, blocks, &layers);

  return ask_either(q, &model, *q->options, tried, likely, best);
}

/* More layers are not tried. */
#define BLOCKS_MAX 4096

static Answer *largest_model(const Asked *q)
{
  Answer *a = plan_answer();
  Found best;
  Grown g = grow(q, fits_depth, q->model->blocks, MAX(1, q->model->blocks / 8), BLOCKS_MAX);
  int most = g.most, step = g.step;
  gboolean found = most > 0 && fits_depth(q, most, 0, &g.plan, &best);
  g_autofree int *layers = NULL;
  Model model = deeper(q->model, MAX(most, 1), &layers);

  if (!found && stop_heard(q->options->stop)) {
    say_grown(a, &g, "layers");
    add_likely(a, q, &model, &g.plan);
    return a;
  }
  if (!found) {
    g_string_printf(a->says, "Not even %d layer%s like those of %s fit%s.", step, step == 1 ? "" : "s",
                    q->model->name, step == 1 ? "s" : "");
    return a;
  }
  g_autofree char *params = format_count(model.params);
  g_string_printf(a->says, "%d layers like those of %s fit, %s parameters, in steps of %d layers.", most,
                  q->model->name, params, step);
  if (most + step > BLOCKS_MAX)
    g_string_append_printf(a->says, " More than %d were not tried.", BLOCKS_MAX);
  add_plan(a, q, &model, &best);
  return a;
}

static Answer *largest_batch(const Asked *q)
{
  Answer *a = plan_answer();
  SearchOptions o = *q->options;
  int batch = o.base->global_batch;
  Plan likely = { 0 };
  Found best;

  for (int size = batch; size >= 1; size--) {
    o.fixed.value[KEY_MICRO_BATCH] = size;
    if (batch % size == 0 && ask_either(q, q->model, o, TRY_LEAN | TRY_ALL, &likely, NULL) &&
        ask_either(q, q->model, o, 0, &likely, &best)) {
      g_string_printf(a->says,
                      "A GPU can hold micro-batches of %d sequences. Memory does not limit the global batch, as "
                      "gradients are accumulated over micro-batches. This is the plan of the largest micro-batch, not the "
                      "fastest.%s", size,
                      size == batch ? " That is all of --global-batch: a larger one may show more." : "");
      add_plan(a, q, q->model, &best);
      return a;
    }
    if (stop_heard(q->options->stop)) {
      g_string_printf(a->says, "Stopped: no micro-batch above %d sequences fits; smaller ones were not tried.", size);
      return a;
    }
  }
  g_string_assign(a->says, "No micro-batch fits.");
  return a;
}

const Question questions[] = {
  { "fewest-gpus", "The fewest GPUs", fewest_gpus, .alike = TRUE },
  { "largest-model", "The largest model", largest_model, .deepens = TRUE, .alike = TRUE },
  { "largest-batch", "The largest batch", largest_batch, .sets = KEY_MICRO_BATCH },
  { "largest-context", "The longest context", largest_context },
  { "sensitivity", "What the hardware's numbers change", answer_sensitivity, .alike = TRUE },
  { "scaling", "More GPUs", answer_scaling, .alike = TRUE },
  { "jitter", "Steps that vary", answer_jitter, .operations = TRUE, .alike = TRUE },
  { "lost-nodes", "Nodes that are lost", answer_lost_nodes, .operations = TRUE, .alike = TRUE },
  { "training", "The whole training run", answer_training, TRUE, TRUE },
  { .name = NULL },
};

const Question *question_find(const char *name)
{
  for (const Question *q = questions; q->name; q++)
    if (g_str_equal(q->name, name))
      return q;
  return NULL;
}

char *question_meant(const char *name)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new();

  for (const Question *q = questions; q->name; q++)
    g_ptr_array_add(names, (gpointer)q->name);
  g_ptr_array_add(names, NULL);
  return names_meant((const char *const *)names->pdata, name);
}

char *question_list(void)
{
  GString *s = g_string_new(NULL);

  for (const Question *q = questions; q->name; q++)
    g_string_append_printf(s, "%s%s", q == questions ? "" : q[1].name ? ", " : " or ", q->name);
  return g_string_free(s, FALSE);
}
