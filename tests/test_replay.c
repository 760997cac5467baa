/* What partial CUDA graphs record, and what replaying them takes. */
#include "main.h"
#include "planned.h"

/* A dense block and one of experts, two a token. */
static void setup(Planned *f)
{
  planned_init(f, fixture_experts(2, 512, 8, 16, 1024, 1000), fixture_cluster("dgx", 16), "nemo-2026-04");
  planned_spread(f, 1);
  f->plan.ep = 16;
}

/* Bytes, kernels and operations of the host of a block's replay; returns what it keeps. */
static double replay_of(const Planned *f, int layer, double bytes[2], double kernels[2], double operations[2])
{
  LayerWork work;
  layer_work_init(&work, f->model, model_layer(f->model, layer), PASSES(&f->plan), f->cluster);
  const GArray *const passes[] = { work.forward, work.backward };
  double saved = work.saved_bytes;

  for (int p = 0; p < 2; p++) {
    bytes[p] = kernels[p] = operations[p] = 0;
    for (guint o = 0; o < passes[p]->len; o++) {
      const Op *op = &g_array_index(passes[p], Op, o);
      if (!g_str_equal(op->name, "graph input"))
        continue;
      bytes[p] += op->memory.bytes;
      kernels[p] += op->memory.kernels;
      operations[p] += op_operations(op, f->framework);
      ck_assert_uint_eq(op->part, 0);
    }
  }
  layer_work_clear(&work);
  return saved;
}

/* A part copies its input, and a mask if it attends; behind it the gradients of what it gives: so many rows of the width,
 * in so many tensors. */
static void check_copies(const Planned *f, int layer, gboolean masked, double rows, int tensors)
{
  double bytes[2], kernels[2], operations[2], tokens = (double)f->plan.micro_batch * f->plan.seq;
  double once = 2.0 * tokens * f->model->hidden, mask = masked ? 3 * tokens * f->plan.seq : 0;

  replay_of(f, layer, bytes, kernels, operations);
  ck_assert_msg(bytes[0] == 2 * once + mask && kernels[0] == (masked ? 3 : 1) && operations[0] == kernels[0] + 2,
                "%d: %g %g %g", layer, bytes[0], kernels[0], operations[0]);
  ck_assert_msg(bytes[1] == 2 * once * rows && kernels[1] == tensors && operations[1] == tensors + 2, "%d: %g %g", layer,
                bytes[1] / once, kernels[1]);
}

/* A recorded part's input and a mask of a byte a pair of tokens are copied to where they were recorded, and the gradients of
 * what it gives: what goes around the experts, the rows that are sent (of an all-to-all of two experts a token,
 * permuted), their weights, and what shared experts made. What blocks keep is the same. */
START_TEST(recorded_inputs_are_copied)
{
  static const struct {
    ExpertDispatch dispatch;
    int shared, layer;
    gboolean again, beside;
    double rows; /* given, over those of the block */
    int tensors;
  } cases[] = {
    { DISPATCH_ALL_TO_ALL, 0, 2, FALSE, FALSE, 1 + 2, 3 },   { DISPATCH_FLEX, 0, 2, FALSE, FALSE, 1 + 1, 3 },
    { DISPATCH_HYBRID, 256, 2, FALSE, FALSE, 1 + 1 + 1, 4 }, { DISPATCH_ALL_TO_ALL, 256, 2, FALSE, TRUE, 1 + 2, 3 },
    { DISPATCH_ALL_TO_ALL, 0, 2, TRUE, FALSE, 1 + 2, 3 },    { DISPATCH_ALL_TO_ALL, 0, 1, FALSE, FALSE, 1, 1 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    double bytes[2], kernels[2], operations[2];
    setup(&f);
    for (int s = 0; s < f.model->n_specs; s++)
      f.model->specs[s].ffn.shared_width = f.model->specs[s].ffn.experts ? cases[i].shared : 0;
    f.plan.dispatch = cases[i].dispatch;
    f.plan.overlap.experts = cases[i].beside;
    if (cases[i].again) {
      f.plan.recompute = RECOMPUTE_SELECTIVE;
      f.plan.scope.modules = 1u << MODULE_MOE;
    }
    f.plan.graph = GRAPH_NONE;
    double saved = replay_of(&f, cases[i].layer, bytes, kernels, operations);
    ck_assert(bytes[0] == 0 && bytes[1] == 0 && operations[0] == 0 && operations[1] == 0);
    f.plan.graph = GRAPH_PARTIAL;
    ck_assert_double_eq(replay_of(&f, cases[i].layer, bytes, kernels, operations), saved);
    check_copies(&f, cases[i].layer, TRUE, cases[i].rows, cases[i].tensors);
    planned_clear(&f);
  }
}
END_TEST

/* Neither Mamba's layers have a mask nor those of experts alone. */
START_TEST(recorded_mamba)
{
  Planned f;
  double bytes[2], kernels[2], operations[2];

  planned_init(&f, fixture_known_model("nemotron-3-nano-30b-a3b"), fixture_cluster("dgx-h100", 8), "nemo-2026-04");
  planned_spread(&f, 1);
  f.plan.seq = f.model->seq;
  f.plan.graph = GRAPH_PARTIAL;
  replay_of(&f, 1, bytes, kernels, operations);
  ck_assert(kernels[0] == 1 && operations[0] == 3 && kernels[1] == 1 && operations[1] == 3);
  ck_assert_double_eq(bytes[0], bytes[1]);
  int experts = 1;
  while (spec_mixes(model_layer(f.model, experts)))
    experts++;
  replay_of(&f, experts, bytes, kernels, operations);
  ck_assert(kernels[0] == 1 && operations[0] == 3 && bytes[0] == 4.0 * f.plan.seq * f.model->hidden);
  planned_clear(&f);
}
END_TEST

/* Modules that are named are those of Megatron Core's checks. */
START_TEST(recorded_modules_are_checked)
{
  enum { ATTN = 1u << RECORDED_ATTN, MLP = 1u << RECORDED_MLP, MOE = 1u << RECORDED_MOE, MAMBA = 1u << RECORDED_MAMBA,
         ROUTER = 1u << RECORDED_MOE_ROUTER, PREPROCESS = 1u << RECORDED_MOE_PREPROCESS };
  static const struct {
    CudaGraph graph;
    guint modules;
    gboolean padded, dropped, exchange, again;
    const char *refused; /* behind the key; NULL: legal */
  } cases[] = {
    { GRAPH_PARTIAL, ATTN, FALSE, FALSE, FALSE, FALSE, NULL },
    { GRAPH_PARTIAL, ROUTER, FALSE, FALSE, FALSE, FALSE, NULL },
    { GRAPH_PARTIAL, ROUTER | PREPROCESS, FALSE, FALSE, TRUE, FALSE, NULL },
    { GRAPH_PARTIAL, ATTN | MLP, FALSE, FALSE, FALSE, FALSE, NULL },
    { GRAPH_PARTIAL, ATTN | MOE, TRUE, FALSE, FALSE, FALSE, NULL },
    { GRAPH_PARTIAL, ATTN, FALSE, FALSE, FALSE, TRUE, NULL },
    { GRAPH_PARTIAL, ROUTER | PREPROCESS, TRUE, FALSE, FALSE, FALSE, NULL },
    { GRAPH_NONE, ATTN, FALSE, FALSE, FALSE, FALSE, ": expected cuda_graph partial, it is none" },
    { GRAPH_FULL, ATTN, TRUE, FALSE, FALSE, FALSE, ": expected cuda_graph partial, it is full" },
    { GRAPH_PARTIAL, MAMBA | ATTN, FALSE, FALSE, FALSE, FALSE, ": \"mamba\": expected a module that model experts has" },
    { GRAPH_PARTIAL, MOE | ROUTER, TRUE, FALSE, FALSE, FALSE,
      ": \"moe\": expected no moe_router and moe_preprocess beside it, which are parts of it" },
    { GRAPH_PARTIAL, MOE, FALSE, FALSE, FALSE, FALSE,
      ": \"moe\": expected experts padded to a capacity, others have other shapes in each pass" },
    { GRAPH_PARTIAL, PREPROCESS, FALSE, FALSE, FALSE, FALSE, ": \"moe_preprocess\": expected moe_router beside it" },
    { GRAPH_PARTIAL, ROUTER | PREPROCESS, FALSE, TRUE, FALSE, FALSE,
      ": \"moe_preprocess\": expected none where the host reads how many rows are left of a capacity" },
    { GRAPH_PARTIAL, ROUTER, FALSE, TRUE, FALSE, FALSE, NULL },
    { GRAPH_PARTIAL, MLP, FALSE, FALSE, TRUE, FALSE,
      ": \"mlp\": expected none that the exchange of tokens is part of or waits for, it overlaps" },
    { GRAPH_PARTIAL, ROUTER, FALSE, FALSE, FALSE, TRUE,
      ": \"moe_router\": expected none where experts are made again with their router" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    planned_init(&f, fixture_experts(2, 512, 8, 16, 1024, 1000), fixture_cluster("dgx", 16), "nemo-2026-04");
    planned_spread(&f, 1);
    f.plan.ep = 16;
    f.plan.graph = cases[i].graph;
    f.plan.graph_modules = cases[i].modules;
    f.plan.expert_capacity = cases[i].padded || cases[i].dropped ? 1.5 : 0;
    f.plan.expert_padded = cases[i].padded;
    f.plan.overlap.exchange = cases[i].exchange;
    f.plan.recompute = cases[i].again ? RECOMPUTE_SELECTIVE : RECOMPUTE_NONE;
    f.plan.scope.modules = cases[i].again ? 1u << MODULE_MOE : 0;
    g_autofree char *line = g_strdup_printf("plan: cuda_graph_modules%s", cases[i].refused);
    if (cases[i].refused)
      planned_refuse(&f, RULE_GRAPH, line);
    else
      planned_accept(&f);
    planned_clear(&f);
  }
}
END_TEST

/* Each op is recorded with the modules that it is part of, in both passes, and a choice that is recorded without the sorting
 * of rows takes its part of both out of one op. */
START_TEST(modules_record_their_ops)
{
  enum { ATTN = 1u << RECORDED_ATTN, MLP = 1u << RECORDED_MLP, MOE = 1u << RECORDED_MOE,
         ROUTER = 1u << RECORDED_MOE_ROUTER, PREPROCESS = 1u << RECORDED_MOE_PREPROCESS };
  static const struct {
    const char *op;
    gboolean dense; /* of the dense block */
    guint modules;  /* that record it */
  } ops[] = {
    { "qkv", FALSE, ATTN }, { "attention", FALSE, ATTN }, { "attention", TRUE, ATTN }, { "router", FALSE, ROUTER | MOE },
    { "dispatch", FALSE, ROUTER | MOE }, { "permute rows", FALSE, PREPROCESS | MOE }, { "experts up", FALSE, MOE },
    { "combine", FALSE, MOE }, { "feed-forward up", TRUE, MLP }, { "feed-forward down", TRUE, MLP },
    { "dispatch tokens", FALSE, MOE }, { "graph input", FALSE, 0 }, { "graph input", TRUE, 0 },
    { "feed-forward norm", FALSE, ROUTER | MOE }, { "feed-forward norm", TRUE, MLP },
  };
  static const guint sets[] = { ATTN, MLP, ATTN | MOE, ROUTER, ROUTER | PREPROCESS, ATTN | MLP | ROUTER | PREPROCESS };
  double operations[G_N_ELEMENTS(sets)] = { 0 }, bytes[G_N_ELEMENTS(sets)] = { 0 };

  for (gsize s = 0; s < G_N_ELEMENTS(sets); s++)
    for (int layer = 1; layer <= 2; layer++) {
      Planned f;
      LayerWork work;
      guint met = 0;
      planned_init(&f, fixture_experts(2, 512, 8, 16, 1024, 1000), fixture_cluster("dgx", 16), "nemo-2026-04");
      planned_spread(&f, 1);
      f.plan.ep = 16;
      f.plan.graph = GRAPH_PARTIAL;
      f.plan.graph_modules = sets[s];
      layer_work_init(&work, f.model, model_layer(f.model, layer), PASSES(&f.plan), f.cluster);
      const GArray *const passes[] = { work.forward, work.backward };
      for (int p = 0; p < 2; p++)
        for (guint o = 0; o < passes[p]->len; o++) {
          const Op *op = &g_array_index(passes[p], Op, o);
          gboolean sorts = g_str_equal(op->name, "sort choices");
          for (gsize i = 0; i < G_N_ELEMENTS(ops); i++)
            if (g_str_equal(op->name, ops[i].op) && ops[i].dense == (layer == 1)) {
              ck_assert_msg(op_is_recorded(op, PASSES(&f.plan)) == ((ops[i].modules & sets[s]) != 0), "%s of set %zu", op->name, s);
              met |= 1u << i;
            }
          ck_assert(!sorts || (sets[s] == ROUTER && !op_is_recorded(op, PASSES(&f.plan))));
          operations[s] += sorts || g_str_equal(op->name, "dispatch") ? op_operations(op, f.framework) : 0;
          bytes[s] += sorts || g_str_equal(op->name, "dispatch") ? op->memory.bytes : 0;
        }
      for (gsize i = 0; i < G_N_ELEMENTS(ops); i++)
        ck_assert_msg(ops[i].dense != (layer == 1) || !ops[i].modules || met >> i & 1, "no %s in layer %d", ops[i].op, layer);
      ck_assert_uint_eq(met >> 11 & 3, layer == 1 ? sets[s] & (ATTN | MLP) ? 2 : 0 : sets[s] & ~(guint)MLP ? 1 : 0);
      layer_work_clear(&work);
      planned_clear(&f);
    }
  for (gsize s = 1; s < G_N_ELEMENTS(sets); s++)
    ck_assert(operations[s] == operations[0] && bytes[s] == bytes[0]);
}
END_TEST

/* Whether all ops of a name are recorded, in both passes; -1 where some are. */
static int recorded_of(const Planned *f, const char *name)
{
  LayerWork work;
  int ops = 0, recorded = 0;

  layer_work_init(&work, f->model, model_layer(f->model, 2), PASSES(&f->plan), f->cluster);
  const GArray *const passes[] = { work.forward, work.backward };
  for (int p = 0; p < 2; p++)
    for (guint o = 0; o < passes[p]->len; o++) {
      const Op *op = &g_array_index(passes[p], Op, o);
      ops += g_str_equal(op->name, name);
      recorded += g_str_equal(op->name, name) && op_is_recorded(op, PASSES(&f->plan));
    }
  layer_work_clear(&work);
  ck_assert_msg(ops >= 2, "no %s", name);
  return recorded == ops ? 1 : recorded ? -1 : 0;
}

/* What making experts again leaves of what is recorded: all but routers where nobody names them, and experts that are
 * named. */
START_TEST(what_remade_experts_leave_recorded)
{
  static const char *const ops[] = { "qkv", "feed-forward norm", "router", "dispatch", "permute rows", "experts up", "combine" };
  static const struct {
    guint named;
    RecomputeModule again;
    int recorded[G_N_ELEMENTS(ops)];
  } cases[] = {
    { 0, MODULE_MOE_ACT, { 1, 1, 1, 1, 1, 0, 0 } },
    { 0, MODULE_MOE, { 1, 0, 0, 0, 0, 0, 0 } },
    { 1u << RECORDED_ATTN | 1u << RECORDED_MOE, MODULE_MOE, { 1, 1, 1, 1, 1, 1, 1 } },
    { 1u << RECORDED_MOE, MODULE_MOE, { 0, 1, 1, 1, 1, 1, 1 } },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    setup(&f);
    f.plan.expert_capacity = 1;
    f.plan.expert_padded = TRUE;
    f.plan.graph = GRAPH_PARTIAL;
    f.plan.graph_modules = cases[i].named;
    f.plan.recompute = RECOMPUTE_SELECTIVE;
    f.plan.scope.modules = 1u << cases[i].again;
    planned_accept(&f);
    for (gsize o = 0; o < G_N_ELEMENTS(ops); o++)
      ck_assert_msg(recorded_of(&f, ops[o]) == cases[i].recorded[o], "%s of %zu", ops[o], i);
    planned_clear(&f);
  }
}
END_TEST

/* Tokens that ranks gather before they sort them are chosen by the router, which Megatron Core's route() ends with; sorting is
 * of experts alone. */
START_TEST(gathered_choices_are_recorded)
{
  enum { ROUTER = 1u << RECORDED_MOE_ROUTER, PREPROCESS = 1u << RECORDED_MOE_PREPROCESS, MOE = 1u << RECORDED_MOE };
  static const struct {
    guint modules;
    int choice, sorting, rows; /* recorded; -1: not one of its own */
  } cases[] = {
    { 1u << RECORDED_ATTN, 0, -1, 0 }, { ROUTER, 1, 0, 0 }, { ROUTER | PREPROCESS, 1, 0, 0 }, { MOE, 1, -1, 1 },
  };
  static const char *const names[] = { "dispatch", "sort choices", "permute rows" };
  double all[2] = { 0 };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    LayerWork work;
    double operations = 0, bytes = 0;
    int found[2][G_N_ELEMENTS(names)];
    memset(found, -1, sizeof found);
    setup(&f);
    f.plan.dispatch = DISPATCH_GATHER;
    f.plan.graph = GRAPH_PARTIAL;
    f.plan.graph_modules = cases[i].modules;
    layer_work_init(&work, f.model, model_layer(f.model, 2), PASSES(&f.plan), f.cluster);
    const GArray *const passes[] = { work.forward, work.backward };
    for (int p = 0; p < 2; p++)
      for (guint o = 0; o < passes[p]->len; o++) {
        const Op *op = &g_array_index(passes[p], Op, o);
        for (gsize n = 0; n < G_N_ELEMENTS(names); n++)
          if (g_str_equal(op->name, names[n])) {
            found[p][n] = op_is_recorded(op, PASSES(&f.plan));
            operations += op_operations(op, f.framework);
            bytes += op->memory.bytes;
          }
      }
    for (int p = 0; p < 2; p++)
      ck_assert_msg(found[p][0] == cases[i].choice && found[p][1] == cases[i].sorting && found[p][2] == cases[i].rows,
                    "%zu: %d %d %d", i, found[p][0], found[p][1], found[p][2]);
    all[0] = i ? all[0] : operations;
    all[1] = i ? all[1] : bytes;
    ck_assert(operations == all[0] && bytes == all[1]);
    layer_work_clear(&work);
    planned_clear(&f);
  }
}
END_TEST

/* A decoder's attention that reads what the encoder gave is of `attn`, and that is another input. */
START_TEST(cross_attention_is_recorded)
{
  static const char *const names[] = { "cross norm", "cross q", "cross projection" };

  for (int set = 0; set < 2; set++) {
    Planned f;
    LayerWork work;
    double bytes[2], kernels[2], operations[2];
    int met = 0;
    planned_init(&f, fixture_known_model("t5-base"), fixture_cluster("dgx-h100", 8), "nemo-2026-04");
    planned_spread(&f, 1);
    f.plan.graph = GRAPH_PARTIAL;
    f.plan.graph_modules = 1u << (set ? RECORDED_MLP : RECORDED_ATTN);
    planned_accept(&f);
    int layer = f.model->blocks;
    while (!model_layer(f.model, layer)->cross.heads)
      layer--;
    layer_work_init(&work, f.model, model_layer(f.model, layer), PASSES(&f.plan), f.cluster);
    const GArray *const passes[] = { work.forward, work.backward };
    for (int p = 0; p < 2; p++)
      for (guint o = 0; o < passes[p]->len; o++) {
        const Op *op = &g_array_index(passes[p], Op, o);
        for (gsize n = 0; n < G_N_ELEMENTS(names); n++)
          if (g_str_equal(op->name, names[n])) {
            ck_assert_msg(op_is_recorded(op, PASSES(&f.plan)) == !set, "%s", names[n]);
            met |= 1 << (p * (int)G_N_ELEMENTS(names) + (int)n);
          }
      }
    ck_assert_int_eq(met, 077);
    layer_work_clear(&work);
    const PassLayout *l = PASSES(&f.plan);
    double own = (double)f.plan.micro_batch * l->decoder_seq, read = (double)f.plan.micro_batch * l->seq;
    replay_of(&f, layer, bytes, kernels, operations);
    ck_assert_double_eq(kernels[0], set ? 1 : 4);
    ck_assert_double_eq(bytes[0], 4 * f.model->hidden * (own + (set ? 0 : read)) + (set ? 0 : 3 * own * l->seq));
    ck_assert_double_eq(bytes[1], 4 * f.model->hidden * own);
    planned_clear(&f);
  }
}
END_TEST

/* Of modules that are named: a mask goes with attention alone, and what a part gives is what its end gives. */
START_TEST(named_modules_are_replayed)
{
  static const struct {
    guint modules;
    int layer; /* 1: dense */
    gboolean masked;
    double rows;
    int tensors;
  } cases[] = {
    { 1u << RECORDED_ATTN, 1, TRUE, 1, 1 }, { 1u << RECORDED_ATTN, 2, TRUE, 1, 1 },
    { 1u << RECORDED_MLP, 1, FALSE, 1, 1 }, { 1u << RECORDED_ATTN | 1u << RECORDED_MLP, 1, TRUE, 1, 1 },
    { 1u << RECORDED_MOE_ROUTER | 1u << RECORDED_MOE_PREPROCESS, 2, FALSE, 1 + 2, 3 },
    { 1u << RECORDED_MOE_ROUTER, 2, FALSE, 1 + 1, 3 }, { 1u << RECORDED_MOE, 2, FALSE, 1, 1 },
    { 1u << RECORDED_ATTN | 1u << RECORDED_MOE_ROUTER, 2, TRUE, 1 + 1, 3 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    setup(&f);
    f.plan.dispatch = DISPATCH_ALL_TO_ALL;
    f.plan.graph = GRAPH_PARTIAL;
    f.plan.graph_modules = cases[i].modules;
    check_copies(&f, cases[i].layer, cases[i].masked, cases[i].rows, cases[i].tensors);
    planned_clear(&f);
  }
}
END_TEST

/* Mamba alone leaves layers that attend, and those of experts, to the host. */
START_TEST(mamba_alone_is_replayed)
{
  Planned f;
  double bytes[2], kernels[2], operations[2];
  int replayed = 0, mamba = 0;

  planned_init(&f, fixture_known_model("nemotron-3-nano-30b-a3b"), fixture_cluster("dgx-h100", 8), "nemo-2026-04");
  planned_spread(&f, 1);
  f.plan.seq = f.model->seq;
  f.plan.graph = GRAPH_PARTIAL;
  f.plan.graph_modules = 1u << RECORDED_MAMBA;
  for (int layer = 1; layer <= f.model->blocks; layer++) {
    replay_of(&f, layer, bytes, kernels, operations);
    replayed += kernels[0] > 0;
    mamba += model_layer(f.model, layer)->linear.heads > 0;
  }
  ck_assert_int_eq(mamba, 23);
  ck_assert_int_eq(replayed, mamba);
  planned_clear(&f);
}
END_TEST

TEST_MAIN("replay", recorded_inputs_are_copied, recorded_mamba, recorded_modules_are_checked, modules_record_their_ops,
          what_remade_experts_leave_recorded, gathered_choices_are_recorded, cross_attention_is_recorded,
          named_modules_are_replayed, mamba_alone_is_replayed)
