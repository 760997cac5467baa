/* Nodes and ranks that a token's experts are on: drawn, of groups, or in turn. */
#include "cost/price.h"
#include "main.h"
#include "plan/nearest.h"
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

/* Messages of all exchanges of a layer and pass, the first of them apart. */
static double chunks_of(const GArray *ops, double *first)
{
  double all = *first = 0;

  for (guint i = 0; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, Op, i);
    double chunks = op->kind == OP_COLLECTIVE ? op->collective.chunks : 0;
    *first = *first > 0 ? *first : chunks;
    all += chunks;
  }
  return all;
}

static void ck_chunks(Planned *f, double sent, double returned)
{
  LayerWork work;
  double first;

  planned_accept(f);
  layer_work_init(&work, f->model, model_layer(f->model, 1), PASSES(&f->plan), f->cluster);
  ck_assert_double_eq(chunks_of(work.forward, &first), sent + returned);
  ck_assert_double_eq(first, sent);
  ck_assert_double_eq(chunks_of(work.backward, &first), sent + returned);
  ck_assert_double_eq(first, sent); /* what returned last comes back first, as it was sent */
  layer_work_clear(&work);
}

/* DeepEP's first version sends 785 of 1,024 rows to another node of two (a token's two of 16 experts are on a node with
 * 23/30), in ten channels 4 chunks of 20 there and 7 of 12 back; to each other one of four 454, 6 chunks of 8 either
 * way. The second version, HybridEP and all-to-all have none, nor has a node. */
START_TEST(chunks_are_counted)
{
  Planned f;

  for (int devices = 16; devices <= 32; devices *= 2) {
    setup(&f, devices, devices);
    f.plan.ep = devices;
    f.plan.dispatch = DISPATCH_ALL_TO_ALL;
    ck_chunks(&f, 0, 0);
    f.plan.dispatch = DISPATCH_FLEX;
    ck_chunks(&f, devices == 16 ? 40 : 180, devices == 16 ? 70 : 180);
    f.plan.ep = 8;
    ck_chunks(&f, 0, 0);
    planned_clear(&f);
  }
  planned_init(&f, fixture_experts(1, 512, 8, 16, 1024, 1000), fixture_cluster("dgx-h100", 16), "torchtitan-2026-08");
  planned_spread(&f, 1);
  f.plan.ep = 16;
  f.plan.dispatch = DISPATCH_FLEX;
  ck_chunks(&f, 0, 0);
  f.plan.dispatch = DISPATCH_HYBRID;
  ck_chunks(&f, 0, 0);
  planned_clear(&f);
}
END_TEST

static void ck_quiets(const GArray *ops, double each)
{
  for (guint i = 0; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, Op, i);
    gboolean exchanges = op->kind == OP_COLLECTIVE && op->collective.what == COLLECTIVE_ALL_TO_ALL;
    ck_assert(op->kind != OP_COLLECTIVE || op->collective.quiets == (exchanges ? each : 0));
  }
}

/* For each other node, by all four exchanges; not within a node, nor of the second version, HybridEP or all-to-all. */
START_TEST(threads_are_asked)
{
  static const struct {
    int ep, node;
    ExpertDispatch dispatch;
    double each;
  } cases[] = {
    { 32, 8, DISPATCH_FLEX, 3 * 288 }, { 16, 8, DISPATCH_FLEX, 288 },     { 8, 8, DISPATCH_FLEX, 0 },
    { 32, 0, DISPATCH_FLEX, 0 },       { 32, 8, DISPATCH_ALL_TO_ALL, 0 }, { 32, 8, DISPATCH_HYBRID, 0 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    LayerWork work;
    planned_init(&f, fixture_experts(1, 512, 8, 32, 1024, 1000), fixture_cluster("h100-efa3200", 32),
                 "nemo-2026-04-library-nvshmem");
    ck_assert_int_eq(f.framework->flex_quiets, 288);
    planned_spread(&f, 1);
    f.framework->flex_node = cases[i].node;
    f.plan.ep = cases[i].ep;
    f.plan.dispatch = cases[i].dispatch;
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    ck_quiets(work.forward, cases[i].each);
    ck_quiets(work.backward, cases[i].each);
    layer_work_clear(&work);
    planned_clear(&f);
  }
}
END_TEST

/* EFA's exchange takes what its thread posts, five for each of 180 messages; InfiniBand's kernels post themselves. */
START_TEST(threads_post_over_efa)
{
  static const char *const clusters[] = { "h100-efa3200", "dgx-h100" };
  double s[2], more_s = 0, links_s = 0;

  for (int i = 0; i < 2; i++) {
    Planned f;
    LayerWork work;
    planned_init(&f, fixture_experts(1, 512, 8, 32, 1024, 1000), fixture_cluster(clusters[i], 32), "megatron-core");
    planned_spread(&f, 1);
    f.plan.ep = 32;
    f.plan.dispatch = DISPATCH_FLEX;
    planned_accept(&f);
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    for (guint j = 0; j < work.forward->len; j++) {
      Op op = g_array_index(work.forward, Op, j);
      if (op.kind != OP_COLLECTIVE || op.collective.chunks <= 0)
        continue;
      s[i] = op_s(&op, PASSES(&f.plan), f.cluster);
      op.collective.chunks += 100;
      op.collective.quiets += 288;
      more_s = op_s(&op, PASSES(&f.plan), f.cluster);
      op.collective.quiets = 0;
      op.collective.chunks = 0;
      links_s = op_s(&op, PASSES(&f.plan), f.cluster);
    }
    ck_assert_double_eq_tol(more_s - s[i], (i == 0 ? (100 * 5 + 288) * 0.645e-6 : 0), 1e-12);
    ck_assert(i == 0 ? s[0] > links_s && s[0] > 180 * 5 * 0.645e-6 : s[1] == links_s);
    layer_work_clear(&work);
    planned_clear(&f);
  }
}
END_TEST

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
  f.cluster->tiers[0].devices = f.cluster->devices_per_node = f.framework->flex_node = 2;
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

/* Groups that DeepEP's kernels are made for: on nodes of 8, on trays of 4, and where its second version counts as NVLink
 * joins them. */
START_TEST(deepep_takes_eights)
{
  static const struct { int ep; gboolean node, tray; } groups[] = {
    { 2, TRUE, TRUE }, { 3, FALSE, FALSE }, { 4, TRUE, TRUE }, { 6, FALSE, FALSE }, { 8, TRUE, FALSE },
    { 12, FALSE, FALSE }, { 16, TRUE, FALSE }, { 24, TRUE, FALSE }, { 40, FALSE, FALSE }, { 48, TRUE, FALSE },
    { 144, TRUE, FALSE }, { 160, TRUE, FALSE }, { 192, FALSE, FALSE }, { 2880, FALSE, FALSE },
  };

  for (int tray = 0; tray < 2; tray++)
    for (gsize i = 0; i < G_N_ELEMENTS(groups); i++) {
      Planned f;
      planned_init(&f, fixture_experts(1, 512, 8, 2880, 1024, 1000),
                   fixture_cluster(tray ? "gb200-nvl72" : "dgx-h100", 2880), "megatron-core");
      planned_spread(&f, 1);
      f.plan.ep = groups[i].ep;
      f.plan.dispatch = DISPATCH_FLEX;
      if (tray ? groups[i].tray : groups[i].node) {
        planned_accept(&f);
      } else {
        g_autofree char *message = g_strdup_printf(
          "plan: moe_token_dispatcher_type: \"flex\": expected experts over 2, 4 or 8 ranks of a node, or 2, 3, 4, 6, 8, "
          "12, 16, 18 or 20 nodes of 8, as DeepEP's kernels are made for; they are over %d ranks, %d a node",
          groups[i].ep, MIN(groups[i].ep, tray ? 4 : 8));
        planned_refuse(&f, RULE_EXPERTS, message);
        f.framework->flex_node = 0;
        planned_accept(&f);
      }
      planned_clear(&f);
    }
}
END_TEST

static void count_change(gpointer data, const char *key, const char *before, const char *after, const char *reason)
{
  (void)key, (void)before, (void)after, (void)reason;
  ++*(int *)data;
}

/* A plan of newer software stays as it is where the older one has DeepEP's first version, or none. */
START_TEST(newer_deepep_is_not_cut)
{
  static const char *const older[] = { "torchtitan-2025-11", "torchtitan" };
  int changes = 0;
  const PlanListener listener = { count_change, &changes };

  for (gsize i = 0; i < G_N_ELEMENTS(older); i++) {
    Planned f;
    planned_init(&f, fixture_experts(1, 512, 8, 144, 1024, 1000), fixture_cluster("gb200-nvl72", 72), "torchtitan-2026-08");
    planned_spread(&f, 1);
    f.plan.ep = 36;
    f.plan.dispatch = DISPATCH_FLEX;
    planned_accept(&f);
    g_autoptr(GError) error = NULL;
    g_autoptr(Framework) own = fixture_framework(older[i]);
    g_autofree Plan *near = plan_nearest(&f.plan, f.model, f.cluster, own, &listener, &error);
    ck_assert_msg(near != NULL, "%s", error ? error->message : "");
    ck_assert(near->dispatch == DISPATCH_FLEX && near->ep == 36);
    planned_clear(&f);
  }
  ck_assert_int_eq(changes, 0);
}
END_TEST

/* HybridEP takes as many ranks of each NVLink domain: racks give 64 of their 72 devices to jobs of 128, and all to jobs
 * of 144. */
START_TEST(hybridep_takes_domains_alike)
{
  static const struct { int devices, ep; gboolean legal; } groups[] = {
    { 128, 32, TRUE }, { 128, 64, TRUE }, { 128, 128, TRUE }, { 144, 8, TRUE }, { 144, 16, FALSE }, { 144, 36, TRUE },
    { 144, 48, FALSE }, { 144, 72, TRUE }, { 144, 144, TRUE }, { 48, 16, TRUE }, { 192, 96, FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(groups); i++) {
    Planned f;
    planned_init(&f, fixture_experts(1, 512, 8, 1152, 1024, 1000), fixture_cluster("gb200-nvl72", groups[i].devices),
                 "megatron-core-2026");
    planned_spread(&f, 1);
    f.plan.ep = groups[i].ep;
    f.plan.dispatch = DISPATCH_HYBRID;
    if (groups[i].legal) {
      planned_accept(&f);
    } else {
      g_autofree char *message = g_strdup_printf("plan: moe_token_dispatcher_type: \"hybridep\": expected experts over as "
                                                 "many ranks of each NVLink domain, they are over %d", groups[i].ep);
      planned_refuse(&f, RULE_EXPERTS, message);
    }
    planned_clear(&f);
  }
}
END_TEST

/* Rows and experts of a domain as its kernels are made for: two or six experts are none, 12 are; rows are those that travel. */
START_TEST(hybridep_has_sizes)
{
  static const struct { int hidden, experts, ep, latent; const char *expected; } sizes[] = {
    { 512, 16, 4, 0, NULL }, { 512, 12, 2, 0, NULL }, { 512, 4, 2, 0, NULL }, { 504, 16, 4, 16, NULL },
    { 512, 2, 2, 0, "4 divides the 2 experts on ranks of an NVLink domain" },
    { 512, 6, 2, 0, "4 divides the 6 experts on ranks of an NVLink domain" },
    { 504, 16, 4, 0, "16 divides the 504 values that travel of a token" },
    { 512, 16, 4, 40, "16 divides the 40 values that travel of a token" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
    Planned f;
    planned_init(&f, fixture_experts(1, sizes[i].hidden, 8, sizes[i].experts, 1024, 1000), fixture_cluster("gb200-nvl72", 8),
                 "megatron-core-2026");
    planned_spread(&f, 1);
    for (int layer = 0; layer < f.model->n_specs; layer++)
      f.model->specs[layer].ffn.latent = sizes[i].latent;
    f.plan.ep = sizes[i].ep;
    f.plan.dispatch = DISPATCH_HYBRID;
    if (sizes[i].expected) {
      g_autofree char *message = g_strdup_printf("plan: moe_token_dispatcher_type: \"hybridep\": expected that %s",
                                                 sizes[i].expected);
      planned_refuse(&f, RULE_EXPERTS, message);
      f.plan.dispatch = DISPATCH_ALL_TO_ALL;
    }
    planned_accept(&f);
    planned_clear(&f);
  }
}
END_TEST

/* The collective of this name, NULL without one. */
static const Op *collective_of(const GArray *ops, const char *name)
{
  for (guint i = 0; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, Op, i);
    if (op->kind == OP_COLLECTIVE && g_str_equal(op->name, name))
      return op;
  }
  return NULL;
}

static const Op *stream_of(const GArray *ops, const char *name)
{
  for (guint i = 0; i < ops->len; i++)
    if (g_str_equal(g_array_index(ops, Op, i).name, name))
      return &g_array_index(ops, Op, i);
  return NULL;
}

/* Its calls add rows up; torchtitan weighs these before, in 16 bits: a token's two of them read and written. */
START_TEST(hybridep_adds_rows_up)
{
  const double rows = 2 * 2 * 1024 * 512;
  Planned f;
  LayerWork work;

  planned_init(&f, fixture_experts(1, 512, 8, 16, 1024, 1000), fixture_cluster("dgx-h100", 8), "torchtitan-2026-05");
  planned_spread(&f, 1);
  f.plan.ep = 8;
  f.plan.dispatch = DISPATCH_HYBRID;
  planned_accept(&f);
  layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
  const Op *weighed = stream_of(work.forward, "weigh rows");
  ck_assert_double_eq(weighed->memory.bytes, 2 * rows);
  ck_assert_double_eq(weighed->saved_bytes, rows);
  ck_assert_ptr_null(stream_of(work.forward, "add rows"));
  ck_assert_ptr_null(stream_of(work.forward, "combine"));
  layer_work_clear(&work);
  planned_clear(&f);
}
END_TEST

/* HybridEP sends a float of each expert of the node with every row that it dispatches, and with the gradients of these;
 * not with what returns. Its calls copy rows once from a buffer and as often as experts take them to their places. */
START_TEST(hybridep_sends_weights_of_all_experts)
{
  static const struct {
    int ep, ranks_of_node, devices;
  } spreads[] = { { 8, 8, 16 }, { 16, 8, 16 }, { 8, 8, 8 } };

  for (gsize i = 0; i < G_N_ELEMENTS(spreads); i++) {
    Planned f;
    LayerWork work;
    int ep = spreads[i].ep;
    double row = 2 * 512, weights = 4.0 * 64 / ep * spreads[i].ranks_of_node, tokens = 1024;
    double ranks = ep * (1 - (1 - 1.0 / ep) * (1 - 64.0 / ep / 63)), sent = ep == 8 ? ranks : 2 * (1 - 0.5 * 31 / 63);

    planned_init(&f, fixture_experts(1, 512, 8, 64, 1024, 1000),
                 fixture_cluster("dgx-h100", spreads[i].devices), "megatron-core-2026");
    planned_spread(&f, 1);
    f.plan.ep = ep;
    f.plan.dispatch = DISPATCH_HYBRID;
    planned_accept(&f);
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    const Op *there = collective_of(work.forward, "dispatch tokens");
    const Op *back = collective_of(work.forward, "return tokens");
    const Op *gathered = collective_of(work.forward, "gather routes");
    ck_assert_double_eq_tol(there->collective.bytes, tokens * sent * (row + weights), 1e-6);
    ck_assert_double_eq_tol(back->collective.bytes, tokens * sent * row, 1e-6);
    ck_assert_double_eq_tol(back->collective.copied, (1 + 2 / ranks) / 2, 1e-12);
    ck_assert_double_eq_tol(there->collective.copied, row / (row + weights) * (1 + 2 / ranks) / 2, 1e-12);
    ck_assert_double_eq(collective_of(work.backward, "dispatch tokens")->collective.bytes, there->collective.bytes);
    ck_assert_double_eq(collective_of(work.backward, "return tokens")->collective.bytes, back->collective.bytes);
    ck_assert_double_eq(gathered->collective.bytes, tokens * 64 * ep);
    ck_assert_double_eq_tol(stream_of(work.forward, "scan routes")->memory.bytes, 2 * tokens * 64 * spreads[i].ranks_of_node, 1e-6);
    ck_assert(!stream_of(work.forward, "weigh rows") && !stream_of(work.forward, "combine"));
    ck_assert(gathered < there && !gathered->counted && there->counted); /* the host asks behind it */
    ck_assert_ptr_null(collective_of(work.backward, "gather routes"));
    layer_work_clear(&work);
    f.plan.dispatch = DISPATCH_FLEX;
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    ck_assert_ptr_null(collective_of(work.forward, "gather routes"));
    ck_assert_double_eq_tol(collective_of(work.forward, "dispatch tokens")->collective.bytes, tokens * sent * row, 1e-6);
    layer_work_clear(&work);
    planned_clear(&f);
  }
}
END_TEST

/* Megatron Core refuses DeepEP beside rows that are padded, with its host's indexing or without; HybridEP takes them. */
START_TEST(deepep_pads_no_rows)
{
  static const char *const frameworks[] = { "nemo-2026-04", "nemo-2026-04-library" };

  for (gsize i = 0; i < G_N_ELEMENTS(frameworks); i++) {
    Planned f;
    planned_init(&f, fixture_experts(1, 512, 8, 16, 1024, 1000), fixture_cluster("dgx-h100", 16), frameworks[i]);
    planned_spread(&f, 1);
    f.plan.ep = 16;
    f.plan.dispatch = DISPATCH_FLEX;
    f.plan.expert_capacity = 1;
    planned_accept(&f);
    f.plan.expert_padded = TRUE;
    planned_refuse(&f, RULE_EXPERTS, "plan: moe_token_dispatcher_type: \"flex\": expected another where experts are "
                                     "padded to a capacity, DeepEP pads none");
    f.plan.dispatch = DISPATCH_HYBRID;
    planned_accept(&f);
    planned_clear(&f);
  }
}
END_TEST

TEST_MAIN("experts_places", deepep_pads_no_rows, chunks_are_counted, threads_are_asked, threads_post_over_efa,
          hybridep_sends_weights_of_all_experts, hybridep_adds_rows_up, hybridep_has_sizes, newer_deepep_is_not_cut,
          experts_of_a_token_differ, ranks_hold_several_groups, experts_in_turn_are_counted,
          nodes_behind_a_spine_are_counted, deepep_takes_eights, hybridep_takes_domains_alike)
