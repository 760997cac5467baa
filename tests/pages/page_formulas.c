/*
 * docs/formulas.md: closed forms of the field beside what the model's work, the
 * plan's program and its simulation give. Exit 1 where they differ without a
 * stated reason, or agree in spite of one.
 */
#include "deepspeed_memory.h"
#include "fixture.h"
#include "pages/volume.h"
#include "sim/simulate.h"

#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdio.h>

#define SAME 1e-9

typedef struct {
  GString *page;
  int rows, reasons, faults;
} Page;

/* Models, plans and what is simulated of them are the row's alone. */
typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan plan;
} Setting;

static void section(Page *p, const char *title, const char *says)
{
  g_string_append_printf(p->page, "\n## %s\n\n%s\n\n| formula | shape | formula gives | simulator | difference |\n"
                                  "|---|---|---:|---:|---|\n",
                         title, says);
}

/* `why`: the reason of a difference, NULL = there must be none. */
static void row(Page *p, const char *formula, const char *shape, double expected, double found, const char *why)
{
  gboolean same = fabs(found - expected) <= SAME * fabs(expected);

  p->rows++;
  p->reasons += why != NULL;
  if (same != (why == NULL)) {
    fprintf(stderr, "formulas: %s, %s: %.17g, found %.17g%s%s\n", formula, shape, expected, found,
            why ? ", reason: " : "", why ? why : "");
    p->faults++;
  }
  g_string_append_printf(p->page, "| %s | %s | %.6g | %.6g | ", formula, shape, expected, found);
  if (why)
    g_string_append_printf(p->page, "%+.6g: %s |\n", found - expected, why);
  else
    g_string_append(p->page, "0 |\n");
}

static Setting setting(const char *model, const char *cluster, int devices, const char *framework, DType precision)
{
  Setting s = { fixture_known_model(model), fixture_cluster(cluster, devices), fixture_framework(framework) };

  s.plan = plan_default(s.model, s.framework);
  s.plan.gpus = s.plan.dp = devices;
  s.plan.global_batch = devices;
  s.plan.precision = precision;
  return s;
}

static void setting_clear(Setting *s)
{
  framework_free(s->framework);
  cluster_free(s->cluster);
  model_free(s->model);
}

static Trace *simulated(const Setting *s)
{
  GError *error = NULL;

  if (plan_check(&s->plan, s->model, s->cluster, &error) != RULE_NONE)
    g_error("%s", error->message);
  return simulate_plan(s->model, s->cluster, &s->plan);
}

/* ---- activations ---- */

typedef struct {
  const char *formula, *shape;
  int tp;
  gboolean sp;
  Recompute recompute;
  double (*bytes)(double s, double b, double h, double a, double t);
} Mode;

static double whole(double s, double b, double h, double a, double t)
{
  (void)t;
  return s * b * h * (34 + 5 * a * s / h);
}

static double tensor(double s, double b, double h, double a, double t)
{
  return s * b * h * (10 + 24 / t + 5 * a * s / (h * t));
}

static double sequence(double s, double b, double h, double a, double t)
{
  return s * b * h / t * (34 + 5 * a * s / h);
}
static double selective(double s, double b, double h, double a, double t) { (void)a; return s * b * h * (10 + 24 / t); }
static double both(double s, double b, double h, double a, double t) { (void)a; return 34 * s * b * h / t; }
static double full(double s, double b, double h, double a, double t) { (void)a, (void)t; return 2 * s * b * h; }
static double full_sequence(double s, double b, double h, double a, double t) { return full(s, b, h, a, t) / t; }

static const Mode modes[] = {
  { "sbh (34 + 5as/h)", "no parallelism", 1, FALSE, RECOMPUTE_NONE, whole },
  { "sbh (10 + 24/t + 5as/(ht))", "t = 8", 8, FALSE, RECOMPUTE_NONE, tensor },
  { "sbh/t (34 + 5as/h)", "t = 8, sequence parallel", 8, TRUE, RECOMPUTE_NONE, sequence },
  { "sbh (10 + 24/t)", "t = 8, selective", 8, FALSE, RECOMPUTE_SELECTIVE, selective },
  { "34 sbh/t", "t = 8, sequence parallel, selective", 8, TRUE, RECOMPUTE_SELECTIVE, both },
  { "2 sbh", "t = 8, full", 8, FALSE, RECOMPUTE_FULL, full },
  { "2 sbh/t", "t = 8, full, sequence parallel", 8, TRUE, RECOMPUTE_FULL, full_sequence },
};

static void activations_of_gpt(Page *p)
{
  Setting s = setting("gpt-22b", "dgx-a100-80gb", 64, "megatron-2022", DTYPE_FP16);
  const Model *m = s.model;

  section(p, "Activations of a GPT block, bytes",
          "Korthikanti et al. 2022, arXiv 2205.05198, table 2. GPT 22B, s = 2,048, b = 4, h = 6,144, a = 64; "
          "attention in separate kernels, dropout.");
  s.plan.micro_batch = 4;
  for (gsize i = 0; i < G_N_ELEMENTS(modes); i++) {
    s.plan.tp = modes[i].tp;
    s.plan.sequence_parallel = modes[i].sp;
    s.plan.recompute = modes[i].recompute;
    row(p, modes[i].formula, modes[i].shape,
        modes[i].bytes(m->seq, 4, m->hidden, m->specs[1].attention.heads, modes[i].tp),
        block_saved_bytes(m, &s.plan, s.cluster), NULL);
  }
  setting_clear(&s);
}

static void activations_of_llama(Page *p)
{
  Setting s = setting("llama-3.1-8b", "dgx-h100", 64, "megatron-core", DTYPE_BF16);
  const LayerSpec *block = &s.model->specs[1];
  double tokens = 8192, h = s.model->hidden, a = block->attention.heads, g = block->attention.kv_heads;
  double f = block->ffn.width;
  double all = tokens * h * (12 + 4 * g / a) + 6 * tokens * f + 4 * a * tokens;

  section(p, "Activations of a LLaMA block, bytes",
          "`docs/memory.md`. Llama 3.1 8B, s = 8,192, b = 1, fused attention, no dropout.");
  s.plan.seq = 8192;
  row(p, "sbh (12 + 4g/a) + 6sbf + 4abs", "no parallelism", all, block_saved_bytes(s.model, &s.plan, s.cluster), NULL);
  s.plan.tp = 8;
  row(p, "8sbh + the rest/t", "t = 8", 8 * tokens * h + (all - 8 * tokens * h) / 8,
      block_saved_bytes(s.model, &s.plan, s.cluster), NULL);
  s.plan.sequence_parallel = TRUE;
  row(p, "all of it/t", "t = 8, sequence parallel", all / 8, block_saved_bytes(s.model, &s.plan, s.cluster), NULL);
  s.plan.cp = 2;
  row(p, "all of it/(tc)", "t = 8, c = 2", all / 16, block_saved_bytes(s.model, &s.plan, s.cluster), NULL);
  s.plan.cp = 1;
  s.plan.recompute = RECOMPUTE_SELECTIVE;
  row(p, "without 4abs/t", "t = 8, sequence parallel, selective", (all - 4 * a * tokens) / 8,
      block_saved_bytes(s.model, &s.plan, s.cluster), NULL);
  setting_clear(&s);
}

static double most_activations(const Trace *t, int at)
{
  double most = 0;

  for (guint i = 0; i < t->rows[at].points->len; i++)
    most = MAX(most, g_array_index(t->rows[at].points, MemoryPoint, i).activations);
  return most;
}

static void activations_of_stages(Page *p)
{
  Setting s = setting("gpt3", "dgx-a100-80gb", 64, "megatron-2022", DTYPE_FP16);
  double sbh = 2048.0 * 12288, block = sbh / 8 * (34 + 5 * 96.0 * 2048 / 12288);

  section(p, "Activations of the first stage, bytes",
          "Korthikanti et al. 2022, sections 4.2.3 and 4.3: p micro-batches of L/p blocks, and the embedding's "
          "dropout of sbhp/t. GPT-3, t = p = 8, sequence parallel, 64 micro-batches.");
  s.plan.tp = s.plan.pp = 8;
  s.plan.dp = 1;
  s.plan.sequence_parallel = TRUE;
  {
    g_autoptr(Trace) trace = simulated(&s);
    row(p, "L sbh/t (34 + 5as/h) + sbhp/t", "1F1B", 96 * block + sbh, most_activations(trace, 0), NULL);
  }
  plan_set_schedule(&s.plan, schedule_find("interleaved"), 3);
  {
    g_autoptr(Trace) trace = simulated(&s);
    row(p, "L sbh/t (34 + 5as/h) (1 + (p-1)/(pv)) + sbhp/t", "interleaved, v = 3", 96 * block * (1 + 7 / 24.0) + sbh,
        most_activations(trace, 0),
        "the first chunk has 2p micro-batches in flight, each with the embedding's dropout mask");
  }
  setting_clear(&s);
}

/* ---- states ---- */

typedef struct {
  const char *formula, *framework;
  DType precision;
  int zero;
  double whole, shared; /* bytes a parameter, whole + shared / d */
} States;

static const States states[] = {
  { "16", "deepspeed", DTYPE_FP16, 0, 16, 0 },
  { "4 + 12/d", "deepspeed", DTYPE_FP16, 1, 4, 12 },
  { "2 + 14/d", "deepspeed", DTYPE_FP16, 2, 2, 14 },
  { "16/d", "deepspeed", DTYPE_FP16, 3, 0, 16 },
  { "18", "megatron-core", DTYPE_BF16, 0, 18, 0 },
  { "6 + 12/d", "megatron-core", DTYPE_BF16, 1, 6, 12 },
  { "20", "megatron-core", DTYPE_FP16, 0, 20, 0 },
  { "4 + 16/d", "megatron-core", DTYPE_FP16, 1, 4, 16 },
  { "16", "megatron-core", DTYPE_FP32, 0, 16, 0 },
  { "8 + 8/d", "megatron-core", DTYPE_FP32, 1, 8, 8 },
};

/* States and copies of gradients, bytes a parameter of the model. */
static double at_the_step(const Setting *s)
{
  double params[2] = { s->model->params, 0 };

  return state_bytes(STATES(&s->plan)) + op_step_copies(LAYOUT(&s->plan)->states, params) / params[0];
}

static void states_of_parameters(Page *p)
{
  section(p, "States, bytes a parameter",
          "ZeRO (arXiv 1910.02054, section 3.1, K = 12) and Megatron Core's documentation of the distributed "
          "optimizer, whose figures in fp16 have the fp32 gradients that its step makes; d = 64.");
  for (gsize i = 0; i < G_N_ELEMENTS(states); i++) {
    const States *x = &states[i];
    Setting s = setting("gpt2", "dgx-a100-80gb", 64, x->framework, x->precision);
    g_autofree char *shape = g_strdup_printf("%s, %s, ZeRO-%d", x->framework, dtype_names[x->precision], x->zero);
    s.plan.zero = x->zero;
    gboolean megatron = g_str_equal(x->framework, "megatron-core");
    row(p, x->formula, shape, x->whole + x->shared / 64,
        megatron ? at_the_step(&s) : state_bytes(STATES(&s.plan)), NULL);
    setting_clear(&s);
  }
}

/* ---- optimizers ---- */

typedef struct {
  const char *formula, *shape;
  Optimizer optimizer;
  double bytes; /* a parameter of a matrix of a block */
} Kept;

#define FORMATS(m, v) { [STATE_EXP_AVG] = m, [STATE_EXP_AVG_SQ] = v }

static const Kept kept[] = {
  { "4 + 4 + 4", "Adam", { .name = OPTIMIZER_ADAM }, 12 },
  { "4 + 4", "SGD with momentum", { .name = OPTIMIZER_SGD, .momentum = 0.9 }, 8 },
  { "4 + 2 + 8/2,048", "8-bit Adam, blocks of 2,048", { .name = OPTIMIZER_ADAM8BIT, .block = 2048 }, 6 + 8.0 / 2048 },
  { "4 + 2 + 8/256", "8-bit Adam, blocks of 256", { .name = OPTIMIZER_ADAM8BIT, .block = 256 }, 6 + 8.0 / 256 },
  { "4 + 4", "Muon", { .name = OPTIMIZER_MUON }, 8 },
  { "4 + 4 (r + c)/(rc)", "Adafactor", { .name = OPTIMIZER_ADAFACTOR }, 4 + 4 * (1600 + 4800) / (1600.0 * 4800) },
  { "4 + 2 + 2", "Adam, moments in bf16 (DeepSeek-V3)", { .formats = FORMATS(FORMAT_BF16, FORMAT_BF16) }, 8 },
  { "2 + 2 + 2", "the same, master weights as remainders",
    { .remainders = TRUE, .formats = FORMATS(FORMAT_BF16, FORMAT_BF16) }, 6 },
  { "2 + 1 + 2", "Adam, master weights in fp16, moments in fp8 and fp16 (FP8-LM)",
    { .formats = { [STATE_MAIN_PARAMS] = FORMAT_FP16, [STATE_EXP_AVG] = FORMAT_FP8,
                   [STATE_EXP_AVG_SQ] = FORMAT_FP16 } }, 5 },
};

static void states_of_optimizers(Page *p)
{
  const Tensor matrix = { 1600, 4800, 1, .hidden = TRUE };

  section(p, "Optimizer states, bytes a parameter",
          "Sources in `src/plan/optimizer.h`; DeepSeek-V3, arXiv 2412.19437, section 3.3.3; FP8-LM, arXiv 2310.18313, "
          "on its optimizer. A matrix of 1,600 x 4,800 in bf16 with its fp32 master weight.");
  for (gsize i = 0; i < G_N_ELEMENTS(kept); i++) {
    const Kept *x = &kept[i];
    double bytes = optimizer_param_bytes(&x->optimizer, DTYPE_BF16) +
                   optimizer_tensor_bytes(&x->optimizer, &matrix) / (1600.0 * 4800);
    row(p, x->formula, x->shape, x->bytes, bytes, NULL);
  }
}

/* ---- volumes ---- */

typedef struct {
  const char *formula, *shape;
  int zero, group, micro;
  double elements; /* a parameter */
} Volume;

static const Volume volumes[] = {
  { "2Ψ", "data parallel", 0, 0, 1, 2 },
  { "2Ψ", "ZeRO-1", 1, 0, 1, 2 },
  { "2Ψ", "ZeRO-2", 2, 0, 1, 2 },
  { "3Ψ", "ZeRO-3", 3, 0, 1, 3 },
  { "2Ψ", "data parallel, k = 4", 0, 0, 4, 2 },
  { "2Ψ", "ZeRO-1, k = 4", 1, 0, 4, 2 },
  { "kΨ + Ψ", "ZeRO-2, k = 4", 2, 0, 4, 5 },
  { "3kΨ", "ZeRO-3, k = 4", 3, 0, 4, 12 },
  { "3Ψ + 2Ψ/σ", "ZeRO-3 over σ = 8 of 64 (HSDP, MiCS)", 3, 8, 1, 3.25 },
  { "3kΨ + 2Ψ/σ", "the same, k = 4", 3, 8, 4, 12.25 },
};

static void volumes_of_data(Page *p)
{
  section(p, "Data-parallel communication, elements a parameter and step",
          "ZeRO, section 7, k micro-batches a step; a buffer counts once for a gather or scatter, twice for an "
          "all-reduce. Llama 2 7B on 64 GPUs, DeepSpeed in fp16.");
  for (gsize i = 0; i < G_N_ELEMENTS(volumes); i++) {
    const Volume *x = &volumes[i];
    Setting s = setting("llama-2-7b", "dgx-a100-80gb", 64, "deepspeed", DTYPE_FP16);
    s.plan.zero = x->zero;
    s.plan.shard_group = x->group;
    s.plan.global_batch = 64 * x->micro;
    g_autoptr(Trace) trace = simulated(&s);
    DataVolume v = data_volume(trace, 0);
    row(p, x->formula, x->shape, x->elements, (v.gathered_bytes + v.reduced_bytes) / 2 / s.model->params, NULL);
    setting_clear(&s);
  }
}

static void volumes_of_layers(Page *p)
{
  Setting s = setting("gpt-22b", "dgx-a100-80gb", 64, "megatron-2022", DTYPE_FP16);
  double message = 2.0 * s.model->seq * s.model->hidden;
  int calls = 0;

  section(p, "Communication of a block, forward and backward",
          "Megatron (arXiv 1909.08053, 2205.05198), DeepSpeed-Ulysses (arXiv 2309.14509), ring attention (arXiv "
          "2310.01889). GPT 22B and Llama 3.1 8B, b = 1.");
  s.plan.tp = 8;
  row(p, "4 all-reduces of 2sbh bytes", "t = 8", 4 * 2 * message,
      block_volume(s.model, &s.plan, s.cluster, AXIS_TENSOR).bytes, NULL);
  s.plan.sequence_parallel = TRUE;
  BlockVolume v = block_volume(s.model, &s.plan, s.cluster, AXIS_TENSOR);
  row(p, "4 all-gathers and 4 reduce-scatters of 2sbh", "t = 8, sequence parallel", 8 * message, v.bytes,
      "two gathers more: inputs of both column-parallel products are gathered again for the weight gradients");
  row(p, "4 reduce-scatters", "the same", 4, v.calls[COLLECTIVE_REDUCE_SCATTER], NULL);
  setting_clear(&s);

  s = setting("llama-3.1-8b", "dgx-h100", 64, "megatron-core", DTYPE_BF16);
  double keys = 2 * 2.0 * 8192 / 4 * 1024; /* keys and values of a rank: 8 heads of 128 */
  s.plan.seq = 8192;
  s.plan.cp = 4;
  s.plan.dp = 2;
  s.plan.context = CONTEXT_RING;
  v = block_volume(s.model, &s.plan, s.cluster, AXIS_CONTEXT);
  row(p, "c - 1 hops forward, 2(c - 1) backward, of keys and values", "ring, c = 4", 9 * keys, v.bytes, NULL);
  s.plan.context = CONTEXT_ALL_TO_ALL;
  v = block_volume(s.model, &s.plan, s.cluster, AXIS_CONTEXT);
  calls = v.calls[COLLECTIVE_ALL_TO_ALL];
  row(p, "4 all-to-alls", "Ulysses, c = 4", 4, calls, NULL);
  s.plan.context = CONTEXT_GATHER;
  v = block_volume(s.model, &s.plan, s.cluster, AXIS_CONTEXT);
  row(p, "keys and values of all: gathered, gathered again, gradients scattered", "all-gather, c = 4", 3 * 4 * keys,
      v.bytes, NULL);
  setting_clear(&s);
}

static void volumes_of_experts(Page *p)
{
  Setting s = setting("mixtral-8x7b", "dgx-h100", 64, "megatron-core", DTYPE_BF16);
  double message = 4096.0 * 2 * 4096 * 2; /* tokens, experts of each, width, bytes */
  double experts = (double)s.model->specs[1].expert_params, per_rank = experts / 8;

  section(p, "Experts",
          "GShard (arXiv 2006.16668) and Megatron Core's expert parallelism. A block of Mixtral 8x7B, s = 4,096, b = "
          "1, e = 8, each token to k = 2 experts, 64 GPUs; a buffer counts whole, also the part that stays.");
  s.plan.seq = 4096;
  s.plan.ep = 8;
  s.plan.zero = 1;
  BlockVolume v = block_volume(s.model, &s.plan, s.cluster, AXIS_EXPERT);
  row(p, "4 all-to-alls", "dispatch and combine, forward and backward", 4, v.calls[COLLECTIVE_ALL_TO_ALL], NULL);
  row(p, "each of 2sbhk bytes", "the same", 4 * message, v.bytes, NULL);
  LayerWork work;
  layer_work_init(&work, s.model, &s.model->specs[1], PASSES(&s.plan), s.cluster);
  row(p, "1/e of the experts' weights", "parameters of a rank", per_rank, work.expert_params, NULL);
  layer_work_clear(&work);
  row(p, "6 + 12/d, d = 64/e", "states of them, bytes a parameter", 6 + 12 / 8.0, state_bytes(&STATES(&s.plan)[1]),
      NULL);
  setting_clear(&s);
}

static void volumes_of_stages(Page *p)
{
  Setting s = setting("gpt3", "dgx-a100-80gb", 64, "megatron-2022", DTYPE_FP16);
  double message = 2.0 * 2048 * 12288;

  section(p, "Communication between stages, bytes of the second rank in a step",
          "Narayanan et al. 2021, arXiv 2104.04473, sections 3.2 and 4.1. GPT-3, t = p = 8, 64 micro-batches: each "
          "goes on once forward and once backward.");
  s.plan.tp = s.plan.pp = 8;
  s.plan.dp = 1;
  {
    g_autoptr(Trace) trace = simulated(&s);
    row(p, "2m sbh 2/t", "scatter-gather", 128 * message / 8, pipeline_bytes(trace, 1), NULL);
  }
  s.plan.sequence_parallel = TRUE;
  {
    g_autoptr(Trace) trace = simulated(&s);
    row(p, "2m sbh 2/t", "sequence parallel", 128 * message / 8, pipeline_bytes(trace, 1), NULL);
  }
  plan_set_schedule(&s.plan, schedule_find("interleaved"), 3);
  {
    g_autoptr(Trace) trace = simulated(&s);
    row(p, "2mv sbh 2/t", "interleaved, v = 3", 3 * 128 * message / 8, pipeline_bytes(trace, 1), NULL);
  }
  setting_clear(&s);
}

/* ---- FLOPs ---- */

static double step_flops(const Setting *s)
{
  Metrics m;
  g_autoptr(Trace) trace = simulated(s);

  trace_metrics(trace, &m);
  return m.hardware_flops * s->plan.gpus;
}

static void flops(Page *p)
{
  Setting s = setting("gpt-22b", "dgx-a100-80gb", 8, "megatron-2022", DTYPE_FP16);
  double h = 6144, l = 48, q = 2048, v = 51200, b = 8;
  double blocks = 72 * b * l * q * h * h * (1 + q / (6 * h)), head = 6 * b * q * h * v;

  section(p, "FLOPs of a step",
          "Narayanan et al. 2021, section 5.1, and Korthikanti et al. 2022, appendix A. GPT 22B, 8 sequences, t = 8.");
  s.plan.tp = 8;
  s.plan.dp = 1;
  row(p, "72 BLsh² (1 + s/(6h) + V/(12hL))", "model", blocks + head, b * model_flops(s.model, 2048), NULL);
  row(p, "the same", "no recomputation, what runs", blocks + head, step_flops(&s), NULL);
  s.plan.recompute = RECOMPUTE_FULL;
  row(p, "96 BLsh² (1 + s/(6h)) + 6BshV", "full recomputation", blocks * 4 / 3 + head, step_flops(&s), NULL);
  s.plan.recompute = RECOMPUTE_SELECTIVE;
  row(p, "72 BLsh² (1 + 2s/(9h)) + 6BshV", "selective recomputation",
      72 * b * l * q * h * h * (1 + 2 * q / (9 * h)) + head, step_flops(&s), NULL);
  setting_clear(&s);
}

/* ---- collectives ---- */

static void collectives(Page *p)
{
  section(p, "Bus factors of collectives", "nccl-tests, PERFORMANCE.md; n = 8.");
  row(p, "2(n-1)/n", "all-reduce", 1.75, collective_bus_factor(COLLECTIVE_ALL_REDUCE, 8), NULL);
  row(p, "(n-1)/n", "all-gather", 0.875, collective_bus_factor(COLLECTIVE_ALL_GATHER, 8), NULL);
  row(p, "(n-1)/n", "reduce-scatter", 0.875, collective_bus_factor(COLLECTIVE_REDUCE_SCATTER, 8), NULL);
  row(p, "(n-1)/n", "all-to-all", 0.875, collective_bus_factor(COLLECTIVE_ALL_TO_ALL, 8), NULL);
  row(p, "1", "broadcast", 1, collective_bus_factor(COLLECTIVE_BROADCAST, 8), NULL);
}

/* ---- DeepSpeed's estimators ---- */

#define NODES 8.0
#define NODE_GPUS 8.0
#define SLACK 1.5 /* additional_buffer_factor */

typedef struct {
  const char *formula, *shape;
  DeepspeedSetup setup;
  double (*bytes)(double params, double largest);
  gboolean host;
} Estimate;

static double z2(double p, double l) { (void)l; return 2 * p + 18 * p / (NODES * NODE_GPUS); }
static double z2_host(double p, double l) { (void)l; return 4 * p * NODE_GPUS * SLACK; }
static double z2_off(double p, double l) { (void)l; return 2 * p; }
static double z2_off_host(double p, double l) { (void)l; return p * fmax(4 * NODES * NODE_GPUS, 16) * SLACK; }
static double z3(double p, double l) { return 4 * l + 18 * p / (NODES * NODE_GPUS); }
static double z3_host(double p, double l) { (void)p; return 4 * l * NODE_GPUS * SLACK; }
static double z3_off(double p, double l) { return 4 * l + 2 * p / (NODES * NODE_GPUS); }
static double z3_off_host(double p, double l) { (void)l; return 16 * p / NODES * SLACK; }
static double z3_all(double p, double l) { (void)p; return 4 * l; }
static double z3_all_host(double p, double l) { (void)l; return 18 * p / NODES * SLACK; }
static double z3_cold_host(double p, double l) { (void)l; return p * fmax(4 * NODE_GPUS, 18 / NODES) * SLACK; }

static const Estimate estimates[] = {
  { "2Ψ + 18Ψ/N", "ZeRO-2, GPU", { .zero = 2 }, z2, FALSE },
  { "4Ψn 1.5", "ZeRO-2, host", { .zero = 2 }, z2_host, TRUE },
  { "2Ψ", "ZeRO-2, optimizer on the host, GPU", { .zero = 2, .offload_optimizer = TRUE }, z2_off, FALSE },
  { "Ψ max(4N, 16) 1.5", "the same, host", { .zero = 2, .offload_optimizer = TRUE }, z2_off_host, TRUE },
  { "4L + 18Ψ/N", "ZeRO-3, GPU", { .zero = 3, .zero_init = TRUE }, z3, FALSE },
  { "4Ln 1.5", "ZeRO-3, host", { .zero = 3, .zero_init = TRUE }, z3_host, TRUE },
  { "4L + 2Ψ/N", "ZeRO-3, optimizer on the host, GPU", { .zero = 3, .zero_init = TRUE, .offload_optimizer = TRUE },
    z3_off, FALSE },
  { "16Ψ/nodes 1.5", "the same, host", { .zero = 3, .zero_init = TRUE, .offload_optimizer = TRUE }, z3_off_host, TRUE },
  { "4L", "ZeRO-3, all on the host, GPU",
    { .zero = 3, .zero_init = TRUE, .offload_optimizer = TRUE, .offload_params = TRUE }, z3_all, FALSE },
  { "18Ψ/nodes 1.5", "the same, host",
    { .zero = 3, .zero_init = TRUE, .offload_optimizer = TRUE, .offload_params = TRUE }, z3_all_host, TRUE },
  { "Ψ max(4n, 18/nodes) 1.5", "the same without zero.Init, host",
    { .zero = 3, .offload_optimizer = TRUE, .offload_params = TRUE }, z3_cold_host, TRUE },
};

static void estimators(Page *p)
{
  Setting s = setting("llama-2-7b", "dgx-a100-80gb", 64, "deepspeed", DTYPE_FP16);
  double params = s.model->params, largest = deepspeed_largest_params(s.model);

  section(p, "DeepSpeed's estimators, bytes",
          "`estimate_zero2_model_states_mem_needs` and `estimate_zero3_model_states_mem_needs`, as "
          "`tests/deepspeed_memory.h` has them. Llama 2 7B on 8 nodes of n = 8, N = 64; L is the largest module.");
  for (gsize i = 0; i < G_N_ELEMENTS(estimates); i++) {
    const Estimate *e = &estimates[i];
    DeepspeedSetup setup = e->setup;
    setup.params = params;
    setup.largest_params = largest;
    setup.nodes = NODES;
    setup.node_gpus = NODE_GPUS;
    setup.buffer_factor = SLACK;
    DeepspeedMemory memory = deepspeed_memory(&setup);
    row(p, e->formula, e->shape, e->bytes(params, largest), e->host ? memory.host_bytes : memory.gpu_bytes, NULL);
  }
  setting_clear(&s);
}

/* The states alone: gathered layers and buckets come and go in a simulation. */
static void estimators_and_states(Page *p)
{
  Setting s = setting("llama-2-7b", "dgx-a100-80gb", 64, "deepspeed", DTYPE_FP16);
  double params = s.model->params;

  section(p, "DeepSpeed's estimators against what a plan holds at the step, bytes of a GPU",
          "States and the copies of gradients that the step makes. Without 4L, the largest module, and without buckets: "
          "the simulator has them as buffers over time. Llama 2 7B, N = 64.");
  s.framework->bucket_copies = 0;
  s.plan.zero = 2;
  row(p, "2Ψ + 18Ψ/N", "ZeRO-2", 2 * params + 18 * params / 64, at_the_step(&s) * params,
      "2 + 12 and an fp32 gradient are 18; the step also flattens the 16-bit ones before it copies them, 2Ψ/N");
  s.plan.zero = 3;
  row(p, "18Ψ/N", "ZeRO-3, without 4L", 18 * params / 64, at_the_step(&s) * params,
      "2 + 12 and an fp32 gradient are 18; beside them stand the 16-bit ones, twice while they are flattened, 4Ψ/N");
  setting_clear(&s);
}

int main(void)
{
  g_autoptr(GString) page = g_string_new(NULL);
  Page p = { page };

  gsl_set_error_handler_off();
  activations_of_gpt(&p);
  activations_of_llama(&p);
  activations_of_stages(&p);
  states_of_parameters(&p);
  states_of_optimizers(&p);
  volumes_of_data(&p);
  volumes_of_layers(&p);
  volumes_of_experts(&p);
  volumes_of_stages(&p);
  flops(&p);
  collectives(&p);
  estimators(&p);
  estimators_and_states(&p);
  printf("# Formulas of the field beside the simulator\n\n"
         "%d closed forms, of memory, communication and work, evaluated on stated shapes, and what the same shapes "
         "come to in the\nsimulator: %d are equal; for %d the reason of the difference stands beside it. `make pages` "
         "writes this page, and the\ntests fail where a difference appears without a reason, or a reason without a difference.\n%s",
         p.rows, p.rows - p.reasons, p.reasons, page->str);
  return p.faults ? 1 : 0;
}
