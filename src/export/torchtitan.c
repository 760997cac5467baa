/* torchtitan: the TOML of its last release that reads it; and the settings of Python's functions, by TOML's names. */
#include "export/target.h"
#include "model/torchtitan.h"

static const ScheduleName schedule_names[] = {
  {"1f1b", "1F1B", FALSE},
  {"gpipe", "GPipe", FALSE},
  {"interleaved", "Interleaved1F1B", TRUE},
  {"interleaved-rounds", "Interleaved1F1B", TRUE},
  {"looped-bfs", "LoopedBFS", TRUE},
  {"zb-v", "ZBVZeroBubble", TRUE},
  {"dualpipev", "DualPipeV", TRUE},
  {0},
};

static const char *const recompute_modes[] = {
  [RECOMPUTE_NONE] = "none", [RECOMPUTE_SELECTIVE] = "selective", [RECOMPUTE_FULL] = "full",
};

static const char *const precision_names[DTYPE_COUNT] = {
  [DTYPE_FP32] = "float32", [DTYPE_BF16] = "bfloat16",
};

/* torchao's recipes of 8-bit products. */
static const struct {
  const char *converter, *recipe; /* the converter is its section too */
} recipes[FP8_COUNT] = {
  [FP8_TENSORWISE] = { "quantize.linear.float8", "tensorwise" },
  [FP8_ROWWISE] = { "quantize.linear.float8", "rowwise" },
  [FP8_MXFP8] = { "quantize.linear.mx", "mxfp8_cublas" },
};

static void put_converter(const Formats *f, GString *text)
{
  if (f->products == PRODUCTS_FP8)
    g_string_append_printf(text, "converters = [\"%s\"]\n", recipes[f->recipe].converter);
  if (f->products == PRODUCTS_FP4) /* which TOML's versions lack */
    g_string_append(text, "converters = [\"quantize.linear.nvfp4\"]\n");
}

/* Weights are gathered in 8 bits by switches, with no recipe named, whose scales are then those of whole tensors. */
static void put_recipe(const Export *e, GString *text)
{
  const Formats *f = &e->layout.passes.formats;

  if (f->products != PRODUCTS_FP8)
    return;
  g_string_append_printf(text, "\n[%s]\n", recipes[f->recipe].converter);
  if (e->layout.states[0].gathers_narrow)
    g_string_append(text, "enable_fsdp_float8_all_gather = true\nprecompute_float8_dynamic_scale_for_fsdp = true\n");
  else
    g_string_append_printf(text, "recipe_name = \"%s\"\n", recipes[f->recipe].recipe);
  g_string_append_printf(text, "filter_fqns = [\"output\"%s", model_has_experts(e->model) ? ", \"router.gate\"" : "");
  for (int i = 0; i < e->model->blocks; i++) /* parts of names: "layers.1" would be of layer 10, too */
    if (wide_has(&e->layout.passes.wide, e->model->blocks, i + 1))
      g_string_append_printf(text, ", \"layers.%d.\"", i);
  g_string_append(text, "]\n");
}

static void put_model(Export *e, GString *text)
{
  const Model *m = e->model;
  const TorchtitanFlavor *flavor = export_llama_like(m) ? torchtitan_flavor_of(m) : NULL;

  if (!flavor && export_llama_like(m))
    export_lose(e, "model: %s: not among torchtitan's flavors, written as one to register", m->name);
  else if (!flavor)
    export_lose(e, "model: %s: torchtitan has no such blocks, written as a Llama flavor to register", m->name);
  if (m->tied_embeddings && e->layout.pipeline.shape.ranks > 1)
    export_lose(e, "model: tied embeddings: torchtitan cannot tie them across stages, written as it stands");
  g_string_append_printf(text, "[model]\nname = \"%s\"\nflavor = ", flavor ? flavor->name : "llama3");
  export_quoted(text, flavor ? flavor->flavor : m->name);
  g_string_append_c(text, '\n');
  put_converter(&e->layout.passes.formats, text);
  g_string_append_c(text, '\n');
}

static const char *const optimizer_types[OPTIMIZER_COUNT] = {[OPTIMIZER_ADAM] = "AdamW", [OPTIMIZER_ADAMW] = "AdamW"};

/* A pipeline splits its local batch; without one each is an accumulation step. */
static void put_training(Export *e, GString *text)
{
  const PassLayout *p = &e->layout.passes;
  const ScheduleShape *shape = &e->layout.pipeline.shape;

  g_string_append_printf(text, "[training]\nlocal_batch_size = %d\nglobal_batch_size = %d\nseq_len = %d\nsteps = %d\n",
                         shape->ranks > 1 ? p->micro_batch * shape->micro : p->micro_batch, e->layout.global_batch,
                         p->seq, EXPORT_STEPS);
  if (e->layout.states[0].offload.optimizer)
    g_string_append(text, "enable_cpu_offload = true\n");
  g_string_append_printf(text, "mixed_precision_param = \"%s\"\n\n", precision_names[p->formats.precision]);
  g_string_append_printf(text, "[optimizer]\nname = \"%s\"\nlr = " EXPORT_LR "\n\n",
                         export_optimizer(e, optimizer_types));
}

static gboolean is_later(const Export *e)
{
  return e->exporter != &exporter_torchtitan;
}

/* What it simulates otherwise than the version that reads TOML runs. */
static void lose_generation(Export *e)
{
  const Framework *f = e->layout.passes.framework;

  if (is_later(e))
    return;
  if (f->loss_chunks > 1 && g_str_equal(f->engine, "torchtitan"))
    export_lose(e, "framework: %s: takes the loss in %d chunks, and reads Python alone since February 2026: written for v0.2.2, "
                "which takes it at once", f->name, f->loss_chunks);
}

/* DDP stands alone only; all else is FSDP2, which shards gradients too. */
static void put_data(Export *e, GString *text)
{
  const Layout *l = &e->layout;
  const StateLayout *s = &l->states[0];
  gboolean replicate = s->zero == 0 && s->replicas == l->mesh.ranks && l->passes.cp == 1;
  int ranks = l->mesh.dense[AXIS_DATA].size, copies = replicate ? ranks : export_copies(e);

  g_string_append_printf(text, "data_parallel_replicate_degree = %d\ndata_parallel_shard_degree = %d\n", copies,
                         ranks / copies);
  if (!replicate)
    g_string_append_printf(text, "fsdp_reshard_after_forward = \"%s\"\n",
                           s->zero == 3 && !s->sharding.keeps_gathered ? "always" : "never");
}

/* A stage of each line: what torchtitan's models call their modules. */
static void put_stages(const Export *e, GString *text)
{
  const LayerSplit *split = &e->layout.pipeline.cut.split;
  int block = 0;

  g_string_append(text, "module_fqns_per_model_part = [\n");
  for (int stage = 0; stage < split->stages; stage++) {
    g_string_append(text, stage == 0 ? "  [\"tok_embeddings\"" : "  [");
    for (int i = 0; i < split->layers[stage]; i++, block++)
      g_string_append_printf(text, "%s\"layers.%d\"", stage > 0 && i == 0 ? "" : ", ", block);
    if (stage == split->stages - 1)
      g_string_append_printf(text, "%s\"norm\", \"output\"", split->layers[stage] ? ", " : "");
    g_string_append(text, "],\n");
  }
  g_string_append(text, "]\n");
}

/* Equal stages: its defaults have one layer fewer on the first and the last. */
static void put_equal_stages(const Export *e, const ScheduleName *schedule, GString *text)
{
  g_string_append_printf(text,
                         "pipeline_parallel_layers_per_stage = %d\npipeline_parallel_first_stage_less_layers = 0\n"
                         "pipeline_parallel_last_stage_less_layers = 0\n", export_chunk_blocks(e, schedule));
}

/* Of other software's plans. */
static void note_pipeline(Export *e)
{
  const StateLayout *s = &e->layout.states[0];

  if (s->zero >= 2 && !s->framework->stages_sum_once)
    export_note(e, "no_sync: %s: torchtitan's pipelines reduce gradients with the last micro-batch alone",
                export_truth(s->sharding.no_sync));
}

static void put_pipeline(Export *e, GString *text)
{
  const ScheduleName *schedule = export_schedule(e, schedule_names);
  int stages = e->layout.pipeline.shape.ranks;

  g_string_append_printf(text, "pipeline_parallel_degree = %d\n", stages);
  if (stages == 1)
    return;
  note_pipeline(e);
  g_string_append_printf(text, "pipeline_parallel_schedule = \"%s\"\n", schedule->theirs);
  if (e->layout.pipeline.cut.split.stages)
    put_stages(e, text);
  else
    put_equal_stages(e, schedule, text);
  g_string_append_printf(text, "pipeline_parallel_microbatch_size = %d\n", e->layout.passes.micro_batch);
}

static void put_dispatcher(Export *e, GString *text)
{
  const PassLayout *p = &e->layout.passes;

  if (p->ep > 1 && p->dispatch == DISPATCH_FLEX)
    g_string_append(text, "expert_parallel_comm_backend = \"deepep\"\n");
  else if (p->ep > 1 && p->dispatch == DISPATCH_HYBRID && is_later(e))
    g_string_append(text, "expert_parallel_comm_backend = \"hybridep\"\n");
  else if (p->ep > 1 && p->dispatch != DISPATCH_ALL_TO_ALL)
    export_lose(e, "moe_token_dispatcher_type: %s: torchtitan v0.2.2 has alltoall and flex, written as alltoall",
                expert_dispatch_names[p->dispatch]);
}

/* Rows that tensor-parallel ranks do not divide, which TOML's versions always do. */
static void put_rows(const Export *e, GString *text)
{
  const PassLayout *p = &e->layout.passes;

  if (p->tp > 1 && !p->sequence_parallel)
    g_string_append(text, "enable_sequence_parallel = false\n");
}

static void put_parallelism(Export *e, GString *text)
{
  const PassLayout *p = &e->layout.passes;

  export_say_overlaps(e, 0);
  g_string_append(text, "[parallelism]\n");
  put_data(e, text);
  g_string_append_printf(text, "tensor_parallel_degree = %d\n", p->tp);
  put_rows(e, text);
  if (p->comm_chunks)
    g_string_append(text, "enable_async_tensor_parallel = true\n");
  put_pipeline(e, text);
  g_string_append_printf(text, "context_parallel_degree = %d\nexpert_parallel_degree = %d\n", p->cp, p->ep);
  if (p->ep > 1 && p->etp != 1 && p->etp != p->tp)
    export_lose(e, "expert_tensor_parallel_size: %d: torchtitan has that of attention, %d, or 1, written as 1",
                p->etp, p->tp);
  if (p->ep > 1)
    g_string_append_printf(text, "expert_tensor_parallel_degree = %d\n", p->etp == p->tp ? p->tp : 1);
  put_dispatcher(e, text);
  g_string_append_c(text, '\n');
}

static void put_kernels(Export *e, GString *text)
{
  const PassLayout *p = &e->layout.passes;
  Recompute recompute = p->recompute.granularity;

  if (recompute == RECOMPUTE_SELECTIVE && !p->framework->selective_products)
    export_lose(e, "recompute_granularity: selective: torchtitan's own kind keeps attention and every other product");
  g_string_append_printf(text, "[activation_checkpoint]\nmode = \"%s\"\n", recompute_modes[recompute]);
  if (recompute == RECOMPUTE_SELECTIVE)
    g_string_append(text, "selective_ac_option = \"op\"\n");
  g_string_append_printf(text, "\n[compile]\nenable = %s\n", p->framework->fused_activation ? "true" : "false");
  put_recipe(e, text);
}

static gboolean render(Export *e, GString *text, GError **error)
{
  if (!export_decoders_only(e, error))
    return FALSE;
  export_note(e, "Steps and learning rate are placeholders; data and tokenizer are torchtitan's defaults.");
  lose_generation(e);
  put_model(e, text);
  put_training(e, text);
  put_parallelism(e, text);
  put_kernels(e, text);
  return TRUE;
}

static void launch(Export *e, const char *file, GString *line)
{
  export_torchrun(e, line, "-m torchtitan.train --job.config_file", file);
}

static const Exporter python = {
  .name = "torchtitan",
  .target = "torchtitan of 2026",
  .extension = "py",
  .comments = TRUE,
  .framework = "torchtitan-2026-09",
  .render = render,
  .launch = launch,
};

const Exporter exporter_torchtitan = {
  .name = "torchtitan",
  .target = "torchtitan v0.2.2",
  .extension = "toml",
  .later = &python,
  .comments = TRUE,
  .framework = "torchtitan",
  .render = render,
  .launch = launch,
};
