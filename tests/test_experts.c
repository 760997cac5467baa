/* Experts on other ranks than the rest of their layer: groups, work, states, rules. */
#include "main.h"
#include "planned.h"

static void setup(Planned *f, int experts, int devices)
{
  planned_init(f, fixture_experts(1, 512, 8, experts, 1024, 1000), fixture_cluster("dgx-h100", devices), "megatron-core");
  planned_spread(f, 1);
}

/* 32 ranks in two stages, tensor 2: experts whole over 8 ranks twice. Megatron
 * Core's generator gives expert groups 0-7, 8-15, and copies 0 8, 1 9, ... */
START_TEST(groups_fold)
{
  Plan p = { .gpus = 32, .tp = 2, .cp = 2, .dp = 4, .pp = 2, .ep = 8, .etp = 1 };
  int at[EXPERT_AXIS_COUNT];

  mesh_expert_coordinates(MESH(&p), 16 + 13, at);
  ck_assert(at[EXPERT_TENSOR] == 0 && at[EXPERT_PARALLEL] == 5 && at[EXPERT_DATA] == 1);
  ck_assert_int_eq(MESH(&p)->experts[EXPERT_DATA].stride, 8);
  ck_assert_int_eq(plan_expert_replicas(&p), 2);
  p.etp = 0;
  p.ep = 4;
  mesh_expert_coordinates(MESH(&p), 13, at);
  ck_assert(at[EXPERT_TENSOR] == 1 && at[EXPERT_PARALLEL] == 2 && at[EXPERT_DATA] == 1);
  ck_assert_int_eq(MESH(&p)->experts[EXPERT_PARALLEL].stride, 2);
}
END_TEST

/* What the block comes to. */
static LayerSums block_of(const Planned *f)
{
  return planned_layer(f, 1);
}

/* Work is that of experts beside their layer; weights are divided; four all-to-alls
 * of tokens x k x h x bytes x (e-1)/e, six with full recomputation. */
START_TEST(experts_divide)
{
  Planned f;

  setup(&f, 16, 16);
  LayerSums whole = block_of(&f);
  ck_assert_double_eq(whole.sent[AXIS_EXPERT], 0);
  ck_assert_double_eq(whole.expert_params, 0);
  for (int ep = 2; ep <= 16; ep *= 2) {
    f.plan.ep = ep;
    f.plan.recompute = RECOMPUTE_NONE;
    LayerSums part = block_of(&f);
    double sent = 1024.0 * 2 * 512 * 2 * (ep - 1) / ep;
    ck_assert_double_eq_tol(part.flops / whole.flops, 1, 1e-12);
    ck_assert_double_eq_tol(part.saved_bytes / whole.saved_bytes, 1, 1e-12);
    ck_assert_double_eq(part.expert_params * ep, model_layer(f.model, 1)->expert_params);
    ck_assert_double_eq(part.params + part.expert_params * ep, whole.params);
    ck_assert_double_eq_tol(part.sent[AXIS_EXPERT] / (4 * sent), 1, 1e-12);
    f.plan.recompute = RECOMPUTE_FULL;
    part = block_of(&f);
    ck_assert_double_eq_tol((part.sent[AXIS_EXPERT] + part.sent_again[AXIS_EXPERT]) / (6 * sent), 1, 1e-12);
  }
  planned_clear(&f);
}
END_TEST

/* Shared experts keep gate, up and product of each token; their input is kept for the
 * router, but in 8 bits, where they keep a copy of it. */
START_TEST(shared_experts_read_the_routers_input)
{
  const double tokens = 64, hidden = 128, shared = 96;
  Planned f;
  double saved[2][2];

  for (int with = 0; with < 2; with++) {
    setup(&f, 4, 1);
    model_free(f.model);
    f.model = fixture_moe(1, hidden, 4, tokens, 1000, 4, 2, with ? shared : 0);
    f.plan = plan_default(f.model, f.framework);
    f.plan.recompute = RECOMPUTE_NONE;
    for (int fp8 = 0; fp8 < 2; fp8++) {
      plan_set_format(&f.plan, fp8 ? DTYPE_FP8 : DTYPE_BF16);
      saved[with][fp8] = block_of(&f).saved_bytes;
    }
    planned_clear(&f);
  }
  ck_assert_double_eq_tol(saved[1][0] - saved[0][0], tokens * 3 * shared * 2, 0.5);
  ck_assert_double_eq_tol(saved[1][1] - saved[0][1], tokens * (2 * shared * 2 + shared + hidden), 0.5);
}
END_TEST

/* However tensor ranks fold, all ranks together do the same work on the same
 * weights; with whole experts no rows are gathered or summed for them. */
START_TEST(folding_conserves_work)
{
  Planned f;

  setup(&f, 16, 16);
  f.plan.tp = 4;
  f.plan.dp = 4;
  f.plan.sequence_parallel = TRUE;
  LayerSums whole = block_of(&f);
  double width = model_layer(f.model, 1)->ffn.width, h = 512;
  for (int dispatch = 0; dispatch <= DISPATCH_FLEX; dispatch++)
    for (int etp = 1; etp <= 4; etp *= 2) {
      f.plan.ep = 4;
      f.plan.etp = etp;
      f.plan.dispatch = dispatch;
      planned_accept(&f);
      LayerSums part = block_of(&f);
      double router = 2 * 3 * 1024 * h * 16 * (1 - 1 / 4.0); /* on a rank's own rows, not on all */
      ck_assert_double_eq_tol((part.flops + router) / whole.flops, 1, 1e-12);
      ck_assert_double_eq(part.expert_params * 4 * etp, 16 * 3 * width * h);
      double routed = 1024 / 4 * 2 * h * 2, rows = 1024 / 4 * h * 2;
      if (dispatch == DISPATCH_FLEX)
        continue;
      double sent = dispatch == DISPATCH_GATHER ? 4 * (4 * etp - 1) * rows
                                                : 4 * routed * 3 / 4 + 4 * (etp - 1) * routed;
      ck_assert_double_eq_tol(part.sent[AXIS_EXPERT] / sent, 1, 1e-12);
    }
  planned_clear(&f);
}
END_TEST

/* Of two experts drawn from two nodes a token visits 1.5 on average: each once by flex. With
 * groups, those of them that it may visit. */
START_TEST(flex_sends_once_to_a_node)
{
  Planned f;

  setup(&f, 16, 16);
  f.plan.ep = 16;
  LayerSums each = block_of(&f);
  f.plan.dispatch = DISPATCH_FLEX;
  planned_accept(&f);
  LayerSums once = block_of(&f);
  ck_assert_double_eq_tol(once.sent[AXIS_EXPERT] / each.sent[AXIS_EXPERT], 1 - 28 / 120.0, 1e-12);
  ck_assert_double_eq_tol(once.flops / each.flops, 1, 1e-12);
  f.plan.ep = 8;
  ck_assert_double_eq_tol(block_of(&f).sent[AXIS_EXPERT], 4 * 7 / 8.0 * 1024 * 512 * 2 * (8 * (1 - 91 / 120.0)), 1e-3);
  f.plan.ep = 16;
  f.model->specs[f.model->layers[1]].ffn.groups = 2;
  f.model->specs[f.model->layers[1]].ffn.groups_per_token = 1;
  ck_assert_double_eq_tol(block_of(&f).sent[AXIS_EXPERT] / each.sent[AXIS_EXPERT], 1 / 2.0, 1e-12);
  planned_clear(&f);
}
END_TEST

enum { NO_SHARED, ALONE, BESIDE, VARIANTS };

/* Shared experts beside the exchange do the same work, hide the exchange as far as they last, and leave the rest
 * of it. */
START_TEST(shared_experts_hide_the_exchange)
{
  Planned f;
  LayerSums blocks[VARIANTS];
  PassPrice passes[VARIANTS][PASS_COUNT];

  setup(&f, 16, 16);
  f.plan.ep = 16;
  f.framework->issue_s = 0; /* nor is the host a bound */
  for (int i = 0; i < VARIANTS; i++) {
    f.model->specs[f.model->layers[1]].ffn.shared_width = i == NO_SHARED ? 0 : 2048;
    f.plan.overlap.experts = i == BESIDE;
    planned_accept(&f);
    g_autoptr(PriceTable) prices = price_table_new(f.model, LAYOUT(&f.plan), f.cluster);
    memcpy(passes[i], prices->layers[f.model->layers[1]].pass, sizeof passes[i]);
    blocks[i] = block_of(&f);
  }
  ck_assert_double_eq_tol(blocks[BESIDE].flops, blocks[ALONE].flops, 1e-3);
  ck_assert_double_eq_tol(blocks[BESIDE].sent[AXIS_EXPERT], blocks[ALONE].sent[AXIS_EXPERT], 1e-3);
  ck_assert_double_eq_tol(blocks[BESIDE].saved_bytes, blocks[ALONE].saved_bytes, 1e-3);
  for (int pass = PASS_FORWARD; pass <= PASS_INPUT; pass++) {
    const PassPrice *alone = &passes[ALONE][pass], *beside = &passes[BESIDE][pass];
    double hidden = alone->expert_s - beside->expert_s, shared = beside->compute_s - passes[NO_SHARED][pass].compute_s;
    ck_assert_double_lt(beside->seconds, alone->seconds);
    ck_assert_double_ge(beside->compute_s, alone->compute_s * (1 - 1e-12));
    ck_assert_double_eq_tol(beside->seconds, beside->compute_s + beside->expert_s, 1e-9);
    ck_assert_double_gt(hidden, 0.5 * MIN(shared, alone->expert_s));
    ck_assert_double_le(hidden, shared + 1e-12);
  }
  f.plan.dispatch = DISPATCH_FLEX;
  planned_refuse(&f, RULE_EXPERTS, "plan: overlap: experts: true: expected false but where megatron-core sends tokens "
                                   "to experts by alltoall");
  planned_clear(&f);
}
END_TEST

/* A limit of an expert's tokens: none to set, what is beyond dropped, or experts filled up to it. */
START_TEST(capacity_is_the_frameworks)
{
  Planned f;

  setup(&f, 16, 16);
  f.plan.ep = 16;
  f.plan.expert_load = 1.1;
  f.plan.expert_capacity = 1.25;
  planned_accept(&f);
  ck_assert_double_eq(PASSES(&f.plan)->expert_tokens, 1.1);
  f.framework->capacity = CAPACITY_PAD;
  planned_accept(&f);
  ck_assert_double_eq(PASSES(&f.plan)->expert_tokens, 1.25);
  f.framework->capacity = CAPACITY_NONE;
  planned_refuse(&f, RULE_EXPERTS, "plan: moe_expert_capacity_factor: 1.25: expected none, megatron-core drops no "
                                   "tokens");
  f.plan.expert_capacity = 0;
  ck_assert_double_eq(PASSES(&f.plan)->expert_tokens, 1.1);
  planned_clear(&f);
}
END_TEST

/* hpZ over 8 neighbours keeps 1/8 of the dense weights a second time, and 1/2 of the experts' that 4 of them
 * hold each. */
START_TEST(second_copies_of_experts)
{
  Planned f;
  double weights[2], dense = 0, experts = 0;

  setup(&f, 16, 32);
  f.plan.ep = 4;
  f.plan.zero = 3;
  f.framework->choices = ~0u;
  for (int with = 0; with < 2; with++) {
    f.plan.sharding.secondary = 8 * with;
    planned_build(&f);
    weights[with] = f.program->rows[0].static_bytes[PART_WEIGHTS];
    for (int i = 0; i < f.model->n_layers && with; i++) {
      dense += f.prices->layers[f.model->layers[i]].params;
      experts += f.prices->layers[f.model->layers[i]].expert_params;
    }
  }
  ck_assert_double_eq_tol(weights[1] - weights[0], 2 * (dense / 8 + experts / 2), 1);
  f.plan.ep = 16;
  planned_refuse(&f, RULE_SHARDING, "plan: zero_hpz_partition_size: 8: expected that the ranks of expert parallel 16, "
                                    "each expert on 1, divide these with their tensor-parallel ones");
  planned_clear(&f);
}
END_TEST

/* Small tensors stay whole, experts' are divided whatever their size; the host's update of both may be late. */
START_TEST(options_beside_experts)
{
  Planned f;

  setup(&f, 16, 16);
  f.plan.ep = 4;
  f.framework->choices = ~0u;
  f.plan.zero = 3;
  f.plan.sharding.persistence = 1e9;
  planned_accept(&f);
  g_autoptr(PriceTable) prices = price_table_new(f.model, LAYOUT(&f.plan), f.cluster);
  const LayerPrice *block = price_of_layer(prices, f.model, 0, 1);
  ck_assert_double_eq(block->whole, block->params);
  ck_assert_double_gt(block->expert_params, 0);
  f.plan.sharding.persistence = 0;
  f.plan.zero = 1;
  f.plan.offload = (Offload) { .optimizer = STORE_CPU };
  double at_once = planned_run(&f).iteration_s;
  f.plan.offload.delayed = TRUE;
  ck_assert_double_lt(planned_run(&f).iteration_s, at_once);
  planned_clear(&f);
}
END_TEST

/* The busiest rank's tokens: more work, messages and activations, up to the capacity. */
START_TEST(the_busiest_rank_counts)
{
  Planned f;

  setup(&f, 16, 16);
  f.plan.ep = 8;
  LayerSums even = block_of(&f);
  f.plan.expert_load = 2;
  LayerSums busy = block_of(&f);
  ck_assert_double_eq_tol(busy.sent[AXIS_EXPERT] / even.sent[AXIS_EXPERT], 2, 1e-12);
  double experts = 3 * 2.0 * 1024 * 2 * 3 * 512 * 1024; /* three passes of 1024 x 2 tokens through 3 matrices of
                                                           512 x 1024 */
  ck_assert_double_eq_tol(busy.flops - even.flops, experts, 1e-3);
  ck_assert_double_gt(busy.saved_bytes, even.saved_bytes);
  f.plan.expert_capacity = 1.25;
  ck_assert_double_eq_tol(block_of(&f).sent[AXIS_EXPERT] / even.sent[AXIS_EXPERT], 1.25, 1e-12);
  planned_clear(&f);
}
END_TEST

/* Where experts are whole no rank is busier than others, and each drops what is beyond its capacity. */
START_TEST(whole_experts_drop_rows)
{
  Planned f;

  setup(&f, 16, 16);
  LayerSums all = block_of(&f);
  f.plan.expert_load = 2;
  ck_assert_double_eq(block_of(&f).flops, all.flops);
  f.plan.expert_capacity = 0.5;
  LayerSums half = block_of(&f);
  ck_assert_double_eq_tol(all.flops - half.flops, 3 * 2.0 * 1024 * 3 * 512 * 1024, 1e-3);
  ck_assert_double_lt(half.saved_bytes, all.saved_bytes);
  planned_clear(&f);
}
END_TEST

/* What biases of experts' outputs move and launch, and of it the kernels that convert types. */
static void count_biases(Planned *f, double bytes[2], double kernels[2], double mixed[2])
{
  LayerWork work;

  layer_work_init(&work, f->model, model_layer(f->model, 1), PASSES(&f->plan), f->cluster);
  const GArray *const passes[] = { work.forward, work.backward };
  for (int p = 0; p < 2; p++) {
    bytes[p] = kernels[p] = mixed[p] = 0;
    for (guint i = 0; i < passes[p]->len; i++) {
      const Op *op = &g_array_index(passes[p], Op, i);
      if (!g_str_has_prefix(op->name, "experts bias"))
        continue;
      mixed[p] += g_str_equal(op_kernel(op), "mixed types") ? op->memory.bytes : 0;
      bytes[p] += op->memory.bytes;
      kernels[p] += op->memory.kernels;
    }
  }
  layer_work_clear(&work);
}

/* An expert's output bias is 28 bytes of traffic an element forward and 40 backward, in 16 bits, by two kernels of each
 * expert forward and six backward beside those of all. 14 bytes a pass are of kernels that convert types. Kernels that
 * take all experts of a rank add it as they go, and one reads its gradient. */
START_TEST(biases_of_experts_outputs)
{
  Planned f;
  double bytes[2], kernels[2], mixed[2], elements = 1024.0 * 2 * 512;

  setup(&f, 16, 16);
  f.plan.ep = 8;
  f.model->specs[f.model->layers[1]].ffn.bias = TRUE;
  int local = f.model->specs[f.model->layers[1]].ffn.experts / 8;
  count_biases(&f, bytes, kernels, mixed);
  ck_assert_double_eq(bytes[0], 28 * elements);
  ck_assert_double_eq(bytes[1], 40 * elements);
  ck_assert_double_eq(mixed[0], 14 * elements);
  ck_assert_double_eq(mixed[1], 14 * elements);
  ck_assert_double_eq(kernels[0], 2 * local + 2);
  ck_assert_double_eq(kernels[1], 6 * local + 3);
  f.framework->grouped_kernels = TRUE;
  plan_set_format(&f.plan, DTYPE_FP8);
  f.plan.fp8_recipe = FP8_MXFP8;
  f.plan.graph = GRAPH_FULL;
  count_biases(&f, bytes, kernels, mixed);
  ck_assert(bytes[0] == 0 && kernels[0] == 0 && mixed[0] == 0 && mixed[1] == 0);
  ck_assert_double_eq(bytes[1], 2 * elements);
  ck_assert_double_eq(kernels[1], 1);
  planned_clear(&f);
}
END_TEST

/* Clamped gates and ups are read and written by clamps and by what joins them, and kept besides; backward what was
 * clamped is compared once of gates and twice of ups, a byte each, two of these are joined, and each half is chosen by
 * its byte before both are joined. Kernels that take all experts of a rank clamp as they go. */
START_TEST(clamps_are_kernels)
{
  Planned f;

  setup(&f, 16, 16);
  f.plan.ep = 8;
  double plain = block_of(&f).saved_bytes, rows = 1024 * 2, width = 1024;
  f.model->specs[f.model->layers[1]].ffn.clamped = TRUE;
  for (int grouped = 0; grouped < 2; grouped++) {
    double bytes[2] = { 0 }, kernels[2] = { 0 };
    LayerWork work;
    f.framework->grouped_kernels = grouped;
    if (grouped) {
      plan_set_format(&f.plan, DTYPE_FP8);
      f.plan.fp8_recipe = FP8_MXFP8;
      f.plan.graph = GRAPH_FULL;
    }
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    const GArray *const passes[] = { work.forward, work.backward };
    for (int p = 0; p < 2; p++)
      for (guint i = 0; i < passes[p]->len; i++) {
        const Op *op = &g_array_index(passes[p], Op, i);
        if (!g_str_equal(op->name, "clamp"))
          continue;
        bytes[p] += op->memory.bytes;
        kernels[p] += op->memory.kernels;
      }
    ck_assert_double_eq(bytes[0], grouped ? 0 : (2 + 2 + 2 + 2) * 2 * rows * width);
    ck_assert_double_eq(bytes[1], grouped ? 0 : (3 * (2 + 1) + 3 + 2 * (1 + 2 + 2) + 2 * (2 + 2)) * rows * width);
    ck_assert_double_eq(kernels[0], grouped ? 0 : 3);
    ck_assert_double_eq(kernels[1], grouped ? 0 : 9);
    ck_assert(grouped || work.saved_bytes == plain + 2 * 2 * rows * width);
    layer_work_clear(&work);
  }
  planned_clear(&f);
}
END_TEST

/* Padded, every expert gets its capacity, however the tokens fall: work, messages and activations are those of as
 * many tokens; without a capacity there is nothing to fill up to. */
START_TEST(places_up_to_the_capacity)
{
  Planned f;

  setup(&f, 16, 16);
  f.plan.ep = 8;
  LayerSums even = block_of(&f);
  f.plan.expert_padded = TRUE;
  planned_refuse(&f, RULE_EXPERTS, "plan: moe_pad_expert_input_to_capacity: expected a moe_expert_capacity_factor "
                                   "beside it");
  f.plan.expert_capacity = 1.5;
  planned_accept(&f);
  LayerSums padded = block_of(&f);
  ck_assert_double_eq_tol(padded.sent[AXIS_EXPERT] / even.sent[AXIS_EXPERT], 1.5, 1e-12);
  ck_assert_double_eq_tol(padded.flops - even.flops, 3 * 2.0 * 1024 * 3 * 512 * 1024, 1e-3);
  f.plan.expert_load = 3;
  ck_assert_double_eq(block_of(&f).sent[AXIS_EXPERT], padded.sent[AXIS_EXPERT]);
  f.plan.expert_padded = FALSE;
  f.plan.expert_capacity = 0;
  f.plan.expert_drop = DROP_POSITION;
  planned_refuse(&f, RULE_EXPERTS, "plan: moe_token_drop_policy: expected a moe_expert_capacity_factor beside it");
  planned_clear(&f);
}
END_TEST

/* Bytes of the op of this name, 0 without one; before it comes `before`. */
static double exchanged(const GArray *ops, const char *name, const char *before)
{
  for (guint i = 1; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, Op, i);
    if (!g_str_equal(op->name, name))
      continue;
    ck_assert_str_eq((op - 1)->name, before);
    return op->collective.bytes;
  }
  return 0;
}

/* Where routes go apart, ranks gather a count of 8 bytes for each expert from each, before the host asks for them, and
 * the rows that were sent are followed by 4 bytes each, whose gradient comes back; experts that get their capacity need
 * no counts. */
START_TEST(routes_go_apart)
{
  Planned f;
  LayerWork work;

  setup(&f, 16, 16);
  f.plan.ep = 8;
  for (int i = 0; i < 3; i++) { /* together, apart, with a capacity */
    f.framework->routes_apart = i > 0;
    f.plan.expert_padded = i == 2;
    f.plan.expert_capacity = i == 2 ? 1 : 0;
    planned_accept(&f);
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    double rows = op_tokens(PASSES(&f.plan)) * model_layer(f.model, 1)->ffn.experts_per_token;
    double counts = 8.0 * model_layer(f.model, 1)->ffn.experts * 8;
    ck_assert_double_eq(exchanged(work.forward, "gather counts", "router"), i == 1 ? counts : 0);
    ck_assert_double_eq(exchanged(work.backward, "gather counts", ""), 0);
    ck_assert_double_eq(exchanged(work.forward, "dispatch probabilities", "dispatch tokens"), i > 0 ? 4 * rows : 0);
    ck_assert_double_eq(exchanged(work.backward, "dispatch probabilities", "sort tokens"), i > 0 ? 4 * rows : 0);
    layer_work_clear(&work);
  }
  planned_clear(&f);
}
END_TEST

/* States of experts are divided over the ranks that hold the same: Megatron's
 * 6 + 12/d with bf16 weights and fp32 gradients, d of the experts' own. */
START_TEST(states_over_their_own_ranks)
{
  Planned f;

  setup(&f, 16, 32);
  f.plan.ep = 8;
  for (f.plan.zero = 0; f.plan.zero <= 3; f.plan.zero++) {
    planned_build(&f);
    double dense = 0, experts = 0, bytes = 0;
    for (int i = 0; i < f.model->n_layers; i++) {
      dense += f.prices->layers[f.model->layers[i]].params;
      experts += f.prices->layers[f.model->layers[i]].expert_params;
    }
    for (int part = PART_WEIGHTS; part <= PART_OPTIMIZER; part++)
      bytes += f.program->rows[0].static_bytes[part];
    const double of[][2] = { { 18, 18 }, { 6 + 12 / 32.0, 6 + 12 / 4.0 }, { 2 + 16 / 32.0, 2 + 16 / 4.0 },
                             { 18 / 32.0, 18 / 4.0 } };
    ck_assert_double_eq_tol(bytes / (dense * of[f.plan.zero][0] + experts * of[f.plan.zero][1]), 1, 1e-12);
  }
  planned_clear(&f);
}
END_TEST

/* Bytes of gradients that a step reduces, by whose. */
static void reduced(const Program *p, double bytes[2], int ranks[2])
{
  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = &g_array_index(p->tasks, Task, i);
    const Segment *s = &g_array_index(p->segments, Segment, t->segment);
    if (t->kind != TASK_REDUCE)
      continue;
    bytes[s->experts] += s->comm_bytes;
    ranks[s->experts] = s->group.size;
  }
}

/* Each gradient once over its own group; nothing where one rank holds an expert. */
START_TEST(gradients_over_their_own_ranks)
{
  Planned f;

  setup(&f, 16, 16);
  for (int ep = 1; ep <= 16; ep *= 4) {
    f.plan.ep = ep;
    planned_build(&f);
    double bytes[2] = { 0 }, all = f.model->params, experts = model_layer(f.model, 1)->expert_params;
    int ranks[2] = { 0 };
    reduced(f.program, bytes, ranks);
    double padding = 4.0 * 2 * (op_vocab(f.model, PASSES(&f.plan)) - 1000) * 512;
    ck_assert_double_eq(bytes[0] - padding, 4 * (ep > 1 ? all - experts : all));
    ck_assert_double_eq(bytes[1], ep == 4 ? 4 * experts / ep : 0);
    ck_assert_int_eq(ranks[0], 16);
    ck_assert_int_eq(ranks[1], ep == 4 ? 4 : 0);
  }
  planned_clear(&f);
}
END_TEST

/* Time between experts' ranks is theirs in the breakdown, which adds up. */
START_TEST(breakdown_adds_up)
{
  Planned f;

  setup(&f, 16, 64);
  f.plan.tp = 4;
  f.plan.dp = 16;
  f.plan.sequence_parallel = TRUE;
  f.plan.ep = 16;
  f.plan.etp = 1;
  Metrics m = planned_run(&f);
  ck_assert(m.expert_comm_s > 0 && m.tensor_comm_s > 0);
  planned_clear(&f);
}
END_TEST

START_TEST(experts_have_rules)
{
  Planned f;

  setup(&f, 6, 16);
  f.plan.ep = 4;
  planned_refuse(&f, RULE_EXPERTS, "plan: expert_model_parallel_size: 4: expected a divisor of the 6 experts");
  f.plan.ep = 3;
  planned_refuse(&f, RULE_EXPERTS, "plan: expert_model_parallel_size: 3: expected that with expert tensor parallel 1 "
                                   "it divides the 16 ranks of a stage");
  f.plan.ep = 2;
  planned_accept(&f);
  f.plan.tp = 2;
  f.plan.dp = 8;
  planned_refuse(&f, RULE_EXPERTS, "plan: sequence_parallel: false: expected true where experts are divided over ranks "
                                   "under tensor_model_parallel_size 2");
  f.plan.sequence_parallel = TRUE;
  planned_accept(&f);
  f.plan.etp = 1;
  f.framework->experts = EXPERTS_DATA;
  planned_refuse(&f, RULE_EXPERTS, "plan: expert_model_parallel_size: 2: expected a divisor of data_parallel_size 8, "
                                   "and expert_tensor_parallel_size as tensor, megatron-core folds no experts over "
                                   "other ranks");
  f.framework->experts = EXPERTS_WHOLE;
  planned_refuse(&f, RULE_EXPERTS, "plan: expert_model_parallel_size: 2: expected 1, and expert_tensor_parallel_size "
                                   "as tensor, megatron-core divides no experts over ranks");
  f.framework->experts = EXPERTS_FOLDED;
  f.plan.etp = 3;
  planned_refuse(&f, RULE_EXPERTS, "plan: expert_tensor_parallel_size: 3: expected a divisor of the experts' width "
                                   "1024");
  planned_clear(&f);
}
END_TEST

START_TEST(dense_models_have_none)
{
  Planned f;

  setup(&f, 6, 8);
  model_free(f.model);
  f.model = fixture_llama(2, 512, 8, 8, 512, 1000);
  f.plan.ep = 2;
  planned_refuse(&f, RULE_EXPERTS, "plan: expert_model_parallel_size: 2: expected 1, and no "
                                   "expert_tensor_parallel_size, model llama has no experts");
  planned_clear(&f);
}
END_TEST

TEST_MAIN("experts", groups_fold, experts_divide, shared_experts_read_the_routers_input, folding_conserves_work,
          flex_sends_once_to_a_node, shared_experts_hide_the_exchange, capacity_is_the_frameworks,
          second_copies_of_experts, options_beside_experts, the_busiest_rank_counts, places_up_to_the_capacity,
          whole_experts_drop_rows,
          routes_go_apart, biases_of_experts_outputs,
          clamps_are_kernels, states_over_their_own_ranks, gradients_over_their_own_ranks, breakdown_adds_up,
          experts_have_rules, dense_models_have_none)
