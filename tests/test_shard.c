/* Ways to divide a step: context parallelism and what else shards more than the layers. */
#include "main.h"
#include "planned.h"
#include "cost/kernel.h"
#include "plan/check.h"
#include "sim/simulate.h"

#include <math.h>

static void setup(Planned *f, int seq, int devices)
{
  planned_init(f, fixture_llama(4, 1024, 16, 8, seq, 1000), fixture_cluster("dgx", devices), "megatron-core");
  planned_spread(f, 1);
}

static void divide_context(Planned *f, int cp, ContextExchange context)
{
  f->plan.cp = cp;
  f->plan.dp = f->plan.gpus / cp;
  f->plan.context = context;
}

/* What a block comes to. */
static LayerSums block_of(const Planned *f)
{
  return planned_layer(f, 1);
}

/* Work and kept activations are the whole's, divided; attention at the same
 * share of peak takes as long. A ring passes c-1 blocks of keys and values on
 * forward, and backward c-1 again with c-1 of gradients; gathering moves (c-1)/c
 * of all c blocks, three times; sequence and heads change places with queries
 * and outputs too, and the output is kept in both places. */
START_TEST(context_divides_the_work)
{
  Planned f;

  setup(&f, 16384, 8);
  f.cluster->device.kernels.attention_tail = 0; /* what few blocks leave idle is no work */
  LayerSums whole = block_of(&f);
  for (int cp = 2; cp <= 8; cp *= 2)
    for (int context = 0; context < CONTEXT_BOTH; context++) {
      divide_context(&f, cp, context);
      LayerSums part = block_of(&f);
      double keys = 2.0 * 16384 / cp * 8 * 64 * 2, queries = 2.0 * 16384 / cp * 1024;
      const double sent[] = { 3 * (cp - 1) * keys, 3 * (cp - 1) * keys, (cp - 1.0) / cp * 2 * (keys + 2 * queries) };
      ck_assert_double_eq_tol(part.flops * cp / whole.flops, 1, 1e-12);
      double twice = context == CONTEXT_ALL_TO_ALL ? queries : 0;
      ck_assert_double_eq_tol((part.saved_bytes - twice) * cp / whole.saved_bytes, 1, 1e-12);
      ck_assert_double_eq_tol(part.attention_s * cp / whole.attention_s, 1, 0.35);
      ck_assert_msg(fabs(part.sent[AXIS_CONTEXT] / sent[context] - 1) < 1e-12, "%d over %d: %.0f of %.0f", context, cp,
                    part.sent[AXIS_CONTEXT], sent[context]);
    }
  planned_clear(&f);
}
END_TEST

/* Heads for rows among `inner` neighbours and a ring of such groups: the volumes of both, queries and outputs included in
 * the first, and an output that is kept in both places. */
START_TEST(rings_of_groups_divide_the_work)
{
  Planned f;

  setup(&f, 16384, 8);
  LayerSums whole = block_of(&f);
  divide_context(&f, 8, CONTEXT_BOTH);
  for (int inner = 2; inner <= 4; inner *= 2) {
    f.plan.context_inner = inner;
    planned_accept(&f);
    LayerSums part = block_of(&f);
    double keys = 2.0 * 16384 / 8 * 8 * 64 * 2, queries = 2.0 * 16384 / 8 * 1024;
    double sent = (inner - 1.0) / inner * 2 * (keys + 2 * queries) + 3 * (8.0 / inner - 1) * keys;
    ck_assert_double_eq_tol(part.flops * 8 / whole.flops, 1, 1e-12);
    ck_assert_double_eq_tol((part.saved_bytes - queries) * 8 / whole.saved_bytes, 1, 1e-12);
    ck_assert_double_eq_tol(part.sent[AXIS_CONTEXT] / sent, 1, 1e-12);
  }
  planned_clear(&f);
}
END_TEST

/* One group is a2a, groups of one rank are a ring, to the last bit; as much is made again. */
START_TEST(rings_of_groups_have_two_ends)
{
  static const ContextExchange ends[] = { CONTEXT_RING, CONTEXT_ALL_TO_ALL };

  for (int i = 0; i < 2 * RECOMPUTE_COUNT; i++) {
    Planned f;
    setup(&f, 32768, 8);
    f.plan.recompute = i / 2;
    f.plan.tp = 2;
    divide_context(&f, 4, ends[i % 2]);
    f.plan.dp = 1;
    planned_build(&f);
    g_autofree LayerPrice *own = g_memdup2(f.prices->layers, f.prices->n * sizeof *own);
    f.plan.context = CONTEXT_BOTH;
    f.plan.context_inner = i % 2 ? 4 : 1;
    planned_build(&f);
    for (int k = 0; k < f.prices->n; k++) {
      const LayerPrice *other = &f.prices->layers[k];
      ck_assert_mem_eq(own[k].pass, other->pass, sizeof own[k].pass);
      ck_assert_double_eq(own[k].saved_bytes, other->saved_bytes);
      ck_assert_double_eq(own[k].transient_bytes, other->transient_bytes);
      ck_assert_double_eq(own[k].recomputed_bytes, other->recomputed_bytes);
    }
    planned_clear(&f);
  }
}
END_TEST

/* On two nodes, groups within them take less than a ring through both. */
START_TEST(rings_of_groups_win_across_nodes)
{
  Planned f;
  double step_s[2];

  for (int both = 0; both <= 1; both++) {
    setup(&f, 32768, 16);
    divide_context(&f, 16, both ? CONTEXT_BOTH : CONTEXT_RING);
    f.plan.context_inner = both ? 8 : 1;
    f.plan.global_batch = 1;
    step_s[both] = planned_run(&f).iteration_s;
    planned_clear(&f);
  }
  ck_assert_double_lt(step_s[1], step_s[0]);
}
END_TEST

/* What waits for context-parallel ranks alone is theirs, to the last bit: nothing is left of other sums. */
START_TEST(context_is_no_tensor_communication)
{
  double context_s = 0;

  for (int cp = 2; cp <= 16; cp *= 2)
    for (int context = 0; context <= CONTEXT_BOTH; context++)
      for (int seq = 2048; seq <= 32768; seq *= 4) {
        Planned f;
        setup(&f, seq, 16);
        divide_context(&f, cp, context);
        f.plan.context_inner = context == CONTEXT_BOTH ? 2 : 1;
        if (plan_check(&f.plan, f.model, f.cluster, NULL) == RULE_NONE) {
          Metrics m = planned_run(&f);
          ck_assert_double_eq(m.tensor_comm_s, 0);
          context_s += m.context_comm_s;
        }
        planned_clear(&f);
      }
  ck_assert_double_gt(context_s, 0);
}
END_TEST

/* The ring's exchange hides where attention to a block takes longer than to pass it on. */
START_TEST(rings_hide_behind_long_blocks)
{
  double exposed[2];

  for (int i = 0; i < 2; i++) {
    Planned f;
    setup(&f, i ? 131072 : 2048, 16);
    divide_context(&f, 16, CONTEXT_RING);
    f.plan.global_batch = 1;
    Metrics m = planned_run(&f);
    ck_assert_double_eq(m.tensor_comm_s, 0);
    exposed[i] = m.context_comm_s / m.compute_s;
    planned_clear(&f);
  }
  ck_assert(exposed[0] > 0.3 && exposed[1] < 0.05);
}
END_TEST

/* Context-parallel ranks hold the same weights, so ZeRO divides states over them too. */
START_TEST(context_shards_states)
{
  Planned f;

  setup(&f, 16384, 8);
  f.plan.zero = 1;
  double states = state_bytes(STATES(&f.plan));
  divide_context(&f, 4, CONTEXT_RING);
  ck_assert_double_eq(state_bytes(STATES(&f.plan)), states);
  ck_assert_int_eq(state_group(LAYOUT(&f.plan), f.cluster, FALSE, RANKS_REPLICAS).size, 8);
  planned_clear(&f);
}
END_TEST

START_TEST(context_has_rules)
{
  Planned f;

  setup(&f, 4104, 8);
  divide_context(&f, 8, CONTEXT_RING);
  planned_refuse(&f, RULE_CONTEXT, "plan: context_parallel_size: 8: expected seq_length 4104 to divide by twice as "
                                   "many, and a rank's part by tensor_model_parallel_size under sequence_parallel");
  f.plan.seq = 4096;
  f.plan.attention = ATTENTION_UNFUSED;
  planned_refuse(&f, RULE_CONTEXT, "plan: attention: \"unfused\": expected a fused kernel under context_parallel_size "
                                   "8");
  f.plan.attention = ATTENTION_FLASH;
  f.plan.tp = 2;
  divide_context(&f, 4, CONTEXT_ALL_TO_ALL);
  f.plan.dp = 1;
  planned_accept(&f);
  f.plan.tp = 1;
  divide_context(&f, 8, CONTEXT_ALL_TO_ALL);
  planned_accept(&f);
  f.model->specs[1].attention.kv_heads = 4;
  planned_refuse(&f, RULE_CONTEXT, "plan: context_parallel_size: 8: expected that with tensor parallel 1 it divides "
                                   "the 4 key-value heads under cp_comm_type a2a");
  f.plan.context = CONTEXT_BOTH;
  f.plan.context_inner = 3;
  planned_refuse(&f, RULE_CONTEXT, "plan: context_parallel_a2a_size: 3: expected a divisor of context_parallel_size 8");
  f.plan.context_inner = 8;
  planned_refuse(&f, RULE_CONTEXT, "plan: context_parallel_a2a_size: 8: expected that with tensor parallel 1 it divides "
                                   "the 4 key-value heads under cp_comm_type a2a+p2p");
  f.plan.context_inner = 4;
  planned_accept(&f);
  f.model->specs[1].attention.window = 128;
  planned_refuse(&f, RULE_CONTEXT, "plan: context_parallel_size: 8: expected 1, or cp_comm_type a2a, for a window of 128 "
                                   "tokens");
  f.plan.context = CONTEXT_GATHER;
  f.model->specs[1].attention.window = 0;
  f.framework->context = 1 << CONTEXT_ALL_TO_ALL;
  planned_refuse(&f, RULE_CONTEXT, "plan: context_parallel_size: 8: expected 1, megatron-core does not run "
                                   "cp_comm_type all_gather");
  planned_clear(&f);
}
END_TEST

/* Products of the blocks alone are in fp8, at up to twice the rate; the inputs that
 * are kept shrink to half, attention's output is kept in both formats. */
START_TEST(fp8_is_of_the_blocks)
{
  Planned f;

  setup(&f, 4096, 8);
  f.cluster->device.peak_flops_per_s[DTYPE_FP8] = 2 * f.cluster->device.peak_flops_per_s[DTYPE_BF16];
  LayerSums wide = block_of(&f);
  double states = state_bytes(STATES(&f.plan));
  plan_set_format(&f.plan, DTYPE_FP8);
  LayerSums narrow = block_of(&f);
  planned_accept(&f);
  ck_assert_int_eq(plan_format(&f.plan), DTYPE_FP8);
  ck_assert_double_eq(narrow.flops, wide.flops);
  /* qkv's and the feed-forward's inputs: 1 of 2 bytes; the projection's: 1 more */
  ck_assert_double_eq_tol(wide.saved_bytes - narrow.saved_bytes, 4096.0 * (1024 + 1024 + 3072 - 1024), 0.5);
  ck_assert_double_eq(state_bytes(STATES(&f.plan)), states);
  ck_assert_double_eq(op_narrow_states(STATES(&f.plan), &f.cluster->device), 2);
  f.framework->original_inputs = TRUE; /* the projection's in 16 bits alone, unless scales are delayed */
  ck_assert_double_eq(block_of(&f).saved_bytes, narrow.saved_bytes);
  f.framework->fp8 = FP8_CURRENT;
  ck_assert_double_eq_tol(block_of(&f).saved_bytes, narrow.saved_bytes - 4096.0 * 1024, 0.5);
  f.framework->fp8 = FP8_TENSORWISE;
  ck_assert_double_eq(block_of(&f).saved_bytes, wide.saved_bytes);
  ck_assert_double_eq(op_narrow_states(STATES(&f.plan), &f.cluster->device), 0);
  f.framework->fp8 = FP8_NONE;
  planned_refuse(&f, RULE_PRECISION, "plan: precision: \"fp8\": expected bf16, fp16 or fp32, megatron-core has no fp8 "
                                     "recipe");
  planned_clear(&f);
}
END_TEST

/* Every rank has the latents' products whole, and they run in fp8 as the others do; the router stays. The shared experts'
 * input is the router's: where original inputs do, it is not kept in 8 bits too, nor is the projection's. */
START_TEST(latents_are_narrow)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 8);
  g_autoptr(Model) model = fixture_known_model("deepseek-v3");
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  Plan plan = plan_default(model, framework);
  const LayerSpec *spec = model_layer(model, model->blocks);
  double saved[2] = { 0 }, tokens = plan.seq, values = spec->attention.heads * spec->attention.v_head_dim;
  int narrow = 0;

  plan_set_format(&plan, DTYPE_FP8);
  plan.fp8_recipe = FP8_CURRENT;
  for (int original = 0; original < 2; original++) {
    LayerWork work;
    framework->original_inputs = original;
    layer_work_init(&work, model, spec, PASSES(&plan), cluster);
    for (guint o = 0; o < work.forward->len; o++) {
      const Op *op = &g_array_index(work.forward, Op, o);
      if (op->kind != OP_MATMUL)
        continue;
      saved[original] += op->saved_bytes;
      ck_assert_msg((op->matmul.dtype == DTYPE_FP8) == !g_str_equal(op->name, "router"), "%s", op->name);
      narrow += g_str_equal(op->name, "q down") || g_str_equal(op->name, "kv down");
      if (g_str_equal(op->name, "q down") || g_str_equal(op->name, "kv down"))
        ck_assert_double_eq(op->saved_bytes, tokens * model->hidden);
    }
    layer_work_clear(&work);
  }
  ck_assert_int_eq(narrow, 4);
  ck_assert_double_eq_tol(saved[0] - saved[1], tokens * (values + model->hidden), 0.5);
}
END_TEST

/* Blocks that came by and what each gave are held until a ring ends: at the same tokens a rank, the more of them the more
 * ranks. */
START_TEST(rings_keep_blocks)
{
  Planned f;
  double held[2][2];

  setup(&f, 8192, 8);
  for (int keeps = 0; keeps < 2; keeps++)
    for (int twice = 0; twice < 2; twice++) {
      LayerWork work;
      f.framework->ring_keeps_blocks = keeps;
      f.plan.seq = twice ? 8192 : 4096;
      divide_context(&f, twice ? 8 : 4, CONTEXT_RING);
      planned_accept(&f);
      layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
      held[keeps][twice] = work.transient_bytes - op_boundary_bytes(f.model, PASSES(&f.plan)); /* but the residual's */
      layer_work_clear(&work);
    }
  ck_assert_double_eq(held[0][0], held[0][1]);
  for (int twice = 0; twice < 2; twice++) { /* 8 of 16 heads have keys; 1,024 rows a rank, 2 bytes */
    int ranks = twice ? 8 : 4;
    ck_assert_double_eq(held[1][twice],
                        MAX(held[0][twice], 2.0 * 1024 * ((ranks - 1) * (512 + 512) + ranks * 1024.0)));
  }
  ck_assert_double_gt(held[1][1], held[0][1]);
  planned_clear(&f);
}
END_TEST

/* Of rows behind a causal mask a window hides the more the shorter it is, and nothing where it is as long as they are:
 * w - w^2 / 2s keys in the mean; half of all where there is none. Beside these stand all keys where it hides some. */
START_TEST(windows_hide_what_masks_do_not)
{
  static const int windows[] = { 128, 1024, 4096, 8191, 0 };
  Planned f;
  double before = 0;

  setup(&f, 8192, 8);
  for (int cp = 1; cp <= 8; cp += 7)
    for (gsize i = 0; i < G_N_ELEMENTS(windows); i++) {
      double w = windows[i] ? windows[i] : 8192, found = 0;
      LayerWork work;
      f.model->specs[1].attention.window = windows[i];
      divide_context(&f, cp, CONTEXT_ALL_TO_ALL);
      planned_accept(&f);
      layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
      for (guint o = 0; o < work.backward->len; o++) {
        const Op *op = &g_array_index(work.backward, Op, o);
        if (op->kind == OP_ATTENTION)
          ck_assert_double_eq(op->attention.whole_len, windows[i] ? 8192 : 0);
      }
      for (guint o = 0; o < work.forward->len; o++) {
        const Op *op = &g_array_index(work.forward, Op, o);
        if (op->kind == OP_ATTENTION)
          found += op->attention.heads * cp * op->attention.q_len * op->attention.kv_len /
                   (op->attention.causal ? 2 : 1);
      }
      ck_assert_double_eq_tol(found, 16 * 8192 * (w - w * w / 2 / 8192), 1);
      ck_assert(i == 0 || found > before);
      before = found;
      layer_work_clear(&work);
    }
  planned_clear(&f);
}
END_TEST

/* Each format of a plan is priced where the device has its constants. */
START_TEST(fp8_is_faster)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 8);
  g_autoptr(Model) model = fixture_known_model("llama-3.1-8b");
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  Plan plan = plan_default(model, framework);
  double seconds[2];

  for (int i = 0; i < 2; i++) {
    plan_set_format(&plan, i ? DTYPE_FP8 : DTYPE_BF16);
    g_autoptr(PriceTable) table = price_table_new(model, LAYOUT(&plan), cluster);
    seconds[i] = table->layers[model->layers[1]].pass[PASS_BACKWARD].seconds;
  }
  ck_assert(seconds[1] < 0.8 * seconds[0] && seconds[1] > 0.5 * seconds[0]);
}
END_TEST

static gint64 reductions(const Trace *trace, Collective what, double *bytes)
{
  gint64 n = 0;

  *bytes = 0;
  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *span = &g_array_index(trace->spans, Span, i);
    const Segment *s = &g_array_index(trace->segments, Segment, span->segment);
    if (span->kind != TASK_REDUCE || s->collective != what)
      continue;
    *bytes += s->comm_bytes;
    n++;
  }
  return n;
}

/* Over a node: gradients are scattered inside it each micro-batch, and an eighth is
 * summed over the nodes once; states are those of the node's ranks. */
START_TEST(states_over_a_node)
{
  Planned f;
  double inside, across;

  setup(&f, 512, 32);
  f.plan.zero = 3;
  f.plan.global_batch = 4 * 32;
  f.plan.shard_group = 8;
  planned_accept(&f);
  ck_assert_int_eq(state_group(LAYOUT(&f.plan), f.cluster, FALSE, RANKS_SHARDS).per_domain[0], 8);
  ck_assert_int_eq(state_group(LAYOUT(&f.plan), f.cluster, FALSE, RANKS_COPIES).per_domain[0], 1);
  ck_assert_double_eq(state_bytes(STATES(&f.plan)), (2 + 4 + 12) / 8.0);
  g_autoptr(Trace) trace = simulate_plan(f.model, f.cluster, &f.plan);
  ck_assert_int_gt(reductions(trace, COLLECTIVE_REDUCE_SCATTER, &inside), 0);
  ck_assert_int_gt(reductions(trace, COLLECTIVE_ALL_REDUCE, &across), 0);
  ck_assert_double_eq_tol(across / (inside / 4), 1 / 8.0, 1e-9);
  f.plan.shard_group = 0;
  g_autoptr(Trace) whole = simulate_plan(f.model, f.cluster, &f.plan);
  ck_assert_int_eq(reductions(whole, COLLECTIVE_ALL_REDUCE, &across), 0);
  planned_clear(&f);
}
END_TEST

START_TEST(shard_groups_have_rules)
{
  Planned f;

  setup(&f, 512, 32);
  f.plan.shard_group = 8;
  planned_refuse(&f, RULE_SHARD_GROUP, "plan: shard_group_size: 8: expected a zero_stage above 0, and a divisor above "
                                       "1 of the 32 ranks that hold the same weights");
  f.plan.zero = 1;
  planned_accept(&f);
  f.framework->shard_groups = FALSE;
  planned_refuse(&f, RULE_SHARD_GROUP, "plan: shard_group_size: 8: expected nothing, megatron-core divides states over "
                                       "all 32 ranks");
  planned_clear(&f);
}
END_TEST

/* 4 bytes a parameter down and up over PCIe, 30 through the host's memory that the
 * node's ranks share; the device keeps no states. */
START_TEST(optimizer_on_the_host)
{
  Planned f;

  setup(&f, 512, 8);
  f.plan.zero = 1;
  double states = state_bytes(STATES(&f.plan));
  f.plan.offload.optimizer = STORE_CPU;
  f.cluster->host_memory_bytes = 1e12;
  f.cluster->host_memory_bytes_per_s = 2e11;
  f.cluster->device.host_bytes_per_s = 2.5e10;
  planned_accept(&f);
  ck_assert_double_eq(state_bytes(STATES(&f.plan)), states - 12 / 8.0);
  OptimizerPrice price = optimizer_price(STATES(&f.plan), f.cluster, (double[]) { 8e9, 0 }, (double[2]) { 0 }, NULL);
  ck_assert_double_eq_tol(price.offload_s, 1e9 * (4 + 2) / 2.5e10, 1e-6);
  double scaled_s = memory_s(&f.cluster->device, 12 * 8e9, 1);
  ck_assert_double_eq_tol(price.seconds - price.offload_s, 8 * 1e9 * 30 / 2e11 + scaled_s, 1e-4);
  Metrics m = planned_run(&f);
  ck_assert(m.offload_s > 0 && m.optimizer_s > m.offload_s);
  f.cluster->host_memory_bytes = 1e8;
  ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), RULE_OFFLOAD);
  f.plan.zero = 0;
  planned_refuse(&f, RULE_OFFLOAD, "plan: offload optimizer: expected a zero_stage above 0, each rank updates its "
                                   "part");
  planned_clear(&f);
}
END_TEST

/* Bytes around ZeRO-3's collectives in a block's backward. */
static double shard_copies(const Planned *f)
{
  LayerWork work;
  double bytes = 0;

  layer_work_init(&work, f->model, model_layer(f->model, f->model->n_layers - 2), PASSES(&f->plan), f->cluster);
  for (guint i = 0; i < work.backward->len; i++) {
    const Op *op = &g_array_index(work.backward, Op, i);
    bytes += g_str_equal(op->name, "shard copies") ? op->memory.bytes : 0;
  }
  layer_work_clear(&work);
  return bytes;
}

/* FSDP copies what it gathers and sums wherever several ranks hold the same weights, those that share a sequence too;
 * experts that no other rank holds are not among them. */
START_TEST(shards_are_copied_for_replicas)
{
  Planned f;
  double each;

  planned_init(&f, fixture_llama(4, 512, 8, 8, 8192, 1000), fixture_cluster("dgx", 4), "torchtitan");
  planned_spread(&f, 1);
  f.plan.zero = 3;
  each = shard_copies(&f);
  double weights = 512 * (4 * 512 + 3 * 1536.0); /* copied out of two gathers, gradients into a reduction's fp32 */
  ck_assert_double_eq_tol(each, (2 * (2 + 2) + (2 + 4)) * weights, 1e-3 * each);
  f.plan.sharding.keeps_gathered = f.plan.sharding.no_sync = TRUE;
  ck_assert_double_eq_tol(shard_copies(&f), (2 + 2) * weights, 1e-3 * each);
  f.plan.sharding.keeps_gathered = f.plan.sharding.no_sync = FALSE;
  for (int cp = 2; cp <= 4; cp *= 2) {
    divide_context(&f, cp, CONTEXT_GATHER);
    ck_assert_double_eq(shard_copies(&f), each);
  }
  f.plan.zero = 2;
  ck_assert_double_eq(shard_copies(&f), 0);
  planned_clear(&f);
  planned_init(&f, fixture_experts(1, 512, 8, 4, 128, 1000), fixture_cluster("dgx", 4), "torchtitan");
  planned_spread(&f, 1);
  f.plan.zero = 3;
  double whole = shard_copies(&f);
  f.plan.ep = 2;
  double shared = shard_copies(&f);
  f.plan.ep = 4;
  double alone = shard_copies(&f), experts = 2 * (shared - alone);
  ck_assert_double_gt(alone, 0);
  ck_assert_double_eq_tol(whole, alone + experts, 1e-9 * whole);
  planned_clear(&f);
}
END_TEST

/* tdp-run clears whole gradients and adds its part of their sum to what it has: 4 bytes of each, 12 of the part. */
START_TEST(sharded_gradients_are_cleared_and_added)
{
  Planned f;
  double weights = 512 * (4 * 512 + 3 * 1536.0);

  planned_init(&f, fixture_llama(4, 512, 8, 8, 8192, 1000), fixture_cluster("dgx", 4), "tdp-run");
  planned_spread(&f, 1);
  for (f.plan.zero = 0; f.plan.zero <= 3; f.plan.zero++)
    ck_assert_double_eq_tol(shard_copies(&f), f.plan.zero < 2 ? 0 : (4 + 12 / 4.0) * weights, 1e-3 * weights);
  f.plan.zero = 2;
  f.plan.shard_group = 2; /* two ranks divide them, twice */
  ck_assert_double_eq_tol(shard_copies(&f), (4 + 12 / 2.0) * weights, 1e-3 * weights);
  planned_clear(&f);
}
END_TEST

/* What the rule about the host's memory counts of blocks is never more than they keep, and of each model at least so
 * much of it: rows that fill up experts' it leaves out. */
START_TEST(offloaded_blocks_take_most_of_what_they_keep)
{
  static const struct { const char *name; double least; } models[] = {
    { "llama-3.1-8b", 0.96 }, { "gpt3", 0.96 }, { "gemma-2-9b", 0.86 }, { "nemotron-h-8b", 0.77 },
    { "mixtral-8x7b", 0.86 }, { "qwen3-30b-a3b", 0.7 }, { "deepseek-v3", 0.73 } };
  static const DType formats[] = { DTYPE_BF16, DTYPE_FP8 };

  for (gsize i = 0; i < G_N_ELEMENTS(models); i++)
    for (int tp = 1; tp <= 2; tp++)
      for (gsize k = 0; k < G_N_ELEMENTS(formats); k++) {
        Planned f;
        planned_init(&f, fixture_known_model(models[i].name), fixture_cluster("gb200-nvl72", 8), "megatron-core");
        plan_set_format(&f.plan, formats[k]);
        f.plan.tp = tp;
        f.plan.sequence_parallel = tp > 1;
        f.plan.dp = 8 / tp;
        f.plan.seq = 2048;
        f.plan.offload.layers = f.model->blocks;
        double kept = 0, counted = plan_offloaded_bytes(&f.plan, f.model);
        for (int layer = 1; layer <= f.model->blocks; layer++)
          kept += planned_layer(&f, layer).saved_bytes;
        ck_assert_msg(counted > models[i].least * kept && counted < 1.001 * kept, "%s, tp %d, %s: %.3f", models[i].name, tp,
                      dtype_names[formats[k]], counted / kept);
        planned_clear(&f);
      }
}
END_TEST

TEST_MAIN("shard", optimizer_on_the_host, states_over_a_node, shard_groups_have_rules, fp8_is_of_the_blocks,
          fp8_is_faster, latents_are_narrow, windows_hide_what_masks_do_not, rings_keep_blocks,
          context_divides_the_work, rings_of_groups_divide_the_work,
          rings_of_groups_have_two_ends, rings_of_groups_win_across_nodes, rings_hide_behind_long_blocks,
          context_is_no_tensor_communication, context_shards_states, context_has_rules,
          sharded_gradients_are_cleared_and_added, shards_are_copied_for_replicas,
          offloaded_blocks_take_most_of_what_they_keep)
