/* Rows of experts: how they are laid out and added up, what is kept of them. */
#include "main.h"
#include "cost/kernel.h"
#include "planned.h"

static void setup(Planned *f)
{
  planned_init(f, fixture_experts(1, 512, 8, 16, 1024, 1000), fixture_cluster("dgx-h100", 16), "megatron-core");
  planned_spread(f, 1);
}

static const Op *named(const GArray *ops, const char *name)
{
  for (guint i = 0; i < ops->len; i++)
    if (g_str_equal(g_array_index(ops, Op, i).name, name))
      return &g_array_index(ops, Op, i);
  return NULL;
}

/* Of rows that go to k experts each is read once and written k times, and the way back and the gradients are the same,
 * by a kernel of their own or without one. */
START_TEST(rows_without_a_kernel)
{
  Planned f;
  LayerWork fused, work;

  setup(&f);
  f.plan.ep = 8;
  planned_accept(&f);
  layer_work_init(&fused, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
  f.framework->fused_permutation = FALSE;
  layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
  double k = model_layer(f.model, 1)->ffn.experts_per_token, row_bytes = 2.0 * f.model->hidden;
  double rows = op_tokens(PASSES(&f.plan)), bytes = (1 + k) * rows * row_bytes;
  ck_assert_ptr_null(named(fused.forward, "take rows"));
  ck_assert_ptr_null(named(fused.backward, "add rows"));
  ck_assert_ptr_nonnull(named(work.forward, "take rows"));
  ck_assert_double_eq_tol(named(work.forward, "take rows")->memory.bytes, bytes, 1);
  ck_assert_double_eq_tol(named(work.backward, "take rows")->memory.bytes, bytes, 1);
  ck_assert_double_eq_tol(named(work.forward, "add rows")->memory.bytes, bytes, 1);
  ck_assert_double_eq_tol(named(work.backward, "add rows")->memory.bytes, bytes, 1);
  ck_assert_double_eq_tol(named(fused.forward, "permute rows")->memory.bytes, bytes, 1);
  ck_assert_double_eq_tol(named(fused.backward, "permute rows")->memory.bytes, bytes, 1);
  ck_assert_double_eq_tol(named(fused.forward, "combine")->memory.bytes, bytes, 1);
  ck_assert_double_eq_tol(named(work.forward, "weigh rows")->memory.bytes, 2 * k * rows * row_bytes, 1);
  ck_assert_ptr_null(named(work.forward, "permute rows"));
  ck_assert_double_eq(named(fused.forward, "dispatch")->memory.bytes, named(work.forward, "dispatch")->memory.bytes);
  layer_work_clear(&fused);
  layer_work_clear(&work);
  planned_clear(&f);
}
END_TEST

/* TileOPs#608: 2,048 tokens of 4,096 summed up from two experts each, 0.20 ms with the product in 0.025; #603: 4,096 of
 * them taken to two experts in 0.08 ms. */
START_TEST(rows_at_measured_rates)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h200", 8);
  const double rows = 4096, bytes = 2;

  double add = named_memory_s(&cluster->device, "add rows", FALSE, 1.5 * rows * 4096 * bytes, 0, 0);
  double take = named_memory_s(&cluster->device, "take rows", FALSE, 3 * rows * 4096 * bytes, 0, 0);
  ck_assert_double_eq_tol(add, 0.175e-3, 0.01e-3);
  ck_assert_double_eq_tol(take, 0.08e-3, 0.005e-3);
  ck_assert_double_eq(named_memory_s(&cluster->device, "take rows", TRUE, 1.5 * rows * 4096 * bytes, 0, 0), add);
  ck_assert_double_eq(named_memory_s(&cluster->device, "add rows", TRUE, 3 * rows * 4096 * bytes, 0, 0), take);
}
END_TEST

/* TileOPs#2125: 4,096 tokens of 7,168 to eight experts each take 0.220 ms, by vLLM's kernel 0.275. Rows that ranks sort
 * again are copied alike; sums of rows are as fast as other kernels. */
START_TEST(permuted_at_measured_rates)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h200", 8);
  const Device *d = &cluster->device;
  const double spread = 9 * 4096.0 * 7168 * 2;

  double s = named_memory_s(d, "permute rows", FALSE, spread, 0, 0);
  ck_assert_double_gt(s, 0.220e-3);
  ck_assert_double_lt(s, 0.275e-3);
  ck_assert_double_eq(named_memory_s(d, "combine", TRUE, spread, 0, 0), s);
  for (int backward = 0; backward < 2; backward++) {
    ck_assert_double_eq(named_memory_s(d, "sort tokens", backward, spread, 0, 0), s);
    ck_assert_double_eq(named_memory_s(d, "sort back", backward, spread, 0, 0), s);
  }
  ck_assert_double_eq(named_memory_s(d, "combine", FALSE, spread, 0, 0),
                      named_memory_s(d, "residual", FALSE, spread, 0, 0));
}
END_TEST

/* No device lays rows out faster without a kernel for it than with one. */
START_TEST(kernels_are_no_slower)
{
  static const char *const gpus[] = { "a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm5-141gb", "b200-sxm-180gb",
                                      "b300-sxm-288gb", "gb200-186gb", "gb300-288gb", "mi355x" };
  const double bytes = 1e9;

  for (gsize i = 0; i < G_N_ELEMENTS(gpus); i++) {
    Device d = { 0 };
    ck_assert_msg(device_load(gpus[i], &d, NULL), "%s", gpus[i]);
    ck_assert_msg(named_memory_s(&d, "permute rows", FALSE, bytes, 0, 0) <=
                    named_memory_s(&d, "take rows", FALSE, bytes, 0, 0), "%s", gpus[i]);
    ck_assert_msg(named_memory_s(&d, "combine", FALSE, bytes, 0, 0) <=
                    named_memory_s(&d, "add rows", FALSE, bytes, 0, 0), "%s", gpus[i]);
    device_clear(&d);
  }
}
END_TEST

/* Kernels that convert types value by value take as long a value as PyTorch's casts did, whatever the bytes: 2.774 ms
 * for 2^30 on Blackwell, and 2.225 ms for 2^29 on an H100 PCIe of 114 multiprocessors instead of 132. */
START_TEST(types_are_mixed_value_by_value)
{
  static const struct {
    const char *gpu;
    double value_s;
  } cases[] = { { "b200-sxm-180gb", 2.774e-3 / 0x1p30 }, { "gb300-288gb", 2.774e-3 / 0x1p30 },
                { "h100-sxm5-80gb", 2.225e-3 / 0x1p29 * 114 / 132 },
                { "h200-sxm5-141gb", 2.225e-3 / 0x1p29 * 114 / 132 } };
  const double values = 1e9, bytes = 7;

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    for (int backward = 0; backward < 2; backward++) {
      Device d = { 0 };
      ck_assert_msg(device_load(cases[i].gpu, &d, NULL), "%s", cases[i].gpu);
      double s = named_memory_s(&d, "mixed types", backward, bytes * values, 0, 0);
      ck_assert_double_eq_tol(s / values / cases[i].value_s, 1, 2e-3);
      ck_assert_double_gt(s, named_memory_s(&d, "residual", backward, bytes * values, 0, 0));
      device_clear(&d);
    }
}
END_TEST

/* The router's operations are all dispatchers', forward and back; kernels of DeepEP and HybridEP sort rows. */
START_TEST(host_issues_what_dispatchers_leave)
{
  static const struct { ExpertDispatch dispatch; int forward, backward; } cases[] = {
    { DISPATCH_ALL_TO_ALL, 23 + 17 - 1, 20 + 5 - 1 }, { DISPATCH_FLEX, 23 + 8, 20 }, { DISPATCH_HYBRID, 23 + 2, 20 } };
  Planned f;

  setup(&f);
  f.plan.ep = 8;
  planned_accept(&f);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    LayerWork work;
    f.plan.dispatch = cases[i].dispatch;
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    ck_assert_double_eq(named(work.forward, "dispatch")->memory.operations, cases[i].forward);
    ck_assert_double_eq(named(work.backward, "dispatch")->memory.operations, cases[i].backward);
    ck_assert_double_eq(named(work.forward, "dispatch")->memory.kernels, cases[i].forward); /* a kernel each, */
    ck_assert_double_eq(named(work.backward, "dispatch")->memory.kernels, cases[i].backward);
    layer_work_clear(&work);
    f.framework->compiled_norms = TRUE; /* unless they are joined */
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    ck_assert_double_eq(named(work.forward, "dispatch")->memory.operations, cases[i].forward);
    ck_assert_double_le(named(work.forward, "dispatch")->memory.kernels, 4);
    ck_assert_double_le(named(work.backward, "dispatch")->memory.kernels, 2);
    f.framework->compiled_norms = FALSE;
    layer_work_clear(&work);
    f.plan.ep = 1; /* nothing is dispatched */
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    ck_assert_double_eq(named(work.forward, "dispatch")->memory.operations, cases[0].forward);
    layer_work_clear(&work);
    f.plan.ep = 8;
  }
  planned_clear(&f);
}
END_TEST

/* Who weighs a token's rows where they are added up keeps what experts made of them, 2 bytes an element, and reads it
 * again; who weighs them inside does neither, with a kernel for all or without. */
START_TEST(rows_are_weighed)
{
  Planned f;
  LayerWork work;
  double saved[2], rows = 0;

  setup(&f);
  f.plan.ep = 8;
  for (int i = 0; i < 2; i++) {
    f.framework->weighs_inside = i;
    planned_accept(&f);
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    rows = op_tokens(PASSES(&f.plan)) * model_layer(f.model, 1)->ffn.experts_per_token;
    saved[i] = work.saved_bytes;
    layer_work_clear(&work);
    f.framework->fused_permutation = FALSE;
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    ck_assert_int_eq(named(work.forward, "weigh rows") != NULL, !i);
    ck_assert_int_eq(named(work.backward, "weigh rows") != NULL, !i);
    ck_assert_ptr_nonnull(named(work.forward, "add rows"));
    ck_assert_double_eq_tol(work.saved_bytes, saved[i], 0.5);
    f.framework->fused_permutation = TRUE;
    layer_work_clear(&work);
  }
  ck_assert_double_eq_tol(saved[0] - saved[1], 2 * rows * f.model->hidden, 0.5);
  planned_clear(&f);
}
END_TEST

/* In fp32 by steps: 20 bytes an element of 16 bits forward and 36 backward, where one kernel each way moves 4 and 6;
 * the copy in fp32 is kept. One kernel for the way back weighs as it adds. */
START_TEST(rows_are_weighed_wide)
{
  Planned f;

  setup(&f);
  f.plan.ep = 8;
  planned_accept(&f);
  double elements = op_tokens(PASSES(&f.plan)) * model_layer(f.model, 1)->ffn.experts_per_token * f.model->hidden;
  for (int fused = 0; fused < 2; fused++) {
    LayerWork work[2];
    f.framework->fused_permutation = fused;
    for (int wide = 0; wide < 2; wide++) {
      f.framework->weighs_wide = wide;
      layer_work_init(&work[wide], f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
      const Op *there = named(work[wide].forward, "weigh rows"), *back = named(work[wide].backward, "weigh rows");
      ck_assert((there == NULL) == fused && (back == NULL) == fused);
      ck_assert(fused || there->memory.bytes == (wide ? 20 : 4) * elements);
      ck_assert(fused || back->memory.bytes == (wide ? 36 : 6) * elements);
    }
    ck_assert_double_eq_tol(work[1].saved_bytes - work[0].saved_bytes, fused ? 0 : 2 * elements, 0.5);
    layer_work_clear(&work[0]);
    layer_work_clear(&work[1]);
  }
  planned_clear(&f);
}
END_TEST

/* pytorch/ao#4623: torchtitan's rows of experts, 196,608 of 2,048, indexed in 0.593 ms on B200 and their gradient in
 * 1.848, by Triton's kernel in 0.340. The way back is a copy. HybridEP lays rows out itself. */
START_TEST(rows_are_sorted_by_index)
{
  g_autoptr(Cluster) cluster = fixture_cluster("hgx-b200", 8);
  const double bytes = 2.0 * 2 * 196608 * 2048, ms[] = { 0.593, 1.848 };
  Planned f;

  setup(&f);
  f.plan.ep = 8;
  planned_accept(&f);
  for (int indexed = 0; indexed < 2; indexed++) {
    LayerWork work;
    f.framework->sorts_by_index = indexed;
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    const GArray *const passes[] = { work.forward, work.backward };
    for (int p = 0; p < 2; p++) {
      const char *kernel = op_kernel(named(passes[p], "sort tokens"));
      double s = named_memory_s(&cluster->device, kernel, p, bytes, 0, 0);
      ck_assert_str_eq(kernel, indexed ? "take rows" : "sort tokens");
      ck_assert_str_eq(op_kernel(named(passes[p], "sort back")), "sort back");
      ck_assert_double_eq_tol(s * 1e3, indexed ? ms[p] : 0.340, 0.01 * s * 1e3);
    }
    layer_work_clear(&work);
  }
  f.plan.dispatch = DISPATCH_HYBRID;
  LayerWork work;
  layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
  ck_assert_ptr_null(named(work.forward, "sort tokens"));
  layer_work_clear(&work);
  planned_clear(&f);
}
END_TEST

/* In 8 bits each expert's rows are copied to where they are padded, and what it made of them back, in both passes; in
 * 16 bits, of HybridEP and of a capacity they are not. The copies keep nothing: what is kept more are the 7.5 rows that
 * fill an expert's up, which HybridEP lays out as well. */
START_TEST(rows_are_padded)
{
  static const struct {
    int ep;
    ExpertDispatch dispatch;
    gboolean narrow, pads, capacity, weighs, expected;
  } cases[] = { { 8, DISPATCH_ALL_TO_ALL, TRUE, TRUE, FALSE, TRUE, TRUE },
                { 8, DISPATCH_FLEX, TRUE, TRUE, FALSE, FALSE, TRUE },
                { 8, DISPATCH_GATHER, TRUE, TRUE, FALSE, TRUE, TRUE },
                { 1, DISPATCH_ALL_TO_ALL, TRUE, TRUE, FALSE, TRUE, TRUE },
                { 1, DISPATCH_HYBRID, TRUE, TRUE, FALSE, TRUE, TRUE }, /* nothing is dispatched */
                { 8, DISPATCH_HYBRID, TRUE, TRUE, FALSE, TRUE, FALSE },
                { 8, DISPATCH_ALL_TO_ALL, FALSE, TRUE, FALSE, TRUE, FALSE },
                { 8, DISPATCH_ALL_TO_ALL, TRUE, FALSE, FALSE, TRUE, FALSE },
                { 8, DISPATCH_ALL_TO_ALL, TRUE, TRUE, TRUE, TRUE, FALSE } };
  Planned f;

  setup(&f);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    LayerWork work, without;
    plan_set_format(&f.plan, cases[i].narrow ? DTYPE_FP8 : DTYPE_BF16);
    f.plan.fp8_recipe = cases[i].narrow ? FP8_CURRENT : FP8_NONE;
    f.plan.ep = cases[i].ep;
    f.plan.dispatch = cases[i].dispatch;
    f.plan.expert_capacity = f.plan.expert_padded = cases[i].capacity;
    f.framework->weighs_inside = cases[i].weighs;
    f.framework->pads_rows = FALSE;
    layer_work_init(&without, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    f.framework->pads_rows = cases[i].pads;
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    double rows = op_tokens(PASSES(&f.plan)) * model_layer(f.model, 1)->ffn.experts_per_token;
    const GArray *const passes[] = { work.forward, work.backward };
    for (int p = 0; p < 2; p++) {
      const Op *there = named(passes[p], "pad rows"), *back = named(passes[p], "unpad rows");
      ck_assert((there != NULL) == cases[i].expected && (back != NULL) == cases[i].expected);
      if (!cases[i].expected)
        continue;
      ck_assert_double_eq(there->memory.bytes, 2 * 2 * rows * f.model->hidden);
      ck_assert_double_eq(back->memory.bytes, there->memory.bytes);
      ck_assert_double_eq(there->memory.kernels, cases[i].weighs ? 2 : 1); /* with what rows weigh */
      ck_assert_double_eq(back->memory.kernels, 1);
      ck_assert((there < named(passes[p], "experts up")) == (p == 0));
      ck_assert((back > named(passes[p], "experts down")) == (p == 0));
    }
    gboolean fills = cases[i].narrow && cases[i].pads && !cases[i].capacity;
    int local = model_layer(f.model, 1)->ffn.experts / cases[i].ep;
    double up = named(work.forward, "experts up")->matmul.m, exact = named(without.forward, "experts up")->matmul.m;
    ck_assert_double_eq_tol(up - exact, fills ? 7.5 : 0, 1e-9);
    ck_assert(fills ? work.saved_bytes > without.saved_bytes : work.saved_bytes == without.saved_bytes);
    const Op *there = named(work.forward, "pad rows"), *back = named(work.forward, "unpad rows");
    ck_assert(!there || (there->saved_bytes == 0 && back->saved_bytes == 0));
    double more = named(work.backward, "experts down")->flops / named(without.backward, "experts down")->flops;
    ck_assert_double_eq_tol(more, up / exact, 1e-9);
    ck_assert_double_le(work.saved_bytes - without.saved_bytes,
                        (up - exact) * local * (f.model->hidden + 3.0 * model_layer(f.model, 1)->ffn.width) * 2);
    layer_work_clear(&work);
    layer_work_clear(&without);
  }
  planned_clear(&f);
}
END_TEST

/* Half of what lies between two multiples: of 16 rows in 8 bits, 32 in mxfp8, 128 in nvfp4, 256 of kernels for all
 * experts. They are no rows of the busiest rank, but spare beside those all the same. Blocks left in 16 bits have
 * none. */
START_TEST(rows_fill_up)
{
  static const struct {
    DType format;
    Fp8Recipe recipe;
    CudaGraph graph;
    gboolean grouped;
    double rows;
  } cases[] = { { DTYPE_BF16, FP8_NONE, GRAPH_NONE, TRUE, 0 }, { DTYPE_FP8, FP8_CURRENT, GRAPH_NONE, TRUE, 7.5 },
                { DTYPE_FP8, FP8_BLOCKWISE, GRAPH_NONE, TRUE, 7.5 }, { DTYPE_FP8, FP8_MXFP8, GRAPH_NONE, TRUE, 15.5 },
                { DTYPE_FP8, FP8_MXFP8, GRAPH_FULL, FALSE, 15.5 }, { DTYPE_FP8, FP8_MXFP8, GRAPH_FULL, TRUE, 127.5 },
                { DTYPE_FP4, FP8_NONE, GRAPH_NONE, TRUE, 63.5 } };
  const double load = 1.25;
  Planned f;

  planned_init(&f, fixture_experts(1, 512, 8, 16, 1024, 1000), fixture_cluster("hgx-b200", 8), "megatron-core-2026");
  planned_spread(&f, 1);
  f.plan.ep = 8;
  f.plan.expert_load = load;
  double exact = load * op_tokens(PASSES(&f.plan)) * model_layer(f.model, 1)->ffn.experts_per_token / 2;
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    LayerWork work;
    plan_set_format(&f.plan, cases[i].format);
    f.plan.fp8_recipe = cases[i].recipe;
    f.plan.graph = cases[i].graph;
    f.framework->grouped_kernels = cases[i].grouped;
    PassLayout passes = *PASSES(&f.plan);
    layer_work_init(&work, f.model, model_layer(f.model, 1), &passes, f.cluster);
    const Op *up = named(work.forward, "experts up"), *back = named(work.backward, "experts up");
    ck_assert_double_eq_tol(up->matmul.m, exact + cases[i].rows, 1e-9);
    ck_assert_double_eq_tol(up->spare, 1 - exact / load / (exact + cases[i].rows), 1e-9);
    ck_assert_double_eq_tol(back->spare, up->spare, 1e-9);
    ck_assert_double_eq_tol(named(work.forward, "sort back")->spare, 1 - 1 / load, 1e-9);
    pass_layout_widen(&passes);
    layer_work_renew(&work, f.model, model_layer(f.model, 1), &passes, f.cluster);
    ck_assert_double_eq_tol(named(work.forward, "experts up")->matmul.m, exact, 1e-9);
    layer_work_clear(&work);
  }
  planned_clear(&f);
}
END_TEST

/* Experts with less than half a multiple of rows get a whole one. */
START_TEST(few_rows_fill_up_to_the_first_multiple)
{
  Planned f;

  planned_init(&f, fixture_experts(1, 512, 8, 16, 1024, 1000), fixture_cluster("hgx-b200", 8), "megatron-core-2026");
  planned_spread(&f, 1);
  f.plan.ep = 8;
  plan_set_format(&f.plan, DTYPE_FP4);
  for (f.plan.seq = 4; f.plan.seq <= 1024; f.plan.seq *= 2) {
    double rows = (double)op_tokens(PASSES(&f.plan)) * model_layer(f.model, 1)->ffn.experts_per_token / 2;
    LayerWork work;
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    ck_assert_double_eq_tol(named(work.forward, "experts up")->matmul.m, fmax(128, rows + 63.5), 1e-9);
    layer_work_clear(&work);
  }
  planned_clear(&f);
}
END_TEST

/* Rows of a forward's worst moment, which is when copies are given back: those that came, by expert and by rank (twice), or by
 * rank and what the rank had sent; where two ranks share matrices, by rank, both parts of what came to itself and the sum.
 * What was sent is kept. Of 16 rows each has two experts; of two tensor-parallel ranks each has 8. */
static const struct { int tp; double load, own, rows; } returns[] = {
  { 1, 1, 1, 32 }, { 1, 2, 2, 96 }, { 1, 0.5, 0.5, 16 }, { 2, 1, 1, 64 }, { 2, 1, 1.5, 88 }, { 2, 1, 0.5, 48 },
};

START_TEST(copies_given_back)
{
  g_autoptr(Model) model = fixture_moe(2, 32, 8, 16, 61, 4, 2, 0);
  g_autoptr(Cluster) cluster = fixture_cluster("cpu", 4);
  g_autoptr(Framework) framework = fixture_framework("tdp-run");
  Plan plan = plan_default(model, framework);
  LayerWork work;

  plan.precision = DTYPE_FP32;
  plan.ep = 2;
  plan.tp = returns[_i].tp;
  plan.etp = plan.tp;
  plan.sequence_parallel = plan.tp > 1;
  plan.gpus = 4;
  plan.dp = 4 / plan.tp;
  plan.expert_load = returns[_i].load;
  Layout layout = layout_of(&plan);
  layout.passes.expert_own_tokens = returns[_i].own;
  layer_work_init(&work, model, model_layer(model, 1), &layout.passes, cluster);
  ck_assert_double_eq_tol(work.forward_bytes, returns[_i].rows * 32 * 4, 0.5);
  layer_work_clear(&work);
}
END_TEST

/* Bytes, kernels and host operations of what is made of gate and up of experts. */
static void check_activation(const GArray *ops, double bytes, double kernels, double operations)
{
  const char *const names[] = { "swiglu", "weigh activations in fp32", "weigh activations" };

  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    const Op *op = named(ops, names[i]);
    bytes -= op ? op->memory.bytes : 0;
    kernels -= op ? op->memory.kernels : 0;
    operations -= op ? op->memory.operations : 0;
  }
  ck_assert_double_eq(bytes, 0);
  ck_assert_double_eq(kernels, 0);
  ck_assert_double_eq(operations, 0);
}

/* Gate, up and weights without a kernel for all: with weights in fp32, as DeepEP sends them, 26 bytes a value of 16
 * bits forward and 58 backward, where one moves 6 and 10, by 5 and 9 kernels; with weights of 16 bits 18 and 36 by 4
 * and 7. Three more values are kept. Rows that are weighed behind the experts are not here, and kernels of all experts
 * of a rank weigh and activate as they go. */
START_TEST(activations_are_weighed)
{
  static const struct {
    ExpertDispatch dispatch;
    gboolean fused, inside, grouped;
    double bytes[2], kernels[2], operations[2], more;
  } cases[] = {
    { DISPATCH_FLEX, TRUE, TRUE, FALSE, { 6, 10 }, { 1, 1 }, { 1, 1 }, 0 },
    { DISPATCH_FLEX, FALSE, TRUE, FALSE, { 26, 58 }, { 5, 9 }, { 3, 5 }, 6 },
    { DISPATCH_HYBRID, FALSE, TRUE, FALSE, { 26, 58 }, { 5, 9 }, { 3, 5 }, 6 },
    { DISPATCH_ALL_TO_ALL, FALSE, TRUE, FALSE, { 18, 36 }, { 4, 7 }, { 3, 5 }, 6 },
    { DISPATCH_FLEX, FALSE, FALSE, FALSE, { 10, 16 }, { 2, 3 }, { 2, 3 }, 2 },
    { DISPATCH_HYBRID, FALSE, TRUE, TRUE, { 0, 0 }, { 0, 0 }, { 0, 0 }, 2 },
  };
  Planned f;
  double kept = 0;

  planned_init(&f, fixture_experts(1, 512, 8, 16, 1024, 1000), fixture_cluster("dgx-h100", 16), "megatron-core-2026");
  f.model->specs[f.model->layers[1]].ffn.kind = MLP_SWIGLU;
  planned_spread(&f, 1);
  f.plan.ep = 8;
  const FeedForward *experts = &model_layer(f.model, 1)->ffn;
  double values = op_tokens(PASSES(&f.plan)) * experts->experts_per_token * experts->width;
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    LayerWork work;
    f.plan.dispatch = cases[i].dispatch;
    f.framework->fused_activation = TRUE;
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    kept = work.saved_bytes;
    layer_work_clear(&work);
    f.framework->fused_activation = cases[i].fused;
    f.framework->weighs_inside = cases[i].inside;
    f.framework->grouped_kernels = cases[i].grouped;
    if (cases[i].grouped) {
      plan_set_format(&f.plan, DTYPE_FP8);
      f.plan.fp8_recipe = FP8_MXFP8;
      f.plan.graph = GRAPH_FULL;
    }
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    check_activation(work.forward, cases[i].bytes[0] * values, cases[i].kernels[0], cases[i].operations[0]);
    check_activation(work.backward, cases[i].bytes[1] * values, cases[i].kernels[1], cases[i].operations[1]);
    if (cases[i].inside && !cases[i].grouped)
      ck_assert_double_eq(work.saved_bytes - kept, cases[i].more * values);
    layer_work_clear(&work);
  }
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("rows of experts", { rows_without_a_kernel }, { rows_at_measured_rates }, { permuted_at_measured_rates },
           { kernels_are_no_slower }, { types_are_mixed_value_by_value }, { host_issues_what_dispatchers_leave },
           { rows_are_weighed }, { rows_are_weighed_wide }, { activations_are_weighed }, { rows_are_sorted_by_index },
           { rows_are_padded }, { rows_fill_up },
           { few_rows_fill_up_to_the_first_multiple }, { copies_given_back, G_N_ELEMENTS(returns) })
