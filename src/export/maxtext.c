/* MaxText: overrides of its base.yml (AI-Hypercomputer/maxtext at e591f30). */
#include "export/target.h"

#include "base/error.h"

#include <math.h>

/* A chunked schedule gives each rank that many repeats. */
static const ScheduleName schedule_names[] = {{"gpipe", "gpipe", FALSE}, {"looped-bfs", "circular", TRUE}, {0}};

static const char *const precision_names[DTYPE_COUNT] = {[DTYPE_FP32] = "float32", [DTYPE_BF16] = "bfloat16"};

/* Flax's delayed scaling; the rest is Transformer Engine's. The framework has these alone. */
static const char *const quantizations[FP8_COUNT] = {
  [FP8_DELAYED] = "fp8", [FP8_CURRENT] = "te_fp8_currentscaling", [FP8_MXFP8] = "te_mxfp8", [FP8_NVFP4] = "te_nvfp4",
};

/* ---- parallelism ---- */

/* Degrees in the order of our ranks, fastest first: the first ones fill a node, as the framework's cut_nodes has it. */
static gboolean put_mesh(Export *e, GString *text, GError **error)
{
  const Layout *l = &e->layout;
  const int data = l->mesh.dense[AXIS_DATA].size, copies = l->states[0].zero == 3 ? export_copies(e) : data;
  const int shards = data / copies, ep = l->passes.ep;
  const struct { const char *name; int size; } axes[] = {
    { "tensor_sequence", l->passes.tp }, { "context", l->passes.cp }, { "expert", ep }, { "fsdp", shards / ep },
    { "data", copies }, { "pipeline", l->pipeline.shape.ranks },
  };
  int room = e->node_gpus;
  gboolean fills = shards % ep == 0;

  for (gsize i = 0; i < G_N_ELEMENTS(axes); i++) {
    int inside = MIN(axes[i].size, room);
    fills &= inside > 0 && axes[i].size % inside == 0 && room % inside == 0;
    if (!fills)
      break;
    room /= inside;
    g_string_append_printf(text, "ici_%s_parallelism: %d\ndcn_%s_parallelism: %d\n", axes[i].name, inside,
                           axes[i].name, axes[i].size / inside);
  }
  g_string_append_printf(text, "shard_optimizer_over_data: %s\n", export_truth(l->states[0].zero == 1));
  if (!fills)
    infeasible_error(error, "maxtext: expected degrees of which the first fill nodes of %d GPUs", e->node_gpus);
  return fills;
}

static void put_pipeline(Export *e, GString *text)
{
  const ScheduleShape *shape = &e->layout.pipeline.shape;
  const ScheduleName *schedule = export_schedule(e, schedule_names);

  if (shape->ranks == 1)
    return;
  export_note(e, "pipeline_model_parallel_size: %d: embedding and head are on the ranks of all stages, which share "
                 "their work", shape->ranks);
  g_string_append_printf(text, "num_layers_per_pipeline_stage: %d\nnum_pipeline_repeats: %d\n"
                               "num_pipeline_microbatches: %d\n", export_chunk_blocks(e, schedule),
                         schedule->chunks ? shape->chunks : 1, shape->micro);
}

/* A pass takes its batch whole, which a pipeline divides; devices count those that share a sequence. */
static void put_batch(const Export *e, GString *text)
{
  const Layout *l = &e->layout;
  const int ranks = l->mesh.ranks, passes = l->pipeline.shape.ranks > 1 ? 1 : l->pipeline.shape.micro;
  const int batch = l->global_batch / passes;
  double each = (double)batch / ranks;

  if (each * ranks < batch) /* it is cut to a whole number */
    each = nextafter(each, batch);
  g_string_append_printf(text, "per_device_batch_size: %.17g\ngradient_accumulation_steps: %d\n"
                               "max_target_length: %d\n", each, passes, l->passes.seq);
}

/* ---- passes ---- */

/* Names of what backwards read that is not made again; outputs of norms and activations have none. */
static void put_recompute(Export *e, GString *text)
{
  const RecomputeLayout *r = &e->layout.passes.recompute;
  const char *experts = export_block(e->model, TRUE) ? "moe_" : "";
  guint modules = recompute_modules(&r->scope);

  if (r->granularity == RECOMPUTE_FULL) {
    g_string_append(text, "remat_policy: full\n");
    return;
  }
  if (!*experts)
    export_note(e, "recompute: outputs of activations are made again too, as no policy names them");
  g_string_append(text, "remat_policy: custom\nquery_proj: device\nkey_proj: device\nvalue_proj: device\n"
                        "out_proj: device\n");
  if (!(modules >> MODULE_CORE_ATTN & 1))
    g_string_append(text, "context: device\n");
  if (modules >> (*experts ? MODULE_MOE : MODULE_MLP) & 1)
    return;
  if (model_layer(e->model, 1)->ffn.kind == MLP_GELU)
    g_string_append(text, "mlpwi: device\n");
  else
    g_string_append_printf(text, "%smlpwi_0: device\n%smlpwi_1: device\n", experts, experts);
  g_string_append_printf(text, "%smlpwo: device\n", experts);
}

static void put_formats(Export *e, GString *text)
{
  const Formats *f = &e->layout.passes.formats;

  g_string_append_printf(text, "dtype: %s\nweight_dtype: float32\ngrad_dtype: float32\n",
                         precision_names[f->precision]);
  if (f->precision == DTYPE_FP32) /* XLA's default is tf32 where there is any */
    g_string_append_printf(text, "matmul_precision: %s\n", f->products == PRODUCTS_TF32 ? "high" : "highest");
  if (f->recipe)
    g_string_append_printf(text, "quantization: %s\n", quantizations[f->recipe]);
}

static void put_kernels(Export *e, GString *text)
{
  static const char *const types[OPTIMIZER_COUNT] = {[OPTIMIZER_ADAM] = "adamw", [OPTIMIZER_ADAMW] = "adamw",
                                                     [OPTIMIZER_SGD] = "sgd"};
  const PassLayout *p = &e->layout.passes;
  AttentionKernel kernel = framework_attention(p->framework, p->attention, &e->cluster->device);

  g_string_append_printf(text, "attention: %s\npacking: false\n",
                         kernel == ATTENTION_UNFUSED ? "dot_product" : "cudnn_flash_te");
  if (p->cp > 1)
    g_string_append_printf(text, "context_parallel_strategy: %s\ncontext_parallel_load_balance: true\n",
                           p->context == CONTEXT_RING ? "ring" : "all_gather");
  put_recompute(e, text);
  put_formats(e, text);
  g_string_append_printf(text, "opt_type: %s\nlearning_rate: " EXPORT_LR "\n", export_optimizer(e, types));
}

/* Of XLA, which waits for collectives without (configs/gpu/a3/llama_3.1_405b/128vm.sh). */
static void put_flags(const Export *e, GString *line)
{
  guint on = e->layout.overlaps & e->layout.overlaps_open;

  if (!(on & (OVERLAP_GRADIENTS | OVERLAP_PARAMETERS)))
    return;
  export_words(line, "XLA_FLAGS=\"--xla_gpu_enable_latency_hiding_scheduler=true "
                     "--xla_gpu_enable_while_loop_double_buffering=true");
  if (on & OVERLAP_PARAMETERS)
    export_words(line, "--xla_gpu_pipeline_all_gather=on");
  if (on & OVERLAP_GRADIENTS)
    export_words(line, "--xla_gpu_pipeline_reduce_scatter=on --xla_gpu_pipeline_all_reduce=on");
  g_string_append_c(line, '"');
}

static void launch(Export *e, const char *file, GString *line)
{
  const Formats *f = &e->layout.passes.formats;

  put_flags(e, line);
  if (f->precision == DTYPE_FP32 && f->products != PRODUCTS_TF32) /* of products that matmul_precision does not reach */
    export_words(line, "JAX_DEFAULT_MATMUL_PRECISION=highest");
  if (e->nodes > 1)
    export_words(line, "NNODES=%d NODE_RANK=\"$NODE_RANK\" JAX_COORDINATOR_IP=\"$MASTER_ADDR\" "
                       "JAX_COORDINATOR_PORT=29500", e->nodes);
  export_words(line, "python3 -m maxtext.trainers.pre_train.train ");
  export_shell(line, file);
}

static gboolean render(Export *e, GString *text, GError **error)
{
  g_autoptr(GString) line = g_string_new(NULL);

  if (!maxtext_trains(e, error))
    return FALSE;
  launch(e, "FILE", line);
  export_note(e, "On each node one process starts all of its GPUs: %s", line->str);
  export_note(e, "Steps and learning rate are placeholders, and data are synthetic.");
  export_say_overlaps(e, OVERLAP_GRADIENTS | OVERLAP_PARAMETERS);
  g_string_append(text, "base_config: base.yml\nhardware: gpu\nrun_name: tdp\nenable_checkpointing: false\n"
                        "dataset_type: synthetic\n");
  g_string_append_printf(text, "steps: %d\n", EXPORT_STEPS);
  maxtext_put_model(e, text);
  if (!put_mesh(e, text, error))
    return FALSE;
  put_pipeline(e, text);
  put_batch(e, text);
  put_kernels(e, text);
  return TRUE;
}

const Exporter exporter_maxtext = {
  .name = "maxtext",
  .target = "MaxText of 2026-08",
  .extension = "yml",
  .comments = TRUE,
  .tells_tf32 = TRUE,
  .framework = "maxtext-2026",
  .render = render,
  .launch = launch,
};
