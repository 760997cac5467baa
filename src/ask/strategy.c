#include "ask/strategy.h"

#include "base/table.h"
#include "base/units.h"
#include "sim/simulate.h"

#include <math.h>

#define FAST_BYTES_PER_S 12.5e9
#define AGREES 0.05
#define RECIPES_MAX 3

typedef struct {
  const Asked *asked;
  int node;            /* devices of a node that are in use */
  gboolean several;    /* nodes */
  gboolean fits_device, fits_node, fits_layer;
  double device_bytes; /* needed on one device */
  gboolean fast_node, fast_network;
} Situation;

/* Degrees that a recipe fixes. */
enum { ANY = -1, ALL = -2, NODE = -3 };

typedef struct {
  const char *name;
  int tp, pp, zero;
  gboolean offload; /* the optimizer, to the host */
} Recipe;

static const Recipe plain = { "one GPU", 1, 1, 0, FALSE };
static const Recipe on_host = { "optimizer states in host memory", 1, 1, ANY, TRUE };
static const Recipe data = { "data parallel", 1, 1, 0, FALSE };
static const Recipe zero1 = { "ZeRO-1", 1, 1, 1, FALSE };
static const Recipe zero3 = { "ZeRO-3", 1, 1, 3, FALSE };
static const Recipe tensor = { "tensor parallel over the node", ALL, 1, ANY, FALSE };
static const Recipe pipeline = { "pipeline over the node", 1, ALL, ANY, FALSE };
static const Recipe tensor_data = { "tensor in a node, data parallel over nodes", NODE, 1, ANY, FALSE };
static const Recipe three = { "tensor in a node, pipeline and data parallel", NODE, ANY, ANY, FALSE };
static const Recipe three_zero1 = { "tensor in a node, pipeline and data parallel, ZeRO-1", NODE, ANY, 1, FALSE };

typedef enum { EITHER, ON_PAR, FIRST_WINS } Ranking;

typedef struct {
  gboolean (*holds)(const Situation *s);
  const char *says;
  Ranking ranking;
  const Recipe *recipes[RECIPES_MAX];
} Rule;

static gboolean one_device(const Situation *s) { return s->asked->cluster->devices == 1; }
static gboolean one_fits(const Situation *s) { return one_device(s) && s->fits_device; }
static gboolean fits_device(const Situation *s) { return s->fits_device && !s->several; }
static gboolean huge_layer(const Situation *s) { return !s->fits_layer && !s->several; }
static gboolean fast_node(const Situation *s) { return !s->several && s->fast_node; }
static gboolean one_node(const Situation *s) { return !s->several; }
static gboolean small(const Situation *s) { return s->fits_device; }
static gboolean fast(const Situation *s) { return s->fast_network; }
static gboolean slow_fits_node(const Situation *s) { return s->fits_node; }
static gboolean always(const Situation *s) { (void)s; return TRUE; }

/* The first that holds. */
static const Rule rules[] = {
  { one_fits, "one GPU that the model fits needs no parallelism", EITHER, { &plain } },
  { one_device, "a model that one GPU does not hold keeps states on the host", EITHER, { &on_host } },
  { fits_device, "a node whose GPUs each hold the model: data parallel; ZeRO may or may not be faster",
    EITHER, { &data, &zero1, &zero3 } },
  { huge_layer, "a node whose GPUs cannot hold the largest layer: tensor parallel or ZeRO",
    EITHER, { &tensor, &zero3 } },
  { fast_node, "a node with fast links: tensor parallel, pipeline and ZeRO are on par",
    ON_PAR, { &tensor, &pipeline, &zero3 } },
  { one_node, "a node without fast links: a pipeline is faster than tensor parallel and ZeRO",
    FIRST_WINS, { &pipeline, &tensor, &zero3 } },
  { small, "several nodes, and each GPU holds the model: data parallel; ZeRO may or may not be faster",
    EITHER, { &data, &zero1, &zero3 } },
  { fast, "several nodes on a fast network: ZeRO, or tensor, pipeline and data parallel together",
    EITHER, { &zero3, &three } },
  { slow_fits_node, "several nodes on a slow network, and one holds the model: keep tensor parallel in the node",
    EITHER, { &tensor_data, &three_zero1 } },
  { always, "several nodes on a slow network, and little memory: data, pipeline and tensor parallel with ZeRO-1",
    FIRST_WINS, { &three_zero1, &zero3 } },
};

/* Peak of one sequence with full recomputation on one device; infinite where that is no plan. */
static double one_device_bytes(const Asked *q)
{
  Cluster one = *q->cluster;
  Plan plan = *q->options->base;
  Metrics metrics;

  plan.gpus = plan.global_batch = plan.micro_batch = 1;
  plan.tp = plan.pp = plan.vpp = plan.dp = plan.cp = plan.ep = 1;
  plan.recompute = RECOMPUTE_FULL;
  if (!cluster_resize(&one, 1, NULL) || plan_check(&plan, q->model, &one, NULL) != RULE_NONE)
    return INFINITY;
  g_autoptr(Trace) trace = simulate_plan(q->model, &one, &plan);
  trace_metrics(trace, &metrics);
  return metrics.peak_memory_bytes;
}

static gboolean node_holds(const Asked *q, int node)
{
  Plan base = *q->options->base;
  SearchOptions options = *q->options;
  Found found;

  base.global_batch = node;
  options.base = &base;
  options.fixed = fixed_none();
  return ask_best(q->model, q->cluster, &options, node, &found);
}

/* Weights and gradients of the largest layer, gathered. */
static double layer_bytes(const Asked *q)
{
  double most = 0;

  for (int i = 0; i < q->model->n_specs; i++)
    most = MAX(most, (double)q->model->specs[i].params);
  return 2 * most * dtype_bytes[q->options->base->precision];
}

/* What joins the nodes: the network, or within a rack its own links. */
static const Tier *joining_tier(const Cluster *c)
{
  int t = 0;

  while (t < c->network_tier && c->tiers[t].devices < c->devices)
    t++;
  return &c->tiers[t];
}

static Situation situation_of(const Asked *q)
{
  const Cluster *c = q->cluster;
  Situation s = { .asked = q, .node = MIN(c->devices_per_node, c->devices),
                  .several = c->devices > c->devices_per_node };

  s.device_bytes = one_device_bytes(q);
  s.fits_device = s.device_bytes <= c->device.memory_bytes;
  s.fits_layer = layer_bytes(q) <= c->device.memory_bytes;
  s.fits_node = s.fits_device || node_holds(q, s.node);
  s.fast_node = cluster_has_fast_node(c);
  s.fast_network = s.several && joining_tier(c)->bytes_per_s >= FAST_BYTES_PER_S;
  return s;
}

/* The most tensor parallelism of a node that the heads allow; 1 = none. */
static int tensor_degree(const Situation *s)
{
  int tp = s->node;

  for (int i = 0; i < s->asked->model->n_specs; i++) {
    const LayerSpec *spec = &s->asked->model->specs[i];
    const Attention *a = &spec->attention;
    int heads = spec->linear.heads ? spec->linear.groups : a->kv_lora_rank ? a->heads : a->kv_heads;
    while (heads > 0 && (heads % tp != 0 || s->node % tp != 0))
      tp--;
  }
  return tp;
}

/* Memory, or the rule that kept most others from being broken: rules are checked in order. */
static const char *rejection(const SearchResult *found)
{
  int last = RULE_NONE;

  if (found->rejected[REJECT_MEMORY])
    return reject_text(REJECT_MEMORY);
  for (int i = 0; i < RULE_COUNT; i++)
    last = found->rejected[i] ? i : last;
  return last == RULE_NONE ? "no split of the GPUs" : reject_text(last);
}

/* NULL, or why there is none. */
static const char *try_recipe(const Situation *s, const Recipe *r, Found *out)
{
  SearchOptions options = *s->asked->options;
  int degree = tensor_degree(s);

  if ((r->tp == ALL && degree < s->node) || (r->tp == NODE && degree == 1))
    return reject_text(RULE_HEADS);
  options.top = 1;
  options.brief = options.refine = TRUE;
  options.fixed.value[KEY_TP] = r->tp == NODE || r->tp == ALL ? degree : r->tp;
  options.fixed.value[KEY_PP] = r->pp == ALL ? s->node : r->pp;
  options.fixed.value[KEY_ZERO] = r->zero;
  options.fixed.value[KEY_CP] = r->pp == ANY ? options.fixed.value[KEY_CP] : 1;
  options.fixed.value[KEY_DP] = -1;
  options.fixed.value[KEY_OFFLOAD] = r->offload;
  g_autoptr(SearchResult) found = search(s->asked->model, s->asked->cluster, &options, NULL);
  if (found->best->len == 0)
    return rejection(found);
  *out = *ask_recommended(found, options.tie);
  return NULL;
}

static void say_situation(const Situation *s, GString *out)
{
  const Cluster *c = s->asked->cluster;
  g_autofree char *has = format_bytes(c->device.memory_bytes);
  g_autofree char *needs = isfinite(s->device_bytes) ? format_bytes(s->device_bytes) : g_strdup("more");
  gboolean neither = !s->fits_device && c->devices > 1 && !s->fits_node;
  gboolean nvlink = s->several && g_str_equal(joining_tier(c)->name, "nvlink");

  g_string_append_printf(out, "The model %s one GPU (one sequence with full recomputation needs %s; %s are usable)",
                         s->fits_device ? "fits" : neither ? "fits neither" : "does not fit", needs, has);
  if (!s->fits_device && c->devices > 1)
    g_string_append_printf(out, "%s a node of %d", neither ? " nor" : ", but fits", s->node);
  if (!s->fits_layer)
    g_string_append(out, ". Its largest layer fits no GPU");
  if (s->several)
    g_string_append_printf(out, ". %s%s gives each GPU %.3g GB/s, which the rule calls %s", nvlink ? "NVLink" : "The ",
                           nvlink ? "" : joining_tier(c)->name, joining_tier(c)->bytes_per_s / 1e9,
                           s->fast_network ? "fast" : "slow");
  else if (c->devices > 1)
    g_string_append_printf(out, ". The rule calls the links in the node %s", s->fast_node ? "fast" : "slow");
  g_string_append(out, ".\n");
}

typedef struct {
  const Rule *rule;
  int n;
  Found found[RECIPES_MAX];     /* the best plan of each recipe, unless */
  const char *why[RECIPES_MAX]; /* it has none */
  const Recipe *quickest, *slowest; /* NULL: none fits */
  const Plan *plan; /* of the quickest */
  double least_s, most_s, first_s;
} Tried;

/* Whether the order that the rule gives its recipes holds. */
static void say_ranking(GString *out, const Tried *t)
{
  const Recipe *first = t->rule->recipes[0];

  if (t->rule->ranking == FIRST_WINS && t->quickest != first && t->first_s > t->least_s * (1 + AGREES))
    g_string_append_printf(out, "Of the rule's strategies %s is best, not %s.\n", t->quickest->name, first->name);
  if (t->rule->ranking == ON_PAR && t->most_s > t->least_s * (1 + AGREES))
    g_string_append_printf(out, "They are not on par: %s takes %.0f %% longer than %s.\n", t->slowest->name,
                           100 * (t->most_s / t->least_s - 1), t->quickest->name);
}

static void say_agreement(GString *out, const Tried *t, const Plan *best, double lost)
{
  g_autofree char *theirs = plan_label(t->plan), *ours = plan_label(best);

  g_string_append_printf(out, "The simulation agrees: %s ", t->quickest->name);
  if (g_str_equal(theirs, ours))
    g_string_append(out, "has plan 1.\n");
  else if (lost <= 0)
    g_string_append(out, "has a plan that ties with plan 1.\n");
  else
    g_string_append_printf(out, "comes within %.1f %% of plan 1.\n", 100 * lost);
}

static void say_verdict(GString *out, const Tried *t, const Found *best)
{
  double lost = t->least_s / best->metrics.iteration_s - 1;

  if (!t->quickest) {
    g_string_append(out, "The simulation disagrees: no strategy of the rule is legal and fits.\n");
    return;
  }
  if (lost > AGREES)
    g_string_append_printf(out,
                           "The simulation disagrees: plan 1 takes %.1f %% less time than the best of these, %s.\n",
                           100 * lost / (1 + lost), t->quickest->name);
  else
    say_agreement(out, t, &best->plan, lost);
  say_ranking(out, t);
}

static void add_found(Table *table, const Found *found, double best_s)
{
  double step_s = found->metrics.iteration_s;

  table_take(table, format_seconds(step_s));
  table_add(table, "%+.1f %%", 100 * (step_s / best_s - 1));
  table_take(table, format_bytes(found->metrics.peak_memory_bytes));
  table_take(table, plan_label(&found->plan));
}

static Table *table_of(const Tried *t, double best_s)
{
  Table *table = table_new("<strategy of the rule|step|against plan 1|memory|<best plan with this strategy");

  for (int i = 0; i < t->n; i++) {
    table_add(table, "%s", t->rule->recipes[i]->name);
    if (!t->why[i]) {
      add_found(table, &t->found[i], best_s);
      continue;
    }
    for (int cell = 0; cell < 3; cell++)
      table_add(table, "-");
    table_add(table, "none: %s", t->why[i]);
  }
  return table;
}

/* The rule that holds, with its recipes. */
static void try_rule(const Situation *s, Tried *t)
{
  *t = (Tried) { .rule = rules, .least_s = INFINITY, .most_s = 0, .first_s = INFINITY };
  while (!t->rule->holds(s))
    t->rule++;
  for (int i = 0; i < RECIPES_MAX && t->rule->recipes[i]; i++) {
    const Recipe *r = t->rule->recipes[i];
    t->why[i] = try_recipe(s, r, &t->found[i]);
    t->n = i + 1;
    if (t->why[i])
      continue;
    double step_s = t->found[i].metrics.iteration_s;
    t->first_s = i == 0 ? step_s : t->first_s;
    t->plan = step_s < t->least_s ? &t->found[i].plan : t->plan;
    t->quickest = step_s < t->least_s ? r : t->quickest;
    t->slowest = step_s > t->most_s ? r : t->slowest;
    t->least_s = MIN(t->least_s, step_s);
    t->most_s = MAX(t->most_s, step_s);
  }
}

char *strategy_text(const Asked *asked, const Found *best)
{
  Situation s = situation_of(asked);
  double best_s = best->metrics.iteration_s;
  GString *out = g_string_new("Rule of thumb\n");
  Tried tried;

  try_rule(&s, &tried);
  say_situation(&s, out);
  g_string_append_printf(out, "The rule: %s.\n", tried.rule->says);
  g_autoptr(Table) table = table_of(&tried, best_s);
  g_autofree char *rows = table_text(table, 2);
  g_string_append(out, rows);
  say_verdict(out, &tried, best);
  return g_string_free(out, FALSE);
}

void strategy_write(const Asked *asked, const Found *best, JsonWriter *w, const char *key)
{
  Situation s = situation_of(asked);
  Tried tried;

  try_rule(&s, &tried);
  json_open(w, key, '{');
  json_put_bool(w, "fits_device", s.fits_device);
  json_put_bool(w, "fits_node", s.fits_node);
  json_put_string(w, "rule", tried.rule->says);
  json_put_bool(w, "agrees", tried.quickest && tried.least_s <= best->metrics.iteration_s * (1 + AGREES));
  json_open(w, "recipes", '[');
  for (int i = 0; i < tried.n; i++) {
    json_open(w, NULL, '{');
    json_put_string(w, "name", tried.rule->recipes[i]->name);
    if (tried.why[i]) {
      json_put_string(w, "none", tried.why[i]);
    } else {
      g_autofree char *label = plan_label(&tried.found[i].plan);
      json_put_real(w, "iteration_s", tried.found[i].metrics.iteration_s);
      json_put_real(w, "peak_memory_bytes", tried.found[i].metrics.peak_memory_bytes);
      json_put_string(w, "plan", label);
    }
    json_close(w, '}');
  }
  json_close(w, ']');
  json_close(w, '}');
}
