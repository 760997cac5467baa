#include "fixture.h"
#include "main.h"

#include <math.h>

/* Bytes that a block keeps under a plan. */
static double saved_of(const Model *model, const Plan *plan, const Cluster *cluster)
{
  LayerWork work;
  double saved;

  layer_work_init(&work, model, model_layer(model, 1), PASSES(plan), cluster);
  saved = work.saved_bytes;
  layer_work_clear(&work);
  return saved;
}

typedef struct {
  int tp;
  gboolean sp;
  Recompute recompute;
} Mode;

/* Korthikanti et al. 2022, table 2, bytes of a layer. */
static double korthikanti(const Mode *mode, double s, double b, double h, double a)
{
  double t = mode->tp, square = 5 * a * s / h;

  if (mode->recompute == RECOMPUTE_FULL)
    return 2 * s * b * h / (mode->sp ? t : 1);
  if (mode->recompute == RECOMPUTE_SELECTIVE)
    square = 0;
  if (mode->sp)
    return s * b * h / t * (34 + square);
  return t > 1 ? s * b * h * (10 + 24 / t + square / t) : s * b * h * (34 + square);
}

static const Mode modes[] = {
  { 1, FALSE, RECOMPUTE_NONE }, { 4, FALSE, RECOMPUTE_NONE }, { 4, TRUE, RECOMPUTE_NONE },
  { 1, FALSE, RECOMPUTE_SELECTIVE }, { 4, FALSE, RECOMPUTE_SELECTIVE }, { 8, TRUE, RECOMPUTE_SELECTIVE },
  { 1, FALSE, RECOMPUTE_FULL }, { 8, FALSE, RECOMPUTE_FULL }, { 8, TRUE, RECOMPUTE_FULL },
};

START_TEST(activations_of_gpt)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-2022");

  for (gsize i = 0; i < G_N_ELEMENTS(modes); i++) {
    Plan plan = plan_default(model, framework);
    plan.tp = modes[i].tp;
    plan.sequence_parallel = modes[i].sp;
    plan.recompute = modes[i].recompute;
    plan.micro_batch = 3;
    ck_assert_double_eq_tol(saved_of(model, &plan, cluster), korthikanti(&modes[i], 512, 3, 1024, 16), 0.5);
  }
}
END_TEST

/* s b h (12 + 4 g/a) + 6 s b f + 4 a s b, all of it divided under sequence parallelism. */
START_TEST(activations_of_llama)
{
  g_autoptr(Model) model = fixture_llama(2, 1024, 16, 4, 512, 1000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  double s = 512, b = 2, h = 1024, a = 16, g = 4, f = 3072;
  double whole = s * b * h * (12 + 4 * g / a) + 6 * s * b * f + 4 * a * s * b;
  Plan plan = plan_default(model, framework);

  plan.micro_batch = 2;
  ck_assert_double_eq_tol(saved_of(model, &plan, cluster), whole, 0.5);
  plan.tp = 4;
  ck_assert_double_eq_tol(saved_of(model, &plan, cluster), 8 * s * b * h + (whole - 8 * s * b * h) / 4, 0.5);
  plan.sequence_parallel = TRUE;
  ck_assert_double_eq_tol(saved_of(model, &plan, cluster), whole / 4, 0.5);
}
END_TEST

static double params_of(const Model *model, const Plan *plan, const Cluster *cluster)
{
  double params = 0;

  for (int i = 0; i < model->n_layers; i++) {
    LayerWork work;
    layer_work_init(&work, model, model_layer(model, i), PASSES(plan), cluster);
    params += work.params;
    layer_work_clear(&work);
  }
  return params;
}

static const char *const counted[] = { "gpt3", "gpt2-xl", "llama-2-7b", "llama-3.1-405b", "bloom", "opt-350m",
                                       "gpt-neox-20b",
                                       "mixtral-8x7b", "deepseek-v2-lite", "deepseek-v3", "qwen3-30b-a3b", "qwen2.5-7b",
                                       "gemma-2-9b", "mistral-nemo-12b", "falcon-7b", "gpt-oss-120b", "bert-base",
                                       "bert-large", "bert-large-sparse", "vit-huge-14", "gpt-j-6b", "palm-540b",
                                       "t5-11b", "flan-t5-base" };

/* Unsharded and unpadded, the work's weights are the model's parameters. */
START_TEST(weights_are_the_parameters)
{
  g_autoptr(Model) model = fixture_known_model(counted[_i]);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("fsdp");
  Plan plan = plan_default(model, framework);

  ck_assert_msg(fabs(params_of(model, &plan, cluster) - (double)model->params) < 0.5, "%s: %.0f of %.0f", counted[_i],
                params_of(model, &plan, cluster), (double)model->params);
}
END_TEST

static double flops_of(const Model *model, const Plan *plan, const Cluster *cluster)
{
  double flops = 0;

  for (int i = 0; i < model->n_layers; i++) {
    LayerWork work;
    layer_work_init(&work, model, model_layer(model, i), PASSES(plan), cluster);
    for (guint k = 0; k < work.forward->len; k++)
      flops += g_array_index(work.forward, Op, k).flops;
    for (guint k = 0; k < work.backward->len; k++)
      flops += g_array_index(work.backward, Op, k).flops;
    layer_work_clear(&work);
  }
  return flops;
}

static const char *const worked[] = { "gpt3", "llama-2-7b", "llama-3.1-405b", "mixtral-8x7b", "deepseek-v3",
                                      "gpt-neox-20b" };

/* The work's FLOPs are the model's, and tensor parallelism divides them. */
START_TEST(flops_are_the_models)
{
  g_autoptr(Model) model = fixture_known_model(worked[_i]);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("fsdp");
  Plan plan = plan_default(model, framework);
  double whole = flops_of(model, &plan, cluster);

  ck_assert_double_eq_tol(whole / model_flops(model, plan.seq), 1, 1e-3);
  plan.attention = ATTENTION_UNFUSED;
  ck_assert_double_eq_tol(flops_of(model, &plan, cluster) / whole, 1, 1e-9);
}
END_TEST

START_TEST(vocabulary_is_padded)
{
  g_autoptr(Model) model = fixture_known_model("gpt3");
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  Plan plan = plan_default(model, framework);

  plan.tp = 8;
  ck_assert_int_eq(op_vocab(model, PASSES(&plan)), 51200);
}
END_TEST

/* A split backward does the same work as a whole one. */
START_TEST(passes_split_the_backward)
{
  g_autoptr(Model) model = fixture_known_model("llama-2-7b");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-2022");
  Plan plan = plan_default(model, framework);
  plan.tp = 4;
  plan.overlap.tensor = FALSE;
  g_autoptr(PriceTable) prices = price_table_new(model, LAYOUT(&plan), cluster);

  for (int i = 0; i < prices->n; i++) {
    const PassPrice *p = prices->layers[i].pass;
    ck_assert_double_eq_tol(p[PASS_INPUT].seconds + p[PASS_WEIGHT].seconds, p[PASS_BACKWARD].seconds,
                            1e-9 * p[PASS_BACKWARD].seconds);
    ck_assert_double_eq_tol(p[PASS_INPUT].flops + p[PASS_WEIGHT].flops, p[PASS_BACKWARD].flops, 1);
  }
}
END_TEST

/* Apart from the product, the activated gate is kept too: 8 s b f for 6. */
START_TEST(activations_of_separate_gates)
{
  g_autoptr(Model) model = fixture_llama(2, 1024, 16, 4, 512, 1000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) together = fixture_framework("megatron-core");
  g_autoptr(Framework) apart = fixture_framework("nanotron-2025");
  Plan a = plan_default(model, together), b = plan_default(model, apart);

  ck_assert_double_eq_tol(saved_of(model, &b, cluster) - saved_of(model, &a, cluster), 2.0 * 512 * 3072, 0.5);
}
END_TEST

/* torchtitan keeps the outputs of the first, third, fifth and seventh product
 * (queries, values, gate, down), attention's output with its log-sum-exp, and
 * the block's input. */
START_TEST(activations_of_every_other_product)
{
  g_autoptr(Model) model = fixture_llama(2, 1024, 16, 4, 512, 1000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("torchtitan");
  double s = 512, h = 1024, f = 3072;
  Plan plan = plan_default(model, framework);

  plan.recompute = RECOMPUTE_SELECTIVE;
  ck_assert_double_eq_tol(saved_of(model, &plan, cluster), 2 * s * (h + h + h / 4 + f + h + h) + 4 * 16 * s, 0.5);
}
END_TEST

/* In 8 bits the same of 2026, what attention made and the block's input of before, and in 4 bits. */
START_TEST(activations_of_every_other_narrow_product)
{
  g_autoptr(Model) model = fixture_llama(2, 1024, 16, 4, 512, 1000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 8);
  g_autoptr(Framework) before = fixture_framework("torchtitan-2025-11");
  g_autoptr(Framework) framework = fixture_framework("torchtitan-2026-08");
  double s = 512, h = 1024, least = 2 * s * (h + h) + 4 * 16 * s;
  Plan plan = plan_default(model, framework);

  plan.recompute = RECOMPUTE_SELECTIVE;
  double wide = saved_of(model, &plan, cluster);
  plan.products = PRODUCTS_FP8;
  plan.fp8_recipe = FP8_MXFP8;
  ck_assert_double_eq(saved_of(model, &plan, cluster), wide);
  plan.framework = before;
  ck_assert_double_eq_tol(saved_of(model, &plan, cluster), least, 0.5);
  plan.framework = framework;
  plan.products = PRODUCTS_FP4;
  plan.fp8_recipe = FP8_NVFP4;
  ck_assert_double_eq_tol(saved_of(model, &plan, cluster), least, 0.5);
}
END_TEST

typedef struct {
  const char *framework;
  double saved, most; /* bytes of a logit: for backward, and at the worst moment */
} Loss;

static const Loss losses[] = { { "megatron-core", 4, 6 }, { "megatron-2021", 4, 6 }, { "nanotron-2025", 4, 10 },
                               { "fsdp", 4, 12 }, { "torchtitan", 4, 6 }, { "torchtitan-2024-compile", 4, 12 },
                               { "torchtitan-2026-05", 0.5, 1.5 } };

START_TEST(bytes_of_logits)
{
  g_autoptr(Model) model = fixture_llama(2, 1024, 16, 4, 512, 64000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework(losses[_i].framework);
  Plan plan = plan_default(model, framework);
  double logits = 512.0 * 64000;
  LayerWork work;

  framework->placeholders = PLACEHOLDERS_NONE; /* the worst moment is the loss's */
  layer_work_init(&work, model, model_layer(model, model->n_layers - 1), PASSES(&plan), cluster);
  ck_assert_double_eq_tol(work.saved_bytes, losses[_i].saved * logits + 4 * 512 * 1024, 0.5);
  ck_assert_double_eq_tol(work.transient_bytes, (losses[_i].most - losses[_i].saved) * logits, 0.5);
  ck_assert_double_eq_tol(work.largest, 64000.0 * 1024, 0.5);
  layer_work_clear(&work);
}
END_TEST

static double bytes_moved(const GArray *ops, const char *name)
{
  for (guint i = 0; i < ops->len; i++)
    if (g_str_equal(g_array_index(ops, Op, i).name, name))
      return g_array_index(ops, Op, i).memory.bytes;
  return 0;
}

/* Of 16-bit logits by kernels: cast, largest, less it, exponentials, sum, divided by it; backward scaled and cast. */
START_TEST(traffic_of_the_loss)
{
  g_autoptr(Model) model = fixture_llama(2, 1024, 16, 4, 512, 64000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  Plan plan = plan_default(model, framework);
  double logits = 512.0 * 64000, cast = 2 + 4, both = 4 + 4, one = 4;
  LayerWork work;

  layer_work_init(&work, model, model_layer(model, model->n_layers - 1), PASSES(&plan), cluster);
  ck_assert_double_eq_tol(bytes_moved(work.forward, "loss"), (cast + one + both + both + one + both) * logits, 0.5);
  ck_assert_double_eq_tol(bytes_moved(work.backward, "loss"), (both + cast) * logits, 0.5);
  layer_work_clear(&work);
}
END_TEST

/* PyTorch's loss over divided logits holds four of fp32. */
START_TEST(bytes_of_divided_logits)
{
  g_autoptr(Model) model = fixture_llama(2, 1024, 16, 4, 512, 64000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("torchtitan-2024-compile");
  Plan plan = plan_default(model, framework);
  LayerWork work;

  plan.tp = 2;
  layer_work_init(&work, model, model_layer(model, model->n_layers - 1), PASSES(&plan), cluster);
  ck_assert_double_eq_tol(work.transient_bytes, (16 - 4) * 512.0 * 64000 / 2, 0.5);
  layer_work_clear(&work);
}
END_TEST

static double bytes_sent(const GArray *ops, const char *name)
{
  for (guint i = 0; i < ops->len; i++)
    if (g_str_equal(g_array_index(ops, Op, i).name, name))
      return g_array_index(ops, Op, i).collective.bytes;
  return 0;
}

/* KempnerForge's tensor-parallel ranks gather the logits for a loss of all, and each look tokens up in the whole
 * table; without sequence parallelism each has the whole head. */
START_TEST(whole_vocabulary)
{
  g_autoptr(Model) model = fixture_llama(2, 1024, 16, 4, 512, 64000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("kempnerforge-2026");
  Plan plan = plan_default(model, framework);
  double logits = 512.0 * 64000;
  LayerWork head, entry;

  plan.tp = 4;
  plan.sequence_parallel = TRUE;
  layer_work_init(&head, model, model_layer(model, model->n_layers - 1), PASSES(&plan), cluster);
  layer_work_init(&entry, model, model_layer(model, 0), PASSES(&plan), cluster);
  ck_assert_double_eq_tol(head.transient_bytes, (8 - 4) * logits, 0.5);
  ck_assert_double_eq_tol(head.params, 64000.0 / 4 * 1024 + 1024, 0.5);
  ck_assert_double_eq_tol(bytes_sent(head.forward, "gather logits"), 2 * logits, 0.5);
  ck_assert_double_eq(bytes_sent(head.forward, "sum loss"), 0);
  ck_assert_double_eq_tol(entry.params, 64000.0 * 1024, 0.5);
  ck_assert_double_eq(bytes_sent(entry.forward, "sum embeddings"), 0);
  layer_work_clear(&head);
  plan.sequence_parallel = FALSE;
  layer_work_init(&head, model, model_layer(model, model->n_layers - 1), PASSES(&plan), cluster);
  ck_assert_double_eq_tol(head.params, 64000.0 * 1024 + 1024, 0.5);
  ck_assert_double_eq_tol(head.transient_bytes, (8 - 4) * logits, 0.5);
  ck_assert_double_eq(bytes_sent(head.forward, "gather logits"), 0);
  ck_assert_double_eq(bytes_sent(head.backward, "sum input gradient"), 0);
  layer_work_clear(&head);
  layer_work_clear(&entry);
}
END_TEST

typedef struct {
  const char *framework;
  DType precision;
  double gradient, reduced, copy;
} Gradients;

static const Gradients gradients[] = {
  { "megatron-core", DTYPE_FP16, 2, 2, 0 }, { "megatron-core", DTYPE_BF16, 4, 4, 0 },
  { "megatron-core", DTYPE_FP32, 4, 4, 0 }, { "deepspeed", DTYPE_BF16, 2, 2, 0 },
  { "fsdp", DTYPE_BF16, 4, 2, 0 },          { "megatron-deepspeed-2022", DTYPE_FP16, 2, 2, 0 },
  { "nanotron-2025", DTYPE_BF16, 4, 4, 2 }, { "megatron-deepspeed-2022", DTYPE_BF16, 4, 2, 2 },
};

START_TEST(gradients_by_precision)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Framework) framework = fixture_framework(gradients[_i].framework);
  Plan plan = plan_default(model, framework);

  plan.precision = gradients[_i].precision;
  ck_assert_double_eq(STATES(&plan)->gradient_bytes, gradients[_i].gradient);
  ck_assert_double_eq(STATES(&plan)->reduce_bytes, gradients[_i].reduced);
  ck_assert_double_eq(op_gradient_copy_bytes(STATES(&plan)), gradients[_i].copy);
}
END_TEST

/* 8e9 parameters, 1e9 of them in one tensor. Over 8 ranks the flattened
 * partition (2e9) and its fp32 copy (4e9) go where the tensor's fp32 and fp64
 * copies (4e9, 8e9) were; whole (16e9, 32e9) they do not. */
START_TEST(step_of_fp16)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Framework) framework = fixture_framework("megatron-deepspeed-2022");
  Plan plan = plan_default(model, framework);

  plan.precision = DTYPE_FP16;
  plan.zero = 1;
  plan.dp = 8;
  ck_assert_double_eq(op_step_bytes(STATES(&plan), 8e9, 1e9), 12e9);
  ck_assert_double_eq(op_bucket_bytes(STATES(&plan), 8e9), 1e9);
  ck_assert_double_eq(op_bucket_bytes(STATES(&plan), 1e8), 2e8);
  plan.dp = 3;
  ck_assert_double_eq(op_step_bytes(STATES(&plan), 9e9, 1e9), 24e9);
  plan.dp = 1;
  ck_assert_double_eq(op_step_bytes(STATES(&plan), 8e9, 1e9), 60e9);
  plan.zero = 0;
  ck_assert_double_eq(op_step_bytes(STATES(&plan), 8e9, 1e9), 0);
  plan.zero = 1;
  plan.precision = DTYPE_BF16;
  ck_assert_double_eq(op_step_bytes(STATES(&plan), 8e9, 1e9), 0);
}
END_TEST

/* All gradients in bf16 beside those in fp32 while they are reduced, of whatever size buckets are; where they are kept
 * in bf16 there is nothing to cast. */
START_TEST(bf16_copy_to_reduce)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Framework) framework = fixture_framework("megatron-deepspeed-2022");
  Plan plan = plan_default(model, framework);

  plan.precision = DTYPE_BF16;
  plan.zero = 1;
  plan.dp = 8;
  ck_assert_double_eq(op_bucket_bytes(STATES(&plan), 8e9), 16e9);
  ck_assert_double_eq(op_bucket_bytes(STATES(&plan), 1e8), 2e8);
  ck_assert_double_eq(op_reduce_cast_bytes(STATES(&plan)), 2 * (4 + 2));
  plan.dp = 1;
  ck_assert_double_eq(op_bucket_bytes(STATES(&plan), 8e9), 0);
  plan.dp = 8;
  plan.optimizer.formats[STATE_MAIN_GRADS] = FORMAT_BF16;
  ck_assert_double_eq(op_bucket_bytes(STATES(&plan), 8e9), 1e9);
  ck_assert_double_eq(op_reduce_cast_bytes(STATES(&plan)), 0);
}
END_TEST

/* Bytes of a bf16 parameter over 8 ranks with ZeRO-3: gradients aside, DeepSpeed's 2 + 12, FSDP's fp32 weight and its
 * moments, 4 + 8; of bf16 weights that are trained as they are 2 + 8. What leaves for the host leaves whole. */
START_TEST(shards_of_main_weights)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Framework) fsdp = fixture_framework("fsdp");
  g_autoptr(Framework) deepspeed = fixture_framework("deepspeed");
  Plan plan = plan_default(model, fsdp);

  plan.precision = DTYPE_BF16;
  plan.zero = 3;
  plan.dp = 8;
  ck_assert_double_eq(op_states(STATES(&plan)).weights, 4 / 8.0);
  ck_assert_double_eq(op_states(STATES(&plan)).optimizer, 8 / 8.0);
  plan.optimizer.formats[STATE_MAIN_PARAMS] = FORMAT_BF16;
  ck_assert_double_eq(op_states(STATES(&plan)).weights, 2 / 8.0);
  ck_assert_double_eq(op_states(STATES(&plan)).optimizer, 8 / 8.0);
  plan.optimizer.formats[STATE_MAIN_PARAMS] = FORMAT_USUAL;
  plan.offload.optimizer = STORE_CPU;
  ck_assert_double_eq(op_states(STATES(&plan)).weights, 2 / 8.0);
  ck_assert_double_eq(op_states(STATES(&plan)).optimizer, 0);
  plan.offload.parameters = STORE_CPU;
  ck_assert_double_eq(op_states(STATES(&plan)).weights, 0);
  plan.offload.optimizer = plan.offload.parameters = STORE_DEVICE;
  plan.zero = 2;
  ck_assert_double_eq(op_states(STATES(&plan)).weights, 2);
  ck_assert_double_eq(op_states(STATES(&plan)).optimizer, 12 / 8.0);
  plan.zero = 3;
  plan.framework = deepspeed;
  ck_assert_double_eq(op_states(STATES(&plan)).weights, 2 / 8.0);
  ck_assert_double_eq(op_states(STATES(&plan)).optimizer, 12 / 8.0);
}
END_TEST

/* DDP's 16-bit buckets are there for one replica too, not where ZeRO divides. */
START_TEST(buckets_of_ddp)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Framework) framework = fixture_framework("nanotron-2025");
  Plan plan = plan_default(model, framework);

  plan.precision = DTYPE_BF16;
  plan.dp = 1;
  plan.zero = 0;
  ck_assert_double_eq(op_bucket_bytes(STATES(&plan), 8e9), 16e9);
  plan.dp = 4;
  double unsharded = op_bucket_bytes(STATES(&plan), 8e9);
  plan.zero = 1;
  ck_assert_double_eq(unsharded - op_bucket_bytes(STATES(&plan), 8e9), 16e9);
}
END_TEST

/* Flattened gradients, their fp32 copy and two temporaries of AdamW, of the partition. */
START_TEST(step_of_single_kernels)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Framework) framework = fixture_framework("internevo-2023");
  Plan plan = plan_default(model, framework);

  plan.precision = DTYPE_BF16;
  plan.zero = 1;
  plan.dp = 4;
  ck_assert_double_eq(op_step_bytes(STATES(&plan), 8e9, 1e9), 28e9);
  plan.dp = 1;
  ck_assert_double_eq(op_step_bytes(STATES(&plan), 8e9, 1e9), 112e9);
}
END_TEST

/* This executor's backward: of 32 hidden and 128 between, per token, 288 of gradients that wait (96 of queries, keys
 * and values, twice 32 and 128), 32 that pass on, and the worst of 32 of a product's input and the core's: 32, on a
 * ring of two with four blocks of 64, of three and more with five, gathered with twice those of all ranks. */
static const struct { int cp; ContextExchange context; double worst; } scratches[] = {
  { 1, CONTEXT_RING, 32 }, { 2, CONTEXT_RING, 32 + 4 * 64 }, { 4, CONTEXT_RING, 32 + 5 * 64 },
  { 4, CONTEXT_GATHER, 32 + 2 * 4 * 64 }, { 2, CONTEXT_ALL_TO_ALL, 32 + 3 * 96 },
};

START_TEST(scratch_of_the_executor)
{
  g_autoptr(Model) model = fixture_gpt_plain(2, 32, 8, 16, 61);
  g_autoptr(Cluster) cluster = fixture_cluster("cpu", 4);
  g_autoptr(Framework) framework = fixture_framework("tdp-run");
  Plan plan = plan_default(model, framework);
  LayerWork work;

  plan.precision = DTYPE_FP32;
  plan.cp = scratches[_i].cp;
  plan.context = scratches[_i].context;
  plan.gpus = plan.cp;
  layer_work_init(&work, model, model_layer(model, 1), PASSES(&plan), cluster);
  ck_assert_double_eq_tol(work.transient_bytes, 16.0 / plan.cp * 4 * (288 + 32 + scratches[_i].worst), 0.5);
  layer_work_clear(&work);
}
END_TEST

/* Blocks of keys and values that a rank of a ring sends in a pass, and in which step it works on its own, with the mask. */
typedef struct {
  double blocks;
  int steps, own;
} RingPass;

static RingPass ring_pass(const GArray *ops, gboolean backward, double block_bytes)
{
  RingPass found = { 0, 0, -1 };

  for (guint i = 0; i < ops->len; i++) { /* as they run */
    const Op *op = &g_array_index(ops, Op, i);
    if (op->kind == OP_COLLECTIVE && op->collective.what == COLLECTIVE_SEND)
      found.blocks += op->collective.bytes / block_bytes;
    if (op->kind != OP_ATTENTION || (op->pass != PASS_FORWARD) != backward)
      continue;
    if (op->attention.causal)
      found.own = found.steps;
    found.steps++;
  }
  return found;
}

/* Transformer Engine for PyTorch goes its forward's way back, from the block that came last to the own one, and has the
 * gradients there at its end; rings that begin with the own one send them once more. */
static const struct {
  const char *framework;
  int cp;
  double sent;
  int own;
} rings[] = { { "megatron-core", 2, 2, 1 }, { "megatron-core", 4, 6, 3 }, { "nemo-2024-11", 4, 6, 3 },
              { "tdp-run", 2, 3, 0 }, { "tdp-run", 4, 7, 0 }, { "maxtext-2026", 4, 7, 0 } };

START_TEST(rings_of_keys)
{
  g_autoptr(Model) model = fixture_model(2, 1024, 16, 512, 1000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework(rings[_i].framework);
  Plan plan = plan_default(model, framework);
  LayerWork work;

  plan.cp = rings[_i].cp;
  plan.context = CONTEXT_RING;
  plan.gpus = plan.cp;
  plan.seq = 512;
  layer_work_init(&work, model, model_layer(model, 1), PASSES(&plan), cluster);
  double block = 512.0 / plan.cp * 2 * 1024 * dtype_bytes[plan.precision];
  RingPass forward = ring_pass(work.forward, FALSE, block), backward = ring_pass(work.backward, TRUE, block);
  ck_assert_double_eq_tol(forward.blocks, plan.cp - 1, 1e-12);
  ck_assert_double_eq_tol(backward.blocks, rings[_i].sent, 1e-12);
  ck_assert_int_eq(forward.steps, plan.cp);
  ck_assert_int_eq(backward.steps, plan.cp);
  ck_assert_int_eq(forward.own, 0);
  ck_assert_int_eq(backward.own, rings[_i].own);
  layer_work_clear(&work);
}
END_TEST

TEST_LOOPS("op", { activations_of_gpt },
           { activations_of_llama },
           { activations_of_separate_gates },
           { activations_of_every_other_product },
           { activations_of_every_other_narrow_product },
           { bytes_of_logits, G_N_ELEMENTS(losses) },
           { bytes_of_divided_logits },
           { traffic_of_the_loss },
           { whole_vocabulary },
           { gradients_by_precision, G_N_ELEMENTS(gradients) },
           { step_of_fp16 },
           { bf16_copy_to_reduce },
           { shards_of_main_weights },
           { step_of_single_kernels },
           { buckets_of_ddp },
           { weights_are_the_parameters, G_N_ELEMENTS(counted) },
           { flops_are_the_models, G_N_ELEMENTS(worked) },
           { vocabulary_is_padded },
           { passes_split_the_backward },
           { scratch_of_the_executor, G_N_ELEMENTS(scratches) },
           { rings_of_keys, G_N_ELEMENTS(rings) })
