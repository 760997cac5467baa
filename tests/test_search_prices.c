#include "main.h"
#include "search/space.h"
#include "search_instance.h"

#include <stdio.h>

/*
 * Prices and bounds are functions of a plan, whatever was priced before it: random questions to every file of
 * plans/frameworks. CASES=N asks each test N times as much, and prints how much that was.
 */

static void say_cases(const char *what, const char *framework, gint64 plans)
{
  if (g_getenv("CASES"))
    fprintf(stderr, "%s: %s: %" G_GINT64_FORMAT " plans, no miss\n", what, framework, plans);
}

#define TRIES 40
#define BRUTE_FORCED 250 /* plans of a space, at most */

/* A question, with all plans of its space (Plan): one at least and `most` at most; NULL after many draws without any. */
static GArray *draw_question(Instance *in, GRand *rand, const char *framework, guint most)
{
  for (int none = 0; none < TRIES;) {
    instance_framework_init(in, rand, framework);
    instance_fix(in, rand);
    g_autoptr(GArray) all = instance_plans_within(in, most);
    if (all && all->len > 0)
      return g_steal_pointer(&all);
    none += all != NULL;
    instance_clear(in);
  }
  return NULL;
}

/* ---- passes ---- */

/* A layer's price by ops that were made for it alone. */
static LayerPrice price_directly(const Instance *in, const Plan *plan, int spec)
{
  PassLayout passes = *PASSES(plan);
  LayerWork work;
  LayerPrice price;

  layer_work_init(&work, in->model, &in->model->specs[spec], &passes, in->cluster);
  LayerTimes times = layer_times(&work, &passes, in->cluster, NULL);
  layer_price_at(&price, NULL, &work, &times, &passes, in->cluster);
  layer_work_clear(&work);
  layer_times_clear(&times);
  return price;
}

static void check_price(const Instance *in, const Plan *plan, const LayerPrice *found, int spec)
{
  const LayerPrice own = price_directly(in, plan, spec);
  g_autofree char *label = NULL;

  if (memcmp(&own, found, sizeof own) != 0)
    ck_abort_msg("%s: spec %d: %.17g s forward, %.17g s backward; of the table %.17g and %.17g",
                 label = plan_label(plan), spec, own.pass[PASS_FORWARD].seconds, own.pass[PASS_BACKWARD].seconds,
                 found->pass[PASS_FORWARD].seconds, found->pass[PASS_BACKWARD].seconds);
}

/* The plan in 16 bits, if a layer is. */
static Plan plan_of_layer(const Instance *in, const Plan *plan, int layer)
{
  Plan own = *plan;

  if (layer >= 1 && (layer <= plan->wide.start || layer > in->model->blocks - plan->wide.end) && layer <= in->model->blocks)
    plan_set_format(&own, DTYPE_BF16);
  return own;
}

/* Where a number of each stage's layers is made again, as the space has it, the first ones; where some blocks are not
 * cast, these as in bf16. */
static void check_layers(const Instance *in, const Plan *plan, const PriceTable *table)
{
  gboolean counts = recompute_counts(&plan->scope);

  ck_assert(counts || wide_any(&plan->wide));
  ck_assert(!counts || plan->scope.method == RECOMPUTE_BLOCK);
  for (int stage = 0; stage < plan_stages(plan); stage++) {
    int first = plan_stage_first_layer(plan, in->model, stage);
    int end = plan_stage_first_layer(plan, in->model, stage + 1);
    int again = counts ? MAX(first, 1) + plan->scope.layers : end;
    for (int i = first; i < end; i++) {
      Plan own = plan_of_layer(in, plan, i);
      own.recompute = i < again ? own.recompute : RECOMPUTE_NONE;
      check_price(in, &own, &table->layers[i], in->model->layers[i]);
    }
  }
}

static void check_table(const Instance *in, const Plan *plan)
{
  g_autoptr(PriceTable) table = price_table_new(in->model, LAYOUT(plan), in->cluster);

  if (table->by_layer)
    check_layers(in, plan, table);
  for (int i = 0; i < in->model->n_specs && !table->by_layer; i++)
    check_price(in, plan, &table->layers[i], i);
}

START_TEST(tables_are_of_their_passes)
{
  g_autofree char *name = fixture_framework_name(_i);
  GRand *rand = test_rand(100 + _i);
  gint64 checked = 0;

  for (int i = 0; i < 4 * fixture_cases(); i++) {
    Instance in;
    g_autoptr(GArray) all = draw_question(&in, rand, name, G_MAXUINT);
    ck_assert_ptr_nonnull(all);
    for (guint k = 0; k < all->len; k += 1 + all->len / 40, checked++)
      check_table(&in, &g_array_index(all, Plan, k));
    instance_clear(&in);
  }
  say_cases("tables", name, checked);
  g_rand_free(rand);
}
END_TEST

/* ---- caches ---- */

/* What a search asks of a plan before it is simulated. */
typedef struct {
  double time_s, order_s, memory_bytes, memory_by_order_bytes;
} Bounds;

static Bounds bounds_of(const Instance *in, const Plan *plan, const PriceSums *sums)
{
  const BoundRanks ranks = bound_ranks(in->model, LAYOUT(plan), sums);

  return (Bounds) { bound_time(in->model, LAYOUT(plan), in->cluster, sums, NULL),
                    bound_time_by_order(in->model, LAYOUT(plan), in->cluster, sums), bound_memory(LAYOUT(plan), &ranks),
                    bound_memory_by_order(in->model, LAYOUT(plan), sums) };
}

typedef struct {
  Plan plan;
  double time_s, without_s, memory_bytes; /* as the walk bounds it; without_s: without the tensor overlap, or 0 */
} Walked;

typedef struct {
  const Instance *in;
  GArray *walked;
} Walks;

static gboolean keep_leaf(gpointer data, const SpaceLeaf *leaf)
{
  const Walks *w = data;
  const Instance *in = w->in;
  Walked one = { *leaf->plan, bound_time(in->model, LAYOUT(leaf->plan), in->cluster, leaf->sums, leaf->ends), 0,
                 bound_memory(LAYOUT(leaf->plan), leaf->ranks) };
  Plan without = one.plan;

  space_switch_off(&without, OVERLAP_TENSOR);
  if (leaf->without)
    one.without_s = bound_time(in->model, LAYOUT(&without), in->cluster, leaf->without, leaf->ends);
  g_array_append_val(w->walked, one);
  return TRUE;
}

static void pass_over(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  (void)data, (void)plan, (void)rule, (void)plans;
}

static void check_same(const Plan *plan, const char *what, double found, double afresh)
{
  g_autofree char *label = NULL;

  if (found != afresh)
    ck_abort_msg("%s: %s: %.17g, afresh %.17g", label = plan_label(plan), what, found, afresh);
}

/* Prices and bounds through a cache that knows other plans against those of one that knows none. */
static void check_afresh(const Instance *in, const Walked *w, PriceCache *warm)
{
  g_autoptr(PriceCache) cold = price_cache_new(in->model, in->cluster);
  const PriceSums *found = price_cache_sums(warm, PASSES(&w->plan)), *afresh = price_cache_sums(cold, PASSES(&w->plan));
  const PriceTable *a = found->prices, *b = afresh->prices;
  Bounds x = bounds_of(in, &w->plan, found), y = bounds_of(in, &w->plan, afresh);
  Plan without = w->plan, whole = w->plan;

  ck_assert_int_eq(a->n, b->n);
  ck_assert_mem_eq(a->layers, b->layers, b->n_types * b->n * sizeof *b->layers);
  ck_assert_mem_eq(found->forward_s, afresh->forward_s, price_sums_bytes(in->model, afresh) - sizeof *afresh);
  check_same(&w->plan, "time", x.time_s, y.time_s);
  check_same(&w->plan, "time in the walk", w->time_s, y.time_s);
  check_same(&w->plan, "time by order", x.order_s, y.order_s);
  check_same(&w->plan, "memory", x.memory_bytes, y.memory_bytes);
  check_same(&w->plan, "memory in the walk", w->memory_bytes, y.memory_bytes);
  check_same(&w->plan, "memory by order", x.memory_by_order_bytes, y.memory_by_order_bytes);
  space_switch_off(&without, OVERLAP_TENSOR);
  if (w->without_s > 0)
    check_same(&without, "time in the walk", w->without_s,
               bound_time(in->model, LAYOUT(&without), in->cluster, price_cache_sums(cold, PASSES(&without)), NULL));
  memset(&whole.split, 0, sizeof whole.split);
  if (w->plan.split.stages > 0)
    ck_assert_mem_eq(price_cache_split(cold, &whole), &w->plan.split, sizeof whole.split);
  for (int unhosted = 0; unhosted < 2 && w->plan.scope.layers == 0; unhosted++) {
    LeastWork least = price_cache_least(warm, PASSES(&without), unhosted);
    LeastWork afresh_least = price_cache_least(cold, PASSES(&without), unhosted);
    ck_assert_mem_eq(&least, &afresh_least, sizeof least);
  }
  const LayerSplit *split = price_cache_split(warm, &whole), *fresh_split = price_cache_split(cold, &whole);
  ck_assert_int_eq(split != NULL, fresh_split != NULL);
  if (split)
    ck_assert_mem_eq(split, fresh_split, sizeof *split);
}

static void shuffle(GArray *walked, GRand *rand)
{
  for (guint i = walked->len; i > 1; i--) {
    Walked *a = &g_array_index(walked, Walked, i - 1);
    Walked *b = &g_array_index(walked, Walked, g_rand_int_range(rand, 0, i)), swap = *a;
    *a = *b;
    *b = swap;
  }
}

/* What stands for plans with graphs where many are bounded as one: they take as long at least as the same without
 * graphs on a host that is never waited for, and keep as much; some that have graphs take less than those without. */
START_TEST(a_host_never_waited_for_bounds_graphs)
{
  GRand *rand = test_rand(6600);
  int compared = 0, faster = 0;

  for (int i = 0; i < 12; i++) {
    Instance in;
    instance_latent_init(&in, rand);
    in.options.fixed.value[KEY_OVERLAP] = i % 2;
    g_autoptr(GArray) all = instance_plans(&in);
    g_autoptr(PriceCache) prices = price_cache_new(in.model, in.cluster);
    for (guint k = 0; k < all->len; k++) {
      const Plan *p = &g_array_index(all, Plan, k);
      Plan bare = *p;
      bare.graph = GRAPH_NONE;
      if (p->graph == GRAPH_NONE || p->scope.layers > 0)
        continue;
      LeastWork own = price_cache_least(prices, PASSES(p), FALSE), least = price_cache_least(prices, PASSES(&bare), TRUE);
      LeastWork hosted = price_cache_least(prices, PASSES(&bare), FALSE);
      for (int pass = 0; pass < LEAST_COUNT; pass++)
        for (int inner = 0; inner < 2; inner++)
          ck_assert_double_le(least.seconds[pass][inner], own.seconds[pass][inner] * (1 + 1e-12));
      ck_assert_double_le(least.block_s, own.block_s * (1 + 1e-12));
      ck_assert_double_le(least.saved_bytes, own.saved_bytes);
      faster += own.seconds[LEAST_WHOLE][0] < hosted.seconds[LEAST_WHOLE][0];
      compared++;
    }
    instance_clear(&in);
  }
  ck_assert_int_gt(compared, 1000);
  ck_assert_int_gt(faster, compared / 10);
  g_rand_free(rand);
}
END_TEST

#define QUESTIONS 4  /* to one model, cluster and framework, by what is fixed */
#define COMPARED 160 /* plans of all of them */

/* Walks through one cache, what they saw against a cache that saw it in another order and one that saw nothing. */
static gint64 check_caches(Instance *in, GRand *rand)
{
  g_autoptr(GArray) walked = g_array_new(FALSE, FALSE, sizeof(Walked));
  g_autoptr(PriceCache) warm = price_cache_new(in->model, in->cluster);
  Walks walks = { in, walked };
  const SpaceVisitor visitor = { keep_leaf, TRUE, pass_over, &walks };

  for (int i = 0; i < QUESTIONS; i++) {
    space_walk(in->model, in->cluster, &in->options, warm, &visitor);
    instance_fix(in, rand);
  }
  shuffle(walked, rand);
  g_array_set_size(walked, MIN(walked->len, COMPARED));
  for (guint i = 0; i < walked->len; i++) {
    check_afresh(in, &g_array_index(walked, Walked, i), warm);
    if (g_rand_int_range(rand, 0, 20) == 0)
      price_cache_trim(warm, 4096);
  }
  return walked->len;
}

START_TEST(caches_do_not_matter)
{
  g_autofree char *name = fixture_framework_name(_i);
  GRand *rand = test_rand(200 + _i);
  gint64 checked = 0;

  for (int i = 0; i < 3 * fixture_cases(); i++) {
    Instance in;
    g_autoptr(GArray) all = draw_question(&in, rand, name, G_MAXUINT);
    ck_assert_ptr_nonnull(all);
    checked += check_caches(&in, rand);
    instance_clear(&in);
  }
  say_cases("caches", name, checked);
  g_rand_free(rand);
}
END_TEST

/* ---- answers ---- */

typedef struct {
  const Instance *in;
  GArray *parts;   /* SpacePart: those of which leaves are visited, outer ones first */
  SpaceWalk *walk;
  PriceCache *prices;
  gint64 met, rejected, legal; /* plans */
  double closest;  /* most of a simulated step that a bound of its part is */
} Parts;

static void check_in_part(const Parts *p, const SpacePart *part, const SpaceLeaf *leaf, const Metrics *m)
{
  double peak = memory_in_room(p->in->cluster, m->peak_memory_bytes, m->capacity_bytes);
  g_autofree char *label = NULL;

  ck_assert_int_ge(leaf->index, part->index);
  double bound_s = m->peak_memory_bytes > m->capacity_bytes && part->pass < 0 ? part->any_s : part->bound_s;
  if (bound_s > m->iteration_s || part->memory_bytes > peak)
    ck_abort_msg("%s: bounds of a part %.9g s, %.0f bytes, simulated %.9g s, %.0f bytes",
                 label = plan_label(leaf->plan), bound_s, part->memory_bytes, m->iteration_s, peak);
}

static gboolean visit_leaf(gpointer data, const SpaceLeaf *leaf)
{
  Parts *p = data;

  p->legal += 1 << __builtin_popcount(leaf->switches);
  for (guint off = 0; off <= leaf->switches; off++) {
    Plan plan = *leaf->plan;
    Metrics m;
    if (off & ~leaf->switches)
      continue;
    space_switch_off(&plan, off);
    instance_simulate(p->in, &plan, NULL, &m);
    for (guint i = 0; i < p->parts->len; i++) {
      const SpacePart *part = &g_array_index(p->parts, SpacePart, i);
      check_in_part(p, part, leaf, &m);
      p->closest = MAX(p->closest, part->bound_s / m.iteration_s);
    }
  }
  return FALSE;
}

static void count_rejected(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  (void)plan, (void)rule;
  ((Parts *)data)->rejected += plans;
}

/* Enters each part as it is met. */
static void visit_part(gpointer data, const SpacePart *part)
{
  Parts *p = data;

  if (part->pass < 0)
    p->met += part->plans;
  g_array_append_val(p->parts, *part);
}

/* What parts say of their plans, however deep: no plan takes less (of those that do not fit, than with any memory) or
 * needs less, and each is in one. */
START_TEST(parts_are_bounded)
{
  g_autofree char *name = fixture_framework_name(_i);
  GRand *rand = test_rand(600 + _i);
  double closest = 0;

  for (int done = 0; done < 2 * fixture_cases(); done++) {
    Instance in;
    g_autoptr(GArray) all = draw_question(&in, rand, name, BRUTE_FORCED), met = g_array_new(FALSE, FALSE, sizeof(SpacePart));
    g_autoptr(GArray) inner = g_array_new(FALSE, FALSE, sizeof(SpacePart));
    g_autoptr(PriceCache) prices = price_cache_new(in.model, in.cluster);
    Parts p = { .in = &in, .parts = met };
    const SpaceVisitor visitor = { visit_leaf, TRUE, count_rejected, &p, NULL, visit_part, NULL, INFINITY };
    ck_assert_ptr_nonnull(all);
    in.options.brief = done % 2 == 0; /* which counts inputs of layers */
    g_autoptr(SpaceWalk) walk = space_walk_new(in.model, in.cluster, &in.options, prices, &visitor);
    ck_assert_int_eq(space_walk_all(walk), p.met + p.rejected);
    for (guint i = 0; i < met->len; i++) {
      const SpacePart outer = g_array_index(met, SpacePart, i);
      gint64 before = p.legal + p.rejected;
      g_array_set_size(inner, 0);
      p.parts = inner;
      space_walk_enter(walk, &outer);
      g_autoptr(GArray) choices = g_array_copy(inner);
      for (guint k = choices->len; k-- > 0;) { /* in any order */
        const SpacePart choice = g_array_index(choices, SpacePart, k);
        g_array_set_size(inner, 0);
        g_array_append_val(inner, outer);
        g_array_append_val(inner, choice);
        space_walk_enter(walk, &choice);
      }
      ck_assert_int_eq(p.legal + p.rejected - before, outer.plans);
    }
    closest = MAX(closest, p.closest);
    instance_clear(&in);
  }
  ck_assert_double_gt(closest, 0.3); /* they say something */
  g_rand_free(rand);
}
END_TEST

static void keep_part(gpointer data, const SpacePart *part)
{
  g_array_append_val((GArray *)data, *part);
}

static void keep_no_rule(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  (void)data, (void)plan, (void)rule, (void)plans;
}

/* The micro-batches of all degrees, on devices of that much memory. */
static GArray *meet_batches(Instance *in, double memory_bytes)
{
  GArray *met = g_array_new(FALSE, FALSE, sizeof(SpacePart));
  g_autoptr(PriceCache) prices = price_cache_new(in->model, in->cluster);
  const SpaceVisitor visitor = { visit_leaf, TRUE, keep_no_rule, met, NULL, keep_part, NULL, INFINITY };

  in->cluster->device.memory_bytes = memory_bytes;
  space_walk(in->model, in->cluster, &in->options, prices, &visitor);
  return met;
}

static gboolean splits_backwards(const Instance *in)
{
  const Schedule *fixed = fixed_schedule(&in->options.fixed);
  gboolean splits = FALSE;

  for (int i = 0; schedules[i]; i++)
    splits |= schedules[i]->split &&
              (fixed ? fixed == schedules[i] : framework_runs(in->options.base->framework, schedules[i]));
  return splits;
}

/* Half of what a micro-batch needs more than the first of its degrees: less than one layer of it does. */
static double too_little(const GArray *met)
{
  double more = 0, first = 0;

  for (guint i = 0, degrees = G_MAXUINT; i < met->len; i++) {
    const SpacePart *part = &g_array_index(met, SpacePart, i);
    first = part->degrees == degrees ? first : part->memory_bytes;
    degrees = part->degrees;
    more = MAX(more, part->memory_bytes - first);
  }
  return more / 2;
}

/* Where one layer of a micro-batch fills more than the device, larger ones are not looked at: they need no less. */
START_TEST(larger_micro_batches_need_no_less)
{
  g_autofree char *name = fixture_framework_name(_i);
  GRand *rand = g_rand_new_with_seed(900 + _i);
  gint64 passed_over = 0;
  gboolean any = FALSE;

  for (int i = 0; i < 6 * fixture_cases(); i++) {
    Instance in;
    g_autoptr(GArray) all = draw_question(&in, rand, name, G_MAXUINT);
    ck_assert_ptr_nonnull(all);
    g_autoptr(GArray) large = meet_batches(&in, 1e15);
    double bytes = too_little(large);
    g_autoptr(GArray) small = bytes > 0 ? meet_batches(&in, bytes) : g_array_copy(large);
    ck_assert_uint_eq(small->len, large->len);
    for (guint k = 0; k < large->len; k++) {
      const SpacePart *x = &g_array_index(small, SpacePart, k), *y = &g_array_index(large, SpacePart, k);
      ck_assert_double_le(x->memory_bytes, y->memory_bytes * (1 + 1e-12));
      ck_assert(x->bound_s == 0 || x->bound_s == y->bound_s);
      passed_over += x->bound_s < y->bound_s;
    }
    any |= bytes > 0 && !splits_backwards(&in);
    instance_clear(&in);
  }
  ck_assert(passed_over > 0 || !any);
  say_cases("micro-batches", name, passed_over);
  g_rand_free(rand);
}
END_TEST

/* Every plan of spaces of whole frameworks is simulated: no bound exceeds it, and the search's answer is the best. */
START_TEST(frameworks_agree)
{
  g_autofree char *name = fixture_framework_name(_i);
  GRand *rand = test_rand(300 + _i);
  gint64 checked = 0;

  for (int done = 0; done < 3 * fixture_cases(); done++) {
    Instance in;
    g_autoptr(GArray) all = draw_question(&in, rand, name, BRUTE_FORCED);
    ck_assert_ptr_nonnull(all);
    instance_check_all(&in, all);
    checked += all->len;
    instance_clear(&in);
  }
  say_cases("answers", name, checked);
  g_rand_free(rand);
}
END_TEST

/* What a plan of the space is fixed to. */
static void fix_to(Fixed *f, const Plan *p)
{
  static const PlanKeyId keys[] = { KEY_TP, KEY_PP, KEY_VPP, KEY_DP, KEY_CP, KEY_ZERO, KEY_MICRO_BATCH,
                                    KEY_SEQUENCE_PARALLEL };

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    f->value[keys[i]] = G_STRUCT_MEMBER(int, p, plan_key_of(keys[i])->field.offset);
}

/* The best plan stays the best, to the last bit, where the space is cut down to plans of its own degrees. */
START_TEST(fixed_to_the_best)
{
  g_autofree char *name = fixture_framework_name(_i);
  GRand *rand = test_rand(400 + _i);

  for (int i = 0; i < 2 * fixture_cases(); i++) {
    Instance in;
    g_autoptr(GArray) plans = draw_question(&in, rand, name, G_MAXUINT);
    ck_assert_ptr_nonnull(plans);
    g_autoptr(SearchResult) all = search(in.model, in.cluster, &in.options, NULL);
    if (all->best->len > 0) {
      const Found *best = &g_array_index(all->best, Found, 0);
      fix_to(&in.options.fixed, &best->plan);
      g_autoptr(SearchResult) own = search(in.model, in.cluster, &in.options, NULL);
      ck_assert_uint_gt(own->best->len, 0);
      ck_assert_double_eq(g_array_index(own->best, Found, 0).value, best->value);
    }
    instance_clear(&in);
  }
  g_rand_free(rand);
}
END_TEST

/* ---- the plan that showed it ---- */

/* The first certificate called a plan bounded at 5.865 s that took 5.790 s: prices of a plan without data parallelism
 * went for one of ZeRO-3. */
START_TEST(zero3_first_stage)
{
  g_autoptr(Model) model = fixture_known_model("llama-3.1-8b");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 32);
  g_autoptr(Framework) framework = fixture_framework("torchtitan");
  Plan base = plan_default(model, framework);
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1 };
  double best[2];

  base.gpus = 32;
  base.global_batch = 128;
  base.seq = 8192;
  ck_assert(fixed_parse("--fix", "zero=3,reshard=1,cp=4,sp=0,overlap=1,recompute=none,tp=2,mbs=1", &options.fixed, NULL));
  for (int dp = 0; dp < 2; dp++) {
    options.fixed.value[KEY_DP] = dp ? 1 : -1;
    g_autoptr(SearchResult) r = search(model, cluster, &options, NULL);
    ck_assert_uint_eq(r->best->len, 1);
    const Found *found = &g_array_index(r->best, Found, 0);
    const Instance in = { .model = model, .cluster = cluster };
    Metrics m;
    instance_simulate(&in, &found->plan, NULL, &m);
    ck_assert_double_le(found->bound_s, m.iteration_s);
    ck_assert_double_eq(found->value, m.iteration_s);
    best[dp] = found->value;
  }
  ck_assert_double_le(best[0], best[1]);
}
END_TEST

TEST_LOOPS("search prices", { tables_are_of_their_passes, FIXTURE_FRAMEWORKS, TRUE },
           { caches_do_not_matter, FIXTURE_FRAMEWORKS, TRUE }, { parts_are_bounded, FIXTURE_FRAMEWORKS, TRUE },
           { larger_micro_batches_need_no_less, FIXTURE_FRAMEWORKS, TRUE },
           { frameworks_agree, FIXTURE_FRAMEWORKS, TRUE }, { fixed_to_the_best, FIXTURE_FRAMEWORKS, TRUE },
           { zero3_first_stage, 1 }, { a_host_never_waited_for_bounds_graphs, 1 })
