/* Nodes and ranks that a token's experts are on: drawn, of groups, or in turn. */
#include "main.h"
#include "planned.h"

#include <math.h>

static void setup(Planned *f, int experts, int devices)
{
  planned_init(f, fixture_experts(1, 512, 8, experts, 1024, 1000), fixture_cluster("dgx-h100", devices),
               "megatron-core");
  planned_spread(f, 1);
}

typedef struct {
  double ranks, nodes; /* to which DeepEP's kernels send a token's row, on average */
} Places;

static Places places_of_token(const Planned *f)
{
  LayerWork work;
  Places places = { 0, 0 };

  planned_accept(f);
  layer_work_init(&work, f->model, model_layer(f->model, 1), PASSES(&f->plan), f->cluster);
  for (guint i = 0; i < work.forward->len; i++) {
    const Op *op = &g_array_index(work.forward, Op, i);
    if (op->kind == OP_COLLECTIVE && op->collective.rows > 0)
      places = (Places) { op->collective.rows / 1024, op->collective.bytes / op->collective.row_bytes / 1024 };
  }
  layer_work_clear(&work);
  return places;
}

/* A token's two experts are different ones: on 16 ranks of one expert each they are on two, wherever they may be. */
START_TEST(experts_of_a_token_differ)
{
  Planned f;
  double rows[2];

  setup(&f, 16, 16);
  f.plan.ep = 16;
  f.plan.dispatch = DISPATCH_FLEX;
  for (int grouped = 0; grouped < 2; grouped++) {
    f.model->specs[f.model->layers[1]].ffn.groups = 2 * grouped;
    f.model->specs[f.model->layers[1]].ffn.groups_per_token = grouped;
    rows[grouped] = places_of_token(&f).ranks;
  }
  ck_assert_double_eq_tol(rows[0], 2, 1e-12);
  ck_assert_double_eq_tol(rows[1], 2, 1e-12);
  planned_clear(&f);
}
END_TEST

/* Ranks on which a token's experts are: over all sets of groups of two that it may visit, over all sets of as many
 * experts of these. */
static double counted_groups(int groups, int visited, int taken, int ranks)
{
  int sets = 0, each = 2 * groups / ranks;
  gint64 sum = 0;

  for (guint set = 0; set < 1u << groups; set++) {
    guint may = 0;
    if (__builtin_popcount(set) != visited)
      continue;
    for (int group = 0; group < groups; group++)
      may |= set >> group & 1 ? 3u << 2 * group : 0;
    for (guint own = may; own; own = (own - 1) & may) {
      if (__builtin_popcount(own) != taken)
        continue;
      sets++;
      for (int rank = 0; rank < ranks; rank++)
        sum += (own >> rank * each & ((1u << each) - 1)) != 0;
    }
  }
  return (double)sum / sets;
}

/* Ranks that hold several groups each, of which a token may visit few; and parts of a group. */
START_TEST(ranks_hold_several_groups)
{
  Planned f;
  FeedForward *ffn;

  setup(&f, 16, 16);
  f.plan.dispatch = DISPATCH_FLEX;
  ffn = &f.model->specs[f.model->layers[1]].ffn;
  ffn->groups = 8;
  for (int ep = 2; ep <= 16; ep *= 2)
    for (int visited = 1; visited <= 8; visited++)
      for (int taken = 1; taken <= MIN(4, 2 * visited); taken++) {
        f.plan.ep = ep;
        ffn->groups_per_token = visited;
        ffn->experts_per_token = taken;
        ck_assert_double_eq_tol(places_of_token(&f).ranks, counted_groups(8, visited, taken, ep), 1e-12);
      }
  planned_clear(&f);
}
END_TEST

/* Ranks of the tokens of a gate that takes experts in turn, counted one by one. */
static double counted_in_turn(int experts, int taken, int ranks)
{
  int sum = 0;

  for (int token = 0; token < experts; token++) {
    guint64 seen = 0;
    for (int i = 0; i < taken; i++)
      seen |= (guint64)1 << (token * taken + i) % experts / (experts / ranks);
    sum += __builtin_popcountll(seen);
  }
  return (double)sum / experts;
}

START_TEST(experts_in_turn_are_counted)
{
  Planned f;

  setup(&f, 16, 16);
  f.plan.dispatch = DISPATCH_FLEX;
  f.framework->gate_in_turn = TRUE;
  for (int ep = 2; ep <= 16; ep *= 2)
    for (int taken = 1; taken <= 16; taken++) {
      f.plan.ep = ep;
      f.model->specs[f.model->layers[1]].ffn.experts_per_token = taken;
      ck_assert_double_eq_tol(places_of_token(&f).ranks, counted_in_turn(16, taken, ep), 1e-12);
    }
  planned_clear(&f);
}
END_TEST

/* DeepEP's kernels send a row once to each node, whatever joins the nodes: in 8 places of two experts each. */
START_TEST(nodes_behind_a_spine_are_counted)
{
  Planned f;
  double rows[2];

  setup(&f, 16, 64);
  f.plan.ep = 16;
  f.plan.dispatch = DISPATCH_FLEX;
  f.cluster->tiers[0].devices = f.cluster->devices_per_node = 2;
  f.cluster->tiers[0].devices_whole = 2;
  for (int spine = 0; spine < 2; spine++) {
    if (spine) {
      f.cluster->tiers[2] = f.cluster->tiers[1];
      f.cluster->tiers[2].name = g_strdup(f.cluster->tiers[1].name);
      f.cluster->tiers[2].link.name = g_strdup(f.cluster->tiers[1].link.name);
      f.cluster->tiers[1].devices = 8;
      f.cluster->n_tiers = 3;
    }
    rows[spine] = places_of_token(&f).nodes;
  }
  ck_assert_double_eq_tol(rows[0], 8 * (1 - 91 / 120.0), 1e-12);
  ck_assert_double_eq_tol(rows[1], rows[0], 1e-12);
  planned_clear(&f);
}
END_TEST

TEST_MAIN("experts_places", experts_of_a_token_differ, ranks_hold_several_groups, experts_in_turn_are_counted,
          nodes_behind_a_spine_are_counted)
