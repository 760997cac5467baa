/* What a search knows of layers that are split by what they take, with the splits that they have under other rates. */
#include "main.h"

#include "base/units.h"
#include "search/space.h"
#include "search_instance.h"

#include <math.h>

/* Plans of choices of passes of which something is known, against what they come to. */
typedef struct {
  const Instance *in;
  GArray *parts; /* SpacePart */
  double least_s; /* of the plans of a choice that fit */
  int known, none, other; /* choices of which something is known with their splits, of which no plan fits so, and that
                             have other splits */
} Held;

static gboolean keep_least(gpointer data, const SpaceLeaf *leaf)
{
  Held *h = data;
  Metrics m;

  instance_simulate(h->in, leaf->plan, NULL, &m);
  if (m.peak_memory_bytes <= m.capacity_bytes)
    h->least_s = MIN(h->least_s, m.iteration_s);
  return FALSE;
}

static void keep_part(gpointer data, const SpacePart *part)
{
  g_array_append_vals(((Held *)data)->parts, part, 1);
}

static void pass_over(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  (void)data, (void)plan, (void)rule, (void)plans;
}

/* Layers that no pipeline of two or four divides, on eight devices. */
static void uneven_instance(Instance *in, const char *framework, int layers, int ffn, int vocab, double memory_bytes)
{
  g_autofree char *json = g_strdup_printf(
    "{\"name\": \"m\", \"source\": \"made up\", \"layers\": %d, \"hidden\": 1024, \"heads\": 8, \"ffn_hidden\": %d, "
    "\"vocab\": %d, \"seq\": 1024, \"mlp\": \"swiglu\", \"norm\": \"rmsnorm\", \"positions\": \"rope\", "
    "\"tied_embeddings\": false, \"bias\": false, \"dropout\": false, \"global_batch_size\": 8}", layers, ffn, vocab);

  *in = (Instance) { .cluster = fixture_cluster("dgx", 8), .model = model_parse(json, strlen(json), "m", NULL) };
  in->framework = fixture_framework(framework);
  in->base = plan_default(in->model, in->framework);
  in->base.gpus = 8;
  in->base.global_batch = 8;
  in->options = (SearchOptions) { .base = &in->base, .fixed = fixed_none(), .objective = &objectives[0], .top = 1,
                                  .threads = 1, .brief = TRUE };
  in->cluster->device.memory_bytes = memory_bytes;
}

static void draw(Instance *in, GRand *rand)
{
  static const char *const frameworks[] = { "megatron-core-2026", "torchtitan", "megatron-core" };
  const char *framework = frameworks[g_rand_int_range(rand, 0, 3)];
  int layers = 5 + 2 * g_rand_int_range(rand, 0, 5), ffn = 1024 * g_rand_int_range(rand, 1, 5);
  int vocab = 8192 * g_rand_int_range(rand, 1, 30);

  uneven_instance(in, framework, layers, ffn, vocab, g_rand_double_range(rand, 0.7, 3) * GIB);
  in->options.fixed.value[KEY_PP] = 2 << g_rand_int_range(rand, 0, 2);
}

/* Changes a number of the cluster by a factor, and gives what is known there. */
static Floors *change(Cluster *cluster, GRand *rand, const Floors *bounds, Floors **learned)
{
  double factor = exp(g_rand_double_range(rand, -1.5, 1.5));
  Floors *floors = floors_new();

  if (instance_change(cluster, rand, factor, bounds, floors)->room) {
    floors_free(*learned);
    *learned = floors_new();
  }
  floors_raise(floors, *learned, FLOORS_ANY_RATES, 0);
  return floors;
}

static void compare(Held *h, const ChoiceFloor *floor, guint64 split)
{
  gboolean stays = floor->split == split, known = floor->split_s > 0;

  ck_assert_double_le(floor->bound_s, h->least_s * (1 + 1e-9));
  if (stays)
    ck_assert_double_le(floor->split_s, h->least_s * (1 + 1e-9));
  h->known += known && stays;
  h->none += isinf(floor->split_s) && stays;
  h->other += known && !stays && floor->split_s > h->least_s;
}

/* All choices of which something is known: before a search, and by it. */
static void compare_all(Held *h, const Floors *before, const Floors *behind)
{
  const Instance *in = h->in;
  g_autoptr(PriceCache) prices = price_cache_new(in->model, in->cluster);
  g_autoptr(GArray) parts = g_array_new(FALSE, FALSE, sizeof(SpacePart));
  const SpaceVisitor visit = { keep_least, TRUE, pass_over, h, NULL, keep_part, NULL, INFINITY };
  g_autoptr(SpaceWalk) walk = space_walk_new(in->model, in->cluster, &in->options, prices, &visit);
  double device = in->cluster->device.memory_bytes;

  h->parts = parts;
  space_walk_all(walk);
  for (guint i = 0; i < parts->len; i++) {
    const SpacePart part = g_array_index(parts, SpacePart, i);
    const ChoiceFloor own = floors_of_choice(before, part.index, device);
    const ChoiceFloor then = floors_of_choice(behind, part.index, device);
    h->least_s = INFINITY;
    if (part.pass < 0 || own.split > 0 || then.split > 0)
      space_walk_enter(walk, &part);
    if (part.pass >= 0) {
      compare(h, &own, space_walk_splits(walk));
      compare(h, &then, space_walk_splits(walk));
    }
  }
}

/* The plan that is found stays, and no plan that fits takes less than is said of its choice with its split: of changes
 * one after the other, of which each search knows what those before it say. */
START_TEST(splits_hold_where_they_stay)
{
  GRand *rand = g_rand_new_with_seed(6700 + _i);
  int found = 0;
  Held held = { 0 };

  for (int i = 0; i < 12; i++) {
    Instance in;
    draw(&in, rand);
    held.in = &in;
    g_autoptr(SearchResult) own = search(in.model, in.cluster, &in.options, NULL);
    g_autoptr(Floors) bounds = g_steal_pointer(&own->bounds), learned = floors_new();
    for (int step = 0; step < 8; step++) {
      g_autoptr(Floors) floors = change(in.cluster, rand, bounds, &learned);
      g_autoptr(SearchResult) other = search(in.model, in.cluster, &in.options, NULL);
      SearchOptions with = in.options;
      with.floors = floors;
      with.known = other->best->len && step % 2 ? g_array_index(other->best, Found, 0).value : 0;
      g_autoptr(SearchResult) floored = search(in.model, in.cluster, &with, NULL);
      ck_assert_int_eq(floored->best->len, other->best->len);
      for (guint k = 0; k < other->best->len; k++) {
        const Found *a = &g_array_index(other->best, Found, k), *b = &g_array_index(floored->best, Found, k);
        ck_assert_double_eq(b->value, a->value);
        ck_assert(memcmp(&b->plan, &a->plan, sizeof a->plan) == 0);
        found++;
      }
      compare_all(&held, floors, floored->bounds);
      floors_raise(learned, floored->bounds, FLOORS_ANY_RATES, 0);
      floors_free(bounds);
      bounds = g_steal_pointer(&floored->bounds);
    }
    instance_clear(&in);
  }
  ck_assert_int_gt(found, 0);
  ck_assert_int_gt(held.known, 100);
  ck_assert_int_gt(held.none, 20);
  g_rand_free(rand);
}
END_TEST

/* What fits with no split that other rates make may fit with its own. */
START_TEST(other_splits_are_looked_into)
{
  Held held = { 0 };
  int found = 0;

  for (int i = 0; i < 160; i++) {
    Instance in;
    uneven_instance(&in, "megatron-core-2026", 7 + i % 2 * 2, 4096, i % 4 < 2 ? 32768 : 65536, (0.9 + i * 0.015) * GIB);
    in.options.fixed.value[KEY_TP] = 2;
    in.options.fixed.value[KEY_PP] = 4;
    held.in = &in;
    cluster_scale_tier(in.cluster, 0, 0.05); /* blocks wait for it, the head does not */
    g_autoptr(SearchResult) own = search(in.model, in.cluster, &in.options, NULL);
    g_autoptr(Floors) floors = floors_new();
    cluster_scale_tier(in.cluster, 0, 20);
    floors_raise(floors, own->bounds, FLOORS_AT_SHARE, 0.05);
    g_autoptr(SearchResult) other = search(in.model, in.cluster, &in.options, NULL);
    SearchOptions with = in.options;
    with.floors = floors;
    g_autoptr(SearchResult) floored = search(in.model, in.cluster, &with, NULL);
    ck_assert_int_eq(floored->best->len, other->best->len);
    for (guint k = 0; k < other->best->len; k++, found++)
      ck_assert_double_eq(g_array_index(floored->best, Found, k).value, g_array_index(other->best, Found, k).value);
    compare_all(&held, floors, floored->bounds);
    instance_clear(&in);
  }
  ck_assert_int_gt(found, 10);
  ck_assert_int_gt(held.other, 0);
}
END_TEST

/* Of what two searches say of a choice, what is said of other splits than the first's is left out. */
START_TEST(splits_are_told_apart)
{
  const ChoiceFloor all[] = { { 1, 1, 8, 4, 11 }, { 2, 1, 8, 4, 11 }, { 3, 1, 8, 0, 0 } };
  const ChoiceFloor others[] = { { 1, 2, 9, 6, 12 }, { 2, 2, 9, 6, 11 }, { 3, 2, 9, 6, 12 },
                                 { 4, 2, 9, INFINITY, 12 } };
  const double split_s[][4] = { { 4, 6, 6, INFINITY }, { 4, 4, 0, INFINITY }, { 4, 4, 0, 0 } };
  const FloorsHold holds[] = { FLOORS_AT_SHARE, FLOORS_ANY_RATES, FLOORS_ANYWHERE };
  g_autoptr(Floors) second = floors_new();

  g_array_append_vals(second->choices, others, 4);
  for (int k = 0; k < 3; k++) {
    g_autoptr(Floors) floors = floors_new();
    g_array_append_vals(floors->choices, all, 3);
    floors_raise(floors, second, holds[k], 1);
    for (int i = 0; i < 4; i++) {
      const ChoiceFloor floor = floors_of_choice(floors, 1 + i, 100);
      if (isinf(split_s[k][i]))
        ck_assert(isinf(floor.split_s));
      else
        ck_assert_double_eq_tol(floor.split_s, split_s[k][i], 1e-6);
      ck_assert_int_eq(floor.split, i == 0 || split_s[k][i] == 4 || i == 1 ? 11 : split_s[k][i] == 0 ? 0 : 12);
    }
  }
}
END_TEST

TEST_LOOPS("search_splits", { splits_hold_where_they_stay, 6, TRUE },
           { other_splits_are_looked_into, 1 }, { splits_are_told_apart, 1 })
