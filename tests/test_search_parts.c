#include "main.h"
#include "search/space.h"
#include "search_instance.h"

#include <math.h>

/* What parts of the space say of all their plans, before any of these is priced. */

typedef struct {
  const Instance *in;
  GArray *parts;
  double least;
} LeastPeak;

static void keep_outer(gpointer data, const SpacePart *part)
{
  if (part->pass < 0)
    g_array_append_val(((LeastPeak *)data)->parts, *part);
}

static gboolean keep_least(gpointer data, const SpaceLeaf *leaf)
{
  LeastPeak *l = data;
  Metrics m;

  instance_simulate(l->in, leaf->plan, NULL, &m);
  l->least = MIN(l->least, m.peak_memory_bytes);
  return FALSE;
}

static void pass_over(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  (void)data, (void)plan, (void)rule, (void)plans;
}

/* Long sequences on four devices in nodes of two, so that blocks need more for what they keep than for states. */
static void long_sequences(Instance *in, const char *framework, int blocks)
{
  *in = (Instance) { 0 };
  instance_odd_links(in, framework, 4, 2);
  model_free(in->model);
  in->model = fixture_llama(blocks, 256, 4, 4, 16384, 512);
  in->base = plan_default(in->model, in->framework);
  in->base.gpus = 4;
  in->base.global_batch = 8;
  in->options = (SearchOptions) { .base = &in->base, .fixed = fixed_none(), .brief = TRUE };
  in->options.fixed.value[KEY_OVERLAP] = 0;
  in->options.fixed.value[KEY_CP] = 1;
}

/* No plan needs less than its part is said to. Returns how much of the least peak parts are said to need, at most. */
static double closest_part(Instance *in)
{
  g_autoptr(GArray) parts = g_array_new(FALSE, FALSE, sizeof(SpacePart));
  g_autoptr(PriceCache) prices = price_cache_new(in->model, in->cluster);
  LeastPeak l = { in, parts, INFINITY };
  const SpaceVisitor bound = { keep_least, TRUE, pass_over, &l, NULL, keep_outer, NULL, INFINITY };
  const SpaceVisitor visit = { keep_least, TRUE, pass_over, &l };
  g_autoptr(SpaceWalk) walk = space_walk_new(in->model, in->cluster, &in->options, prices, &bound);
  double closest = 0;

  space_walk_all(walk);
  for (guint i = 0; i < parts->len; i++) {
    const SpacePart *part = &g_array_index(parts, SpacePart, i);
    const Plan plan = space_part_plan(walk, part);
    SearchOptions own = in->options;
    const int fixed[] = { KEY_TP, plan.tp, KEY_PP, plan.pp, KEY_DP, plan.dp, KEY_MICRO_BATCH, part->micro_batch };
    for (gsize k = 0; k < G_N_ELEMENTS(fixed); k += 2)
      own.fixed.value[fixed[k]] = fixed[k + 1];
    l.least = INFINITY;
    space_walk(in->model, in->cluster, &own, prices, &visit);
    ck_assert_double_le(part->memory_bytes, l.least);
    closest = MAX(closest, isinf(l.least) ? 0 : part->memory_bytes / l.least);
  }
  ck_assert_uint_gt(parts->len, 5);
  return closest;
}

/* Of many blocks most is counted. */
START_TEST(parts_count_inputs_of_blocks)
{
  static const char *const names[] = { "megatron-core-2026", "megatron-core", "deepspeed", "torchtitan" };
  Instance in;

  long_sequences(&in, names[_i], 48);
  ck_assert_double_gt(closest_part(&in), 0.85);
  instance_clear(&in);
}
END_TEST

/* Parts of degrees and micro-batches, counting inputs or not. */
static GArray *outer_parts(Instance *in, gboolean brief)
{
  GArray *parts = g_array_new(FALSE, FALSE, sizeof(SpacePart));
  g_autoptr(PriceCache) prices = price_cache_new(in->model, in->cluster);
  LeastPeak l = { in, parts, INFINITY };
  const SpaceVisitor bound = { keep_least, TRUE, pass_over, &l, NULL, keep_outer, NULL, INFINITY };

  in->options.brief = brief;
  g_autoptr(SpaceWalk) walk = space_walk_new(in->model, in->cluster, &in->options, prices, &bound);
  space_walk_all(walk);
  return parts;
}

/* The third block, as one that no gradient passes. */
static void detach_block(Instance *in)
{
  Model *m = in->model;
  int detached = m->n_specs++;

  m->specs = g_renew(LayerSpec, m->specs, m->n_specs);
  m->specs[detached] = m->specs[m->layers[3]];
  m->specs[detached].detached = TRUE;
  m->layers[3] = detached;
}

/* Inputs of all blocks that a gradient passes but one of each rank. */
START_TEST(parts_count_each_input_once)
{
  const int blocks = 8;
  Instance in;

  long_sequences(&in, "megatron-core", blocks);
  in.options.fixed.value[KEY_TP] = 1;
  if (_i)
    detach_block(&in);
  for (int pp = 1; pp <= 4; pp *= 2) {
    in.options.fixed.value[KEY_PP] = pp;
    g_autoptr(GArray) with = outer_parts(&in, TRUE), without = outer_parts(&in, FALSE);
    ck_assert_uint_gt(with->len, 0);
    ck_assert_uint_eq(with->len, without->len);
    for (guint i = 0; i < with->len; i++) {
      const SpacePart *a = &g_array_index(with, SpacePart, i), *b = &g_array_index(without, SpacePart, i);
      double input = 2.0 * a->micro_batch * in.model->seq * in.model->hidden * (1 + in.framework->fragmentation);
      ck_assert_double_eq_tol((a->memory_bytes - b->memory_bytes) / input * pp, blocks - _i - pp, 1e-6);
    }
  }
  instance_clear(&in);
}
END_TEST

/* ---- plans that make no whole blocks again ---- */

typedef struct {
  double peak, step_s;
  gboolean made; /* whole blocks again */
} Made;

typedef struct {
  const Instance *in;
  GArray *plans; /* Made */
} MadePlans;

static gboolean keep_plan(gpointer data, const SpaceLeaf *leaf)
{
  MadePlans *all = data;
  Metrics m;

  instance_simulate(all->in, leaf->plan, NULL, &m);
  const Made own = { m.peak_memory_bytes, m.iteration_s, leaf->plan->recompute == RECOMPUTE_FULL };
  g_array_append_val(all->plans, own);
  return FALSE;
}

/* What the plans of a part come to. */
static GArray *plans_of(const Instance *in, const SpacePart *part, const Plan *plan)
{
  g_autoptr(PriceCache) prices = price_cache_new(in->model, in->cluster);
  MadePlans all = { in, g_array_new(FALSE, FALSE, sizeof(Made)) };
  const SpaceVisitor visit = { keep_plan, TRUE, pass_over, &all };
  SearchOptions own = in->options;
  const int fixed[] = { KEY_TP, plan->tp, KEY_PP, plan->pp, KEY_DP, plan->dp, KEY_MICRO_BATCH, part->micro_batch,
                        KEY_EP, plan->ep, KEY_ETP, plan_expert_tensor(plan) };

  for (gsize k = 0; k < G_N_ELEMENTS(fixed); k += 2)
    own.fixed.value[fixed[k]] = fixed[k + 1];
  space_walk(in->model, in->cluster, &own, prices, &visit);
  return all.plans;
}

/* Returns how much of the least peak of those that keep blocks the part is said to need; counts a raised bound. */
static double check_kept(const Instance *in, const SpacePart *part, const GArray *plans, int *raised)
{
  double least = INFINITY, device = in->cluster->device.memory_bytes;

  for (guint i = 0; i < plans->len; i++) {
    const Made *plan = &g_array_index(plans, Made, i);
    ck_assert_double_le(part->any_s, plan->step_s);
    ck_assert(plan->peak > device || part->bound_s <= plan->step_s);
    ck_assert(plan->made || part->kept_bytes <= plan->peak);
    least = plan->made ? least : MIN(least, plan->peak);
  }
  *raised += part->kept_bytes > device && part->bound_s > part->any_s;
  return isinf(least) ? 0 : part->kept_bytes / least;
}

/* A part's bounds on devices of several sizes, against all of its plans. */
START_TEST(parts_make_blocks_again_where_these_do_not_fit)
{
  static const char *const names[] = { "megatron-core-2026", "megatron-core", "deepspeed", "torchtitan" };
  g_autoptr(GPtrArray) plans = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
  double closest = 0;
  int raised = 0;
  Instance in;

  long_sequences(&in, names[_i / 2], 8);
  in.base.global_batch = 16;
  if (_i % 2) {
    model_free(in.model);
    in.model = fixture_experts(8, 256, 4, 4, 4096, 512);
  }
  for (double share = 0.05; share < 3; share *= 1.5) {
    in.cluster->device.memory_bytes = share * 1e9;
    g_autoptr(GArray) parts = g_array_new(FALSE, FALSE, sizeof(SpacePart));
    g_autoptr(PriceCache) prices = price_cache_new(in.model, in.cluster);
    LeastPeak l = { &in, parts, INFINITY };
    const SpaceVisitor bound = { keep_least, TRUE, pass_over, &l, NULL, keep_outer, NULL, INFINITY };
    g_autoptr(SpaceWalk) walk = space_walk_new(in.model, in.cluster, &in.options, prices, &bound);
    space_walk_all(walk);
    for (guint i = 0; i < parts->len; i++) {
      const SpacePart *part = &g_array_index(parts, SpacePart, i);
      const Plan plan = space_part_plan(walk, part);
      if (plans->len < i + 1)
        g_ptr_array_add(plans, plans_of(&in, part, &plan));
      closest = MAX(closest, check_kept(&in, part, plans->pdata[i], &raised));
    }
  }
  ck_assert_int_gt(raised, 4);
  ck_assert_double_gt(closest, 0.9);
  instance_clear(&in);
}
END_TEST

/* ---- halves ---- */

/* What is met in a part: plans by their place in the space, and how many rules turned down or others beat. */
typedef struct {
  GArray *inner;  /* SpacePart */
  GArray *places; /* gint64, of plans that pass; negative: it makes whole blocks again */
  gint64 rejected;
} Met;

static gboolean meet_plan(gpointer data, const SpaceLeaf *leaf)
{
  Met *met = data;
  gint64 place = leaf->plan->recompute == RECOMPUTE_FULL ? -1 - leaf->index : leaf->index;

  g_array_append_val(met->places, place);
  return FALSE;
}

static void meet_rejected(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  (void)plan, (void)rule;
  ck_assert_int_gt(plans, 0);
  ((Met *)data)->rejected += plans;
}

static void meet_inner(gpointer data, const SpacePart *part)
{
  g_array_append_val(((Met *)data)->inner, *part);
}

/* All of it. Returns how many plans it has. */
static gint64 meet_all(SpaceWalk *walk, const SpacePart *part, Met *met)
{
  g_array_set_size(met->inner, 0);
  g_array_set_size(met->places, 0);
  met->rejected = 0;
  space_walk_enter(walk, part);
  for (guint i = 0; i < met->inner->len; i++) {
    const SpacePart inner = g_array_index(met->inner, SpacePart, i);
    space_walk_enter(walk, &inner);
  }
  return met->places->len + met->rejected;
}

static int by_place(gconstpointer a, gconstpointer b)
{
  const gint64 *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

static GArray *sorted_places(const Met *met, const Met *more)
{
  GArray *all = g_array_copy(met->places);

  if (more)
    g_array_append_vals(all, more->places->data, more->places->len);
  g_array_sort(all, by_place);
  return all;
}

static Met new_met(void)
{
  return (Met) { g_array_new(FALSE, FALSE, sizeof(SpacePart)), g_array_new(FALSE, FALSE, sizeof(gint64)), 0 };
}

static void clear_met(Met *met)
{
  g_array_unref(met->inner);
  g_array_unref(met->places);
}

/* Whichever half is met, it has its own plans alone, in the places that they have in the whole. */
static void check_halves(SpaceWalk *walk, Met *met, const SpacePart *whole, const SpacePart *made,
                         const SpacePart *kept)
{
  ck_assert_int_eq(meet_all(walk, whole, met), whole->plans);
  g_autoptr(GArray) all = sorted_places(met, NULL);
  Met others = new_met();
  ck_assert_int_eq(made->plans + kept->plans, whole->plans);
  ck_assert_int_eq(meet_all(walk, kept, met), kept->plans);
  g_array_append_vals(others.places, met->places->data, met->places->len);
  for (guint i = 0; i < met->places->len; i++)
    ck_assert_int_ge(g_array_index(met->places, gint64, i), 0);
  ck_assert_int_eq(meet_all(walk, made, met), made->plans);
  for (guint i = 0; i < met->places->len; i++)
    ck_assert_int_lt(g_array_index(met->places, gint64, i), 0);
  g_autoptr(GArray) both = sorted_places(met, &others);
  ck_assert_uint_eq(both->len, all->len);
  ck_assert_mem_eq(both->data, all->data, all->len * sizeof(gint64));
  ck_assert(space_part_plan(walk, made).recompute == RECOMPUTE_FULL);
  ck_assert(space_part_plan(walk, kept).recompute != RECOMPUTE_FULL);
  clear_met(&others);
}

/* Bounds of both halves against all plans of the part. Returns whether the one left waits longer than the whole. */
static gboolean check_half_bounds(const SpacePart *whole, const SpacePart *made, const SpacePart *kept, double device,
                                  const GArray *plans)
{
  ck_assert_double_gt(kept->memory_bytes, device);
  ck_assert_double_eq(kept->bound_s, whole->bound_s);
  for (guint i = 0; i < plans->len; i++) {
    const Made *plan = &g_array_index(plans, Made, i);
    const SpacePart *half = plan->made ? made : kept;
    ck_assert_double_le(half->memory_bytes, plan->peak);
    ck_assert_double_le(half->bound_s, plan->step_s);
  }
  return made->bound_s > whole->bound_s;
}

/* What parts are divided by in between changes no bounds. */
static void check_bounds_again(SpaceWalk *walk, SpaceWalk *other, const SpacePart *part)
{
  SpacePart again = *part, own;

  again.bound_s = 0;
  own = again;
  space_bound_part(walk, &again);
  space_bound_part(other, &own);
  ck_assert_double_eq(again.bound_s, own.bound_s);
  ck_assert_double_eq(again.memory_bytes, own.memory_bytes);
}

/* A plain search of long sequences, of a model with experts or without. */
static void halves_init(Instance *in, const char *framework, int blocks, gboolean experts)
{
  long_sequences(in, framework, blocks);
  in->options.brief = FALSE;
  in->base.global_batch = 16;
  if (experts) {
    model_free(in->model);
    in->model = fixture_experts(8, 256, 4, 4, 4096, 512);
  }
}

/* On devices of several sizes, parts of which nothing fits but plans that make whole blocks again, and others. */
START_TEST(parts_divide_where_kept_blocks_do_not_fit)
{
  static const char *const names[] = { "megatron-core-2026", "megatron-core", "deepspeed", "torchtitan" };
  g_autoptr(GPtrArray) plans = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
  int divided = 0, later = 0, whole = 0;
  Instance in;

  halves_init(&in, names[_i / 2], 8, _i % 2);
  for (double share = 0.05; share < 30; share *= 2) {
    in.cluster->device.memory_bytes = share * 1e9;
    g_autoptr(GArray) parts = outer_parts(&in, FALSE);
    g_autoptr(PriceCache) prices = price_cache_new(in.model, in.cluster);
    Met met = new_met();
    const SpaceVisitor visit = { meet_plan, TRUE, meet_rejected, &met, NULL, meet_inner, NULL, INFINITY };
    g_autoptr(SpaceWalk) walk = space_walk_new(in.model, in.cluster, &in.options, prices, &visit);
    g_autoptr(SpaceWalk) other = space_walk_new(in.model, in.cluster, &in.options, prices, &visit);
    space_walk_all(walk);
    space_walk_all(other);
    for (guint i = parts->len; i-- > 0;) {
      SpacePart made = g_array_index(parts, SpacePart, i), all = made, kept;
      SpacePart larger = g_array_index(parts, SpacePart, MIN(i + 1, parts->len - 1));
      space_divide_part(walk, &larger, &kept);
      gboolean divides = space_divide_part(walk, &made, &kept);
      check_bounds_again(walk, other, &larger);
      check_bounds_again(walk, other, &all);
      whole += !divides;
      if (!divides)
        continue;
      const Plan plan = space_part_plan(walk, &all);
      g_autoptr(GArray) simulated = plans_of(&in, &all, &plan);
      later += check_half_bounds(&all, &made, &kept, in.cluster->device.memory_bytes, simulated);
      check_halves(walk, &met, &all, &made, &kept);
      ck_assert(!space_divide_part(walk, &made, &kept));
      divided++;
    }
    clear_met(&met);
  }
  ck_assert_int_gt(divided, 4);
  ck_assert_int_gt(later, 4);
  ck_assert_int_gt(whole, 4);
  instance_clear(&in);
}
END_TEST

typedef struct {
  const Instance *in;
  GArray *inner; /* SpacePart */
  double least;  /* peak of plans that make nothing again */
} Keeping;

static gboolean meet_keeping(gpointer data, const SpaceLeaf *leaf)
{
  Keeping *k = data;
  Metrics m;

  if (leaf->plan->recompute == RECOMPUTE_NONE) {
    instance_simulate(k->in, leaf->plan, NULL, &m);
    k->least = MIN(k->least, m.peak_memory_bytes);
  }
  return FALSE;
}

static void meet_choice(gpointer data, const SpacePart *part)
{
  g_array_append_val(((Keeping *)data)->inner, *part);
}

/* What is said of a part's plans that keep everything, and of each choice of passes, against the simulated ones. Counts
 * where that is more than of all of the part's plans. */
static void check_keeping(SpaceWalk *walk, Keeping *k, const SpacePart *part, int *halves, int *choices)
{
  double bytes = space_all_kept_bytes(walk, part), least = INFINITY;

  *halves += bytes > part->memory_bytes;
  g_array_set_size(k->inner, 0);
  space_walk_enter(walk, part);
  for (guint i = 0; i < k->inner->len; i++) {
    const SpacePart choice = g_array_index(k->inner, SpacePart, i);
    if (choice.recompute != RECOMPUTE_NONE)
      continue;
    double own = space_all_kept_bytes(walk, &choice);
    k->least = INFINITY;
    space_walk_enter(walk, &choice);
    ck_assert_double_ge(own, choice.memory_bytes);
    ck_assert_double_le(own, k->least);
    *choices += own > choice.memory_bytes;
    least = MIN(least, k->least);
  }
  ck_assert_double_le(bytes, least);
}

/* Of layers that divide and that do not. */
START_TEST(plans_that_keep_all_need_as_much)
{
  static const char *const names[] = { "megatron-core-2026", "megatron-core", "nemo-2026-06", "deepspeed" };
  int divided = 0, halves = 0, choices = 0;
  Instance in;

  halves_init(&in, names[_i / 2], 7, _i % 2);
  for (double share = 0.05; share < 3; share *= 2) {
    in.cluster->device.memory_bytes = share * 1e9;
    g_autoptr(GArray) parts = outer_parts(&in, FALSE);
    g_autoptr(PriceCache) prices = price_cache_new(in.model, in.cluster);
    Keeping k = { &in, g_array_new(FALSE, FALSE, sizeof(SpacePart)), INFINITY };
    const SpaceVisitor visit = { meet_keeping, TRUE, pass_over, &k, NULL, meet_choice, NULL, INFINITY };
    g_autoptr(SpaceWalk) walk = space_walk_new(in.model, in.cluster, &in.options, prices, &visit);
    g_autoptr(GArray) kept = g_array_new(FALSE, FALSE, sizeof(SpacePart));
    space_walk_all(walk);
    for (guint i = 0; i < parts->len; i++) {
      SpacePart made = g_array_index(parts, SpacePart, i), others;
      if (space_divide_part(walk, &made, &others))
        g_array_append_val(kept, others);
    }
    for (guint i = 0; i < kept->len; i++)
      check_keeping(walk, &k, &g_array_index(kept, SpacePart, i), &halves, &choices);
    divided += kept->len;
    g_array_unref(k.inner);
  }
  ck_assert_int_gt(divided, 4);
  ck_assert_int_gt(halves, 4);
  ck_assert(choices > 4 || !in.framework->n_recompute_modules);
  instance_clear(&in);
}
END_TEST

/* Fewer tokens a rank are searched where they are asked for or fixed. */
START_TEST(context_is_opened)
{
  SearchOptions o = { .fixed = fixed_none() };
  int few = CONTEXT_TOKENS_MIN / 2;

  ck_assert(space_has_context(&o, 2 * CONTEXT_TOKENS_MIN, 2) && space_has_context(&o, few, 1));
  ck_assert(!space_has_context(&o, 2 * few, 2));
  o.space = SPACE_CONTEXT;
  ck_assert(space_has_context(&o, 2 * few, 2));
  o.space = ~0u & ~SPACE_CONTEXT;
  ck_assert(!space_has_context(&o, 2 * few, 2));
  o.fixed.value[KEY_CP] = 2;
  ck_assert(space_has_context(&o, 2 * few, 2));
}
END_TEST

TEST_LOOPS("search parts", { context_is_opened, 1 }, { parts_count_inputs_of_blocks, 4 },
           { parts_count_each_input_once, 2 }, { parts_make_blocks_again_where_these_do_not_fit, 8 },
           { parts_divide_where_kept_blocks_do_not_fit, 8 },
           { plans_that_keep_all_need_as_much, 8 })
