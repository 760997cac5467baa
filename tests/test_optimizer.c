/* What optimizers keep and take, against published counts; formats of states and reductions. */
#include "cost/kernel.h"
#include "main.h"
#include "op/fp8.h"
#include "plan/excludes.h"
#include "planned.h"

/* Blocks of width h = 1,024 with feed-forwards of f = 3,072, untied, 1,024 rows of vocabulary. */
#define H 1024.0
#define LAYERS 4

static void setup(Planned *f, const char *framework, int devices)
{
  planned_init(f, fixture_llama(LAYERS, 1024, 16, 16, 1024, 1024), fixture_cluster("dgx", devices), framework);
  planned_spread(f, 2);
}

static double optimizer_bytes(Planned *f)
{
  return planned_run(f).memory[PART_OPTIMIZER];
}

/* Tensors of the model: in each block qkv, output, gate and up, down, two norms; embedding, head, final norm. */
static double matrix_values(void)
{
  return LAYERS * (3 * H * H + H * H + 2 * H * 3 * H + 3 * H * H);
}

static double other_values(void)
{
  return LAYERS * 2 * H + 2 * 1024 * H + H;
}

/* Sums of rows and columns of all matrices, vectors whole. */
static double factored_values(void)
{
  return LAYERS * ((H + 3 * H) + (H + H) + (H + 6 * H) + (3 * H + H) + 2 * H) + 2 * (1024 + H) + H;
}

START_TEST(states_by_the_book)
{
  Planned f;
  setup(&f, "fsdp", 1);
  double all = f.model->params, w = 4;

  ck_assert_double_eq(all, matrix_values() + other_values());
  ck_assert_double_eq(optimizer_bytes(&f), all * 12);
  f.plan.optimizer.name = OPTIMIZER_ADAMW;
  ck_assert_double_eq(optimizer_bytes(&f), all * 12);
  f.plan.optimizer.name = OPTIMIZER_SGD;
  ck_assert_double_eq(optimizer_bytes(&f), all * (w + 4));
  f.plan.optimizer.momentum = 0;
  ck_assert_double_eq(optimizer_bytes(&f), all * w);
  f.plan.optimizer = optimizer_default();
  f.plan.optimizer.name = OPTIMIZER_ADAFACTOR;
  ck_assert_double_eq(optimizer_bytes(&f), all * w + 4 * factored_values());
  f.plan.optimizer.name = OPTIMIZER_MUON;
  ck_assert_double_eq(optimizer_bytes(&f), matrix_values() * (w + 4) + other_values() * (w + 8));
  f.plan.optimizer.name = OPTIMIZER_ADAM8BIT;
  double small = (LAYERS * 2 + 1) * H; /* norms: below 4,096 values */
  ck_assert_double_eq_tol(optimizer_bytes(&f), (all - small) * (w + 2 + 8.0 / 256) + small * 12, 1e-3);
  f.plan.optimizer.block = 2048;
  ck_assert_double_eq_tol(optimizer_bytes(&f), (all - small) * (w + 2 + 8.0 / 2048) + small * 12, 1e-3);
  f.plan.precision = DTYPE_FP32;
  f.plan.optimizer = optimizer_default();
  ck_assert_double_eq(optimizer_bytes(&f), all * 8);
  planned_clear(&f);
}
END_TEST

/* ZeRO divides them all, tensor parallelism divides what it divides of weights. */
START_TEST(states_are_divided)
{
  Planned f;
  setup(&f, "fsdp", 8);
  double all = f.model->params;

  f.plan.optimizer.name = OPTIMIZER_MUON;
  f.plan.zero = 1;
  ck_assert_double_eq_tol(optimizer_bytes(&f), (matrix_values() * 8 + other_values() * 12) / 8, 1e-3);
  f.plan.optimizer.name = OPTIMIZER_ADAFACTOR;
  ck_assert_double_eq_tol(optimizer_bytes(&f), (all * 4 + 4 * factored_values()) / 8, 1e-3);
  planned_clear(&f);
  setup(&f, "fsdp", 2);
  f.plan.tp = 2;
  f.plan.dp = 1;
  f.plan.optimizer.name = OPTIMIZER_MUON;
  double norms = (LAYERS * 2 + 1) * H;
  ck_assert_double_eq_tol(optimizer_bytes(&f), matrix_values() * 8 / 2 + (other_values() - norms) * 12 / 2 + norms * 12,
                          1e-3);
  planned_clear(&f);
}
END_TEST

/* Megatron's precision-aware optimizer: main weights, gradient, moments each in a format. */
START_TEST(formats_by_the_book)
{
  Planned f;
  setup(&f, "megatron-core", 8);
  Optimizer *o = &f.plan.optimizer;
  f.plan.zero = 1;

  ck_assert_double_eq(state_bytes(STATES(&f.plan)), 2 + 4 + 12 / 8.0);
  o->formats[STATE_EXP_AVG] = o->formats[STATE_EXP_AVG_SQ] = FORMAT_BF16; /* as DeepSeek-V3, arXiv 2412.19437, 3.3.3 */
  ck_assert_double_eq(state_bytes(STATES(&f.plan)), 2 + 4 + 8 / 8.0);
  o->formats[STATE_EXP_AVG] = FORMAT_FP8;
  ck_assert_double_eq(state_bytes(STATES(&f.plan)), 2 + 4 + 7 / 8.0);
  o->remainders = TRUE;
  ck_assert_double_eq(state_bytes(STATES(&f.plan)), 2 + 4 + 5 / 8.0);
  o->remainders = FALSE;
  o->formats[STATE_MAIN_PARAMS] = FORMAT_FP16;
  ck_assert_double_eq(state_bytes(STATES(&f.plan)), 2 + 4 + 5 / 8.0);
  o->formats[STATE_MAIN_PARAMS] = FORMAT_BF16; /* the weights are their own */
  ck_assert_double_eq(state_bytes(STATES(&f.plan)), 2 + 4 + 3 / 8.0);
  o->formats[STATE_MAIN_GRADS] = FORMAT_BF16;
  ck_assert_double_eq(state_bytes(STATES(&f.plan)), 2 + 2 + 3 / 8.0);
  ck_assert_double_eq(STATES(&f.plan)->reduce_bytes, 2);
  ck_assert_double_eq(op_reduce_cast_bytes(STATES(&f.plan)), 0);
  o->formats[STATE_GRAD_REDUCE] = FORMAT_FP32;
  ck_assert_double_eq(STATES(&f.plan)->reduce_bytes, 4);
  ck_assert_double_eq(op_reduce_cast_bytes(STATES(&f.plan)), 2 * (2 + 4));
  planned_clear(&f);
}
END_TEST

/* Each byte of state is read and written once: 38 bytes of Adam less 16 for moments of 16 bits. */
START_TEST(steps_by_their_bytes)
{
  Planned f;
  setup(&f, "megatron-core", 1);
  const Device *d = &f.cluster->device;

  ck_assert_double_eq(op_step_traffic(STATES(&f.plan)), 38);
  f.plan.optimizer.formats[STATE_EXP_AVG] = f.plan.optimizer.formats[STATE_EXP_AVG_SQ] = FORMAT_BF16;
  ck_assert_double_eq(op_step_traffic(STATES(&f.plan)), 38 - 2 * 4);
  ck_assert_double_eq_tol(optimizer_price(STATES(&f.plan), f.cluster, (double[]) { 1e9, 0 }, (double[2]) { 0 }, NULL).seconds,
                          named_memory_s(d, "optimizer", FALSE, 30e9, 1, 0), 1e-12);
  f.plan.optimizer = optimizer_default();
  f.plan.optimizer.formats[STATE_MAIN_GRADS] = FORMAT_BF16; /* read by norm and step, cleared */
  ck_assert_double_eq(op_step_traffic(STATES(&f.plan)), 38 - 3 * 2);
  f.plan.optimizer = optimizer_default();
  f.plan.optimizer.name = OPTIMIZER_SGD;
  ck_assert_double_eq(op_step_traffic(STATES(&f.plan)), 38 - 2 * 4);
  f.plan.optimizer.name = OPTIMIZER_ADAFACTOR; /* no moments; gradients twice more, weights once */
  ck_assert_double_eq(op_step_traffic(STATES(&f.plan)), 38 - 2 * 8 + 2 * 4 + 2);
  planned_clear(&f);
}
END_TEST

/* ---- products ---- */

static Op op_named(Planned *f, const char *name, gboolean backward)
{
  LayerWork work;
  Op found = { 0 };

  layer_work_init(&work, f->model, model_layer(f->model, 1), PASSES(&f->plan), f->cluster);
  const GArray *ops = backward ? work.backward : work.forward;
  for (guint i = 0; i < ops->len; i++)
    if (g_str_equal(g_array_index(ops, Op, i).name, name)) {
      found = g_array_index(ops, Op, i);
      break;
    }
  layer_work_clear(&work);
  ck_assert_ptr_nonnull(found.name);
  return found;
}

/* Weights, activations and states as in fp32; products at another rate. */
START_TEST(products_in_tf32)
{
  Planned f;

  setup(&f, "fsdp", 8);
  plan_set_format(&f.plan, DTYPE_FP32);
  double states = state_bytes(STATES(&f.plan)), saved = planned_layer(&f, 1).saved_bytes;
  Metrics wide = planned_run(&f);
  plan_set_format(&f.plan, DTYPE_TF32);
  ck_assert_int_eq(f.plan.precision, DTYPE_FP32);
  ck_assert_int_eq(plan_format(&f.plan), DTYPE_TF32);
  ck_assert_int_eq(op_named(&f, "qkv", FALSE).matmul.dtype, DTYPE_TF32);
  ck_assert_double_eq(state_bytes(STATES(&f.plan)), states);
  ck_assert_double_eq(planned_layer(&f, 1).saved_bytes, saved);
  Metrics tf32 = planned_run(&f);
  ck_assert_double_lt(tf32.compute_s, 0.7 * wide.compute_s); /* 156 over 19.5 TFLOP/s on an A100 */
  ck_assert_double_eq(tf32.peak_memory_bytes, wide.peak_memory_bytes);
  f.cluster->device.peak_flops_per_s[DTYPE_TF32] = 0;
  planned_refuse(&f, RULE_PRECISION, "plan: precision: \"tf32\": expected a format that a100-sxm4-80gb supports "
                                     "(fp32, fp16, bf16)");
  planned_clear(&f);
}
END_TEST

static const struct {
  Fp8Recipe recipe;
  double cast, held, kept; /* bytes a value: traffic of a gradient's cast, beside a weight, of a kept input */
} recipes[] = {
  { FP8_DELAYED, 4, 2, 1 },
  { FP8_CURRENT, 6, 2, 1 },
  { FP8_BLOCKWISE, 2 + 2 * (1 + 4 / 128.0), 2 + 8 / 16384.0, 1 + 4 / 128.0 },
  { FP8_MXFP8, 2 + 2 * (1 + 1 / 32.0), 2 + 2 / 32.0, 1 + 1 / 32.0 },
  { FP8_NVFP4, 4 + 2 * (0.5 + 1 / 16.0), 1 + 2 / 16.0, 0.5 + 1 / 16.0 },
};

START_TEST(recipes_by_their_bytes)
{
  Planned f;
  setup(&f, "megatron-core", 8);
  double tokens = 1024, states = state_bytes(STATES(&f.plan)), wide = planned_layer(&f, 1).saved_bytes;
  double inputs = 2 * H + 3 * H; /* of qkv and both feed-forward products, which the norms and swiglu made */

  f.cluster->device.peak_flops_per_s[DTYPE_FP8] = 1e15;
  f.cluster->device.peak_flops_per_s[DTYPE_FP4] = 2e15;
  gboolean four = recipes[_i].recipe == FP8_NVFP4;
  plan_set_format(&f.plan, four ? DTYPE_FP4 : DTYPE_FP8);
  f.plan.fp8_recipe = four ? FP8_NONE : recipes[_i].recipe;
  planned_accept(&f);
  ck_assert_int_eq(op_named(&f, "qkv", FALSE).matmul.dtype, four ? DTYPE_FP4 : DTYPE_FP8);
  gboolean whole = recipes[_i].recipe == FP8_DELAYED || recipes[_i].recipe == FP8_CURRENT; /* scales of whole tensors */
  ck_assert_int_eq(op_named(&f, "qkv", FALSE).matmul.promoted, FALSE);
  ck_assert_int_eq(op_named(&f, "qkv", TRUE).matmul.promoted, whole);
  ck_assert_double_eq_tol(state_bytes(STATES(&f.plan)) + op_narrow_states(STATES(&f.plan), &f.cluster->device),
                          states + recipes[_i].held, 1e-12);
  Op cast = op_named(&f, "cast gradient", TRUE);
  ck_assert_double_eq_tol(cast.memory.bytes, recipes[_i].cast * tokens * H, 1e-6);
  ck_assert_str_eq(op_kernel(&cast), recipes[_i].recipe == FP8_MXFP8 ? "mx cast" : "cast gradient");
  /* the projection's input is attention's output, which it keeps too */
  ck_assert_double_eq_tol(planned_layer(&f, 1).saved_bytes,
                          wide - inputs * tokens * (2 - recipes[_i].kept) + H * tokens * recipes[_i].kept, 1e-3);
  planned_clear(&f);
}
END_TEST

/* Scales of rows: inputs are kept and rows gathered in 16 bits, weights cast by columns; the first gradient is that of the
 * last product, from width `in` to H. */
START_TEST(rows_have_scales)
{
  Planned f;

  setup(&f, "torchtitan", 8);
  double tokens = 1024, wide = planned_layer(&f, 1).saved_bytes, in = model_layer(f.model, 1)->ffn.width;
  f.cluster->device.peak_flops_per_s[DTYPE_FP8] = 1e15;
  plan_set_format(&f.plan, DTYPE_FP8);
  f.plan.fp8_recipe = FP8_ROWWISE;
  planned_accept(&f);
  ck_assert_double_eq_tol(op_named(&f, "cast gradient", TRUE).memory.bytes, 8 * tokens * H + 5 * in * H, 1e-6);
  ck_assert_double_eq_tol(op_named(&f, "scale gradients", TRUE).memory.bytes, 8 * (tokens * in + in * H), 1e-6);
  ck_assert_double_eq(planned_layer(&f, 1).saved_bytes, wide);
  ck_assert_double_eq(op_gathered_bytes(STATES(&f.plan), 1, 1), 2);
  double rows_s = planned_run(&f).compute_s;
  f.plan.fp8_recipe = FP8_NONE; /* the framework's: scales of tensors */
  ck_assert_double_lt(planned_run(&f).compute_s, rows_s);
  planned_clear(&f);
}
END_TEST

START_TEST(recipes_have_rules)
{
  Planned f;

  setup(&f, "megatron-core", 8);
  plan_set_format(&f.plan, DTYPE_FP4);
  planned_refuse(&f, RULE_PRECISION, "plan: precision: \"fp4\": expected a format that a100-sxm4-80gb supports "
                                     "(fp32, tf32, fp16, bf16)");
  plan_set_format(&f.plan, DTYPE_FP8);
  f.cluster->device.peak_flops_per_s[DTYPE_FP8] = 1e15;
  f.plan.fp8_recipe = FP8_MXFP8;
  planned_refuse(&f, RULE_PRECISION, "plan: fp8_recipe: \"mxfp8\": expected devices that scale blocks, cluster dgx has "
                                     "none");
  f.plan.fp8_recipe = FP8_TENSORWISE;
  planned_refuse(&f, RULE_PRECISION, "plan: fp8_recipe: \"tensorwise\": expected delayed, current, blockwise or "
                                     "mxfp8 with megatron-core");
  plan_set_format(&f.plan, DTYPE_BF16);
  planned_refuse(&f, RULE_PRECISION, "plan: fp8_recipe: \"tensorwise\": expected nothing under precision bf16");
  planned_clear(&f);
  setup(&f, "deepspeed", 8);
  plan_set_format(&f.plan, DTYPE_FP4);
  f.cluster->device.peak_flops_per_s[DTYPE_FP4] = 1e15;
  planned_refuse(&f, RULE_PRECISION, "plan: precision: \"fp4\": expected bf16, fp16 or fp32, deepspeed has no fp4 "
                                     "recipe");
  planned_clear(&f);
}
END_TEST

/* Megatron-Core looks through all gradients of a rank and scales them, whatever share of them it updates. */
START_TEST(whole_gradients_are_scaled)
{
  Planned f;
  setup(&f, "megatron-core", 1);
  f.plan.dp = 8;
  f.plan.zero = 1;
  const StateLayout *s = STATES(&f.plan);
  double part = 38e9 / 8, whole = 3 * s->gradient_bytes * 1e9;

  ck_assert_double_eq(op_gradient_traffic(s), 3 * s->gradient_bytes);
  ck_assert_double_eq_tol(optimizer_price(s, f.cluster, (double[]) { 1e9, 0 }, (double[2]) { 0 }, NULL).seconds,
                          named_memory_s(&f.cluster->device, "optimizer", FALSE, part + whole, 1, 0), 1e-12);
  f.plan.dp = 1; /* nothing is summed, nothing scaled */
  ck_assert_double_eq_tol(optimizer_price(STATES(&f.plan), f.cluster, (double[]) { 1e9, 0 }, (double[2]) { 0 }, NULL).seconds,
                          named_memory_s(&f.cluster->device, "optimizer", FALSE, 38e9, 1, 0), 1e-12);
  planned_clear(&f);
  setup(&f, "nemo-2024-11", 1);
  ck_assert_double_eq(op_gradient_traffic(STATES(&f.plan)), 0); /* its recipes average in the collective */
  planned_clear(&f);
}
END_TEST

/* tdp-run clears all gradients that it holds: under ZeRO-1 those of which another rank updates the weight, too. */
START_TEST(gradients_of_others_are_cleared)
{
  static const double rest[] = { 0, 4 * (1 - 1.0 / 8), 0, 0 }; /* bytes a parameter, by stage */
  Planned f;
  setup(&f, "tdp-run", 1);

  plan_set_format(&f.plan, DTYPE_FP32);
  f.plan.dp = 8;
  for (f.plan.zero = 0; f.plan.zero <= 3; f.plan.zero++) {
    double own = 38e9 / (f.plan.zero > 0 ? 8 : 1), rest_s = memory_s(&f.cluster->device, rest[f.plan.zero] * 1e9, 0);
    OptimizerPrice price = optimizer_price(STATES(&f.plan), f.cluster, (double[]) { 1e9, 0 }, (double[2]) { 0 }, NULL);
    double own_s = named_memory_s(&f.cluster->device, "optimizer", FALSE, own, 1, 0);
    ck_assert_double_eq_tol(price.seconds, own_s + rest_s, 1e-12);
  }
  Framework keeps = *f.plan.framework;
  keeps.rest_gradient_bytes = 0;
  f.plan.zero = 1;
  f.plan.offload.optimizer = STORE_CPU; /* gradients are cleared on the device there, too */
  double host_s = optimizer_price(STATES(&f.plan), f.cluster, (double[]) { 1e9, 0 }, (double[2]) { 0 }, NULL).seconds;
  f.plan.framework = &keeps;
  host_s -= optimizer_price(STATES(&f.plan), f.cluster, (double[]) { 1e9, 0 }, (double[2]) { 0 }, NULL).seconds;
  ck_assert_double_eq_tol(host_s, memory_s(&f.cluster->device, rest[1] * 1e9, 0), 1e-12);
  planned_clear(&f);
}
END_TEST

START_TEST(fp16_scales_its_loss)
{
  Planned f;
  setup(&f, "megatron-core", 1);

  f.plan.precision = DTYPE_FP16;
  ck_assert_double_eq(op_step_traffic(STATES(&f.plan)), 38 + 8);
  f.plan.precision = DTYPE_BF16;
  ck_assert_double_eq(op_step_traffic(STATES(&f.plan)), 38);
  planned_clear(&f);
}
END_TEST

/* In fp32 twice the bytes travel, and each value is cast there and back: 2 + 4 before, 4 + 2 behind. */
START_TEST(sums_over_tensor_ranks)
{
  Planned f;
  setup(&f, "fsdp", 2);
  f.plan.tp = 2;
  f.plan.dp = 1;
  double rows = 1024 * H;

  ck_assert_double_eq(op_named(&f, "sum rows", FALSE).collective.bytes, 2 * rows);
  f.plan.optimizer.formats[STATE_TENSOR_REDUCE] = FORMAT_FP32;
  ck_assert_double_eq(op_named(&f, "sum rows", FALSE).collective.bytes, 4 * rows);
  ck_assert_double_eq(op_named(&f, "cast sum", FALSE).memory.bytes, 6 * rows);
  ck_assert_double_eq(op_named(&f, "sum input gradient", TRUE).collective.bytes, 4 * rows);
  f.plan.sequence_parallel = TRUE; /* gathers stay in 16 bits */
  ck_assert_int_eq(op_named(&f, "sum rows", FALSE).collective.what, COLLECTIVE_REDUCE_SCATTER);
  ck_assert_double_eq(op_named(&f, "sum rows", FALSE).collective.bytes, 4 * rows);
  ck_assert_double_eq(op_named(&f, "gather rows", FALSE).collective.bytes, 2 * rows);
  planned_run(&f);
  planned_clear(&f);
}
END_TEST

/* ---- rules and keys ---- */

START_TEST(choices_have_rules)
{
  Planned f;

  setup(&f, "torchtitan", 8);
  f.plan.optimizer.name = OPTIMIZER_MUON;
  planned_refuse(&f, RULE_OPTIMIZER, "plan: optimizer: \"muon\": expected one that torchtitan runs");
  f.plan.optimizer = optimizer_default();
  f.plan.optimizer.formats[STATE_EXP_AVG] = FORMAT_BF16;
  planned_refuse(&f, RULE_OPTIMIZER, "plan: exp_avg_dtype: \"bf16\": expected nothing, torchtitan has no choice");
  planned_clear(&f);
  setup(&f, "fsdp", 8);
  f.plan.optimizer.name = OPTIMIZER_SGD;
  f.plan.optimizer.formats[STATE_EXP_AVG_SQ] = FORMAT_BF16;
  planned_refuse(&f, RULE_OPTIMIZER, "plan: exp_avg_sq_dtype: \"bf16\": expected nothing, optimizer sgd has no such "
                                     "state");
  f.plan.optimizer = optimizer_default();
  f.plan.optimizer.formats[STATE_GRAD_REDUCE] = FORMAT_FP8;
  planned_refuse(&f, RULE_OPTIMIZER, "plan: grad_reduce_dtype: \"fp8\": expected fp32, bf16 or fp16");
  f.plan.optimizer = optimizer_default();
  f.plan.optimizer.momentum = 0;
  planned_refuse(&f, RULE_OPTIMIZER, "plan: sgd_momentum: 0: expected nothing with optimizer adam");
  f.plan.optimizer = optimizer_default();
  f.plan.optimizer.remainders = TRUE;
  f.plan.precision = DTYPE_FP16;
  planned_refuse(&f, RULE_OPTIMIZER, "plan: store_param_remainders: true: expected precision bf16 and "
                                     "main_params_dtype fp32");
  f.plan.precision = DTYPE_BF16;
  f.plan.optimizer = optimizer_default();
  f.plan.optimizer.name = OPTIMIZER_MUON;
  f.plan.offload.optimizer = STORE_CPU;
  f.plan.zero = 2;
  planned_refuse(&f, RULE_OPTIMIZER, "plan: optimizer: \"muon\": expected adam, adamw or sgd where the optimizer is on "
                                     "the host");
  planned_clear(&f);
}
END_TEST

static void in_fp32(Plan *p) { plan_set_format(p, DTYPE_FP32); }
static void in_bf16(Plan *p) { p->optimizer.formats[STATE_MAIN_PARAMS] = FORMAT_BF16; }
static void mixed(Plan *p) { (void)p; }

/* stage_1_and_2.py clones a rank's part whatever its format; stage3.py and others have one copy of what needs no cast. */
START_TEST(deepspeed_copies_main_weights)
{
  static const struct {
    const char *framework;
    int zero;
    void (*set)(Plan *plan);
    double bytes; /* of a parameter of a rank's part, beside two moments in fp32 */
  } cases[] = { { "deepspeed", 1, mixed, 4 },   { "deepspeed", 1, in_bf16, 2 }, { "deepspeed", 2, in_bf16, 2 },
                { "deepspeed", 3, in_bf16, 0 }, { "deepspeed", 2, in_fp32, 4 }, { "deepspeed", 3, in_fp32, 0 },
                { "deepspeed", 0, in_fp32, 0 }, { "fsdp", 2, in_fp32, 0 },      { "zero-offload-2021", 1, in_fp32, 4 } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    setup(&f, cases[i].framework, 8);
    f.plan.zero = cases[i].zero;
    cases[i].set(&f.plan);
    double parts = cases[i].zero > 0 ? 8 : 1;
    ck_assert_double_eq_tol(optimizer_bytes(&f), f.model->params / parts * (8 + cases[i].bytes), 1);
    planned_clear(&f);
  }
}
END_TEST

/* DeepSpeed has main weights and moments in bf16 together, and wide moments beside narrow main weights on the host alone. */
START_TEST(deepspeed_parts_no_states)
{
  static const struct {
    StateFormat main, first, second;
    Store store;
    int zero;
    gboolean remainders, runs;
    OptimizerName name;
  } rows[] = {
    /* of SGD there is no second moment to stay behind */
    { FORMAT_BF16, FORMAT_BF16, FORMAT_USUAL, STORE_DEVICE, 2, FALSE, TRUE, OPTIMIZER_SGD },
    { FORMAT_BF16, FORMAT_USUAL, FORMAT_USUAL, STORE_DEVICE, 2, FALSE, FALSE, OPTIMIZER_SGD },
    { FORMAT_BF16, FORMAT_BF16, FORMAT_USUAL, STORE_DEVICE, 2, FALSE, FALSE, OPTIMIZER_MUON },
    { FORMAT_USUAL, FORMAT_USUAL, FORMAT_USUAL, STORE_DEVICE, 1, FALSE, TRUE },
    { FORMAT_BF16, FORMAT_BF16, FORMAT_BF16, STORE_DEVICE, 1, FALSE, TRUE },
    { FORMAT_BF16, FORMAT_BF16, FORMAT_BF16, STORE_DEVICE, 3, FALSE, TRUE },
    { FORMAT_BF16, FORMAT_BF16, FORMAT_BF16, STORE_CPU, 2, FALSE, TRUE },
    { FORMAT_BF16, FORMAT_USUAL, FORMAT_USUAL, STORE_CPU, 2, FALSE, TRUE },
    { FORMAT_BF16, FORMAT_BF16, FORMAT_BF16, STORE_DEVICE, 0, FALSE, FALSE },
    { FORMAT_BF16, FORMAT_USUAL, FORMAT_USUAL, STORE_DEVICE, 2, FALSE, FALSE },
    { FORMAT_USUAL, FORMAT_BF16, FORMAT_BF16, STORE_DEVICE, 2, FALSE, FALSE },
    { FORMAT_USUAL, FORMAT_BF16, FORMAT_BF16, STORE_CPU, 2, FALSE, FALSE },
    { FORMAT_BF16, FORMAT_BF16, FORMAT_USUAL, STORE_DEVICE, 2, FALSE, FALSE },
    { FORMAT_BF16, FORMAT_FP8, FORMAT_FP8, STORE_DEVICE, 2, FALSE, FALSE },
    { FORMAT_FP16, FORMAT_FP16, FORMAT_FP16, STORE_DEVICE, 2, FALSE, FALSE },
    { FORMAT_USUAL, FORMAT_USUAL, FORMAT_USUAL, STORE_DEVICE, 2, TRUE, FALSE },
  };
  Planned f;

  setup(&f, "deepspeed", 8);
  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    f.plan.zero = rows[i].zero;
    f.plan.offload.optimizer = rows[i].store;
    f.plan.optimizer.formats[STATE_MAIN_PARAMS] = rows[i].main;
    f.plan.optimizer.formats[STATE_EXP_AVG] = rows[i].first;
    f.plan.optimizer.formats[STATE_EXP_AVG_SQ] = rows[i].second;
    f.plan.optimizer.remainders = rows[i].remainders;
    f.plan.optimizer.name = rows[i].name;
    ck_assert_msg((plan_excluded(&f.plan, f.model, f.cluster, f.framework) == 0) == rows[i].runs, "row %zu", i);
  }
  planned_clear(&f);
}
END_TEST

/* What is written reads back, and what is as usual is left out. */
START_TEST(keys_go_round)
{
  static const char text[] = "{\"optimizer\": \"muon\", \"muon_num_ns_steps\": 6, \"muon_tp_mode\": \"distributed\", "
                             "\"exp_avg_dtype\": \"bf16\", \"main_grads_dtype\": \"bf16\", \"framework\": \"fsdp\"}";
  Planned f;
  Plan plan, again;
  GError *error = NULL;
  g_autoptr(Framework) framework = NULL;
  g_autoptr(Framework) second = NULL;
  g_autoptr(GString) out = g_string_new(NULL);
  JsonWriter w;

  setup(&f, "fsdp", 1);
  ck_assert(plan_parse(text, strlen(text), "p", f.model, &plan, &framework, &error));
  ck_assert_int_eq(plan.optimizer.name, OPTIMIZER_MUON);
  ck_assert_int_eq(plan.optimizer.newton_steps, 6);
  ck_assert_int_eq(plan.optimizer.muon_mode, MUON_DISTRIBUTED);
  json_writer_init(&w, out);
  plan_write(&plan, &w, NULL);
  ck_assert_ptr_null(strstr(out->str, "sgd_momentum"));
  ck_assert(plan_parse(out->str, out->len, "p", f.model, &again, &second, &error));
  ck_assert_mem_eq(&plan.optimizer, &again.optimizer, sizeof(Optimizer));
  ck_assert(!plan_parse("{\"exp_avg_dtype\": \"fp9\"}", 24, "p", f.model, &again, &second, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "exp_avg_dtype"));
  g_clear_error(&error);
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("optimizer", { states_by_the_book }, { states_are_divided }, { formats_by_the_book },
           { steps_by_their_bytes }, { products_in_tf32 }, { recipes_by_their_bytes, G_N_ELEMENTS(recipes) },
           { rows_have_scales }, { recipes_have_rules }, { fp16_scales_its_loss }, { whole_gradients_are_scaled },
           { gradients_of_others_are_cleared }, { sums_over_tensor_ranks }, { choices_have_rules },
           { deepspeed_parts_no_states }, { deepspeed_copies_main_weights }, { keys_go_round })
