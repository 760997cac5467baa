/* DeepSpeed: its JSON configuration. The model and the grid of stages stand in
 * the training script, so the launch line passes it the degrees, lengths, and that blocks are made again. */
#include "export/target.h"

#include "op/op.h"

/* Keys of the section that turns a precision on; the same words name formats. */
static const char *const precision_names[DTYPE_COUNT] = {
  [DTYPE_FP32] = "fp32", [DTYPE_FP16] = "fp16", [DTYPE_BF16] = "bf16",
};

static const char *format_of(const StateLayout *s, double bytes)
{
  return precision_names[bytes >= 4 ? DTYPE_FP32 : s->formats.precision];
}

/* Its switch is of ZeRO, and is turned off with a pipeline (overlap_by_zero of its framework). */
static gboolean overlaps(const Layout *l)
{
  return l->states[0].zero > 0 && l->states[0].overlap_gradients && l->pipeline.shape.ranks == 1;
}

/* What the section of the precision cannot say, and runs beside computation whatever a plan says. */
static void lose_rest(Export *e)
{
  const Layout *l = &e->layout;
  const StateLayout *s = &l->states[0];
  gboolean accumulates_wide = s->formats.precision != DTYPE_FP32 && s->gradient_bytes >= 4;

  export_say_overlaps(e, OVERLAP_GRADIENTS | (l->pipeline.shape.ranks == 1 ? OVERLAP_TENSOR : 0) |
                           (s->zero == 3 ? OVERLAP_PARAMETERS : 0));
  if (l->overlaps & l->overlaps_open & OVERLAP_GRADIENTS && !overlaps(l))
    export_lose(e, "overlap: gradients: true: DeepSpeed overlaps them under ZeRO and without a pipeline, written as "
                "false");
  if (s->zero == 0 && accumulates_wide)
    export_lose(e, "framework: %s: DeepSpeed accumulates gradients in fp32 under ZeRO only, written as %s",
                s->framework->name, precision_names[s->formats.precision]);
}

/* With tensor parallelism of its own, DeepSpeed multiplies by all ranks, so the
 * batch is given by the two numbers that do not depend on that. */
static void put_batch(const Layout *l, JsonWriter *w)
{
  if (l->pipeline.shape.ranks > 1 || l->passes.tp == 1)
    json_put_int(w, "train_batch_size", l->global_batch);
  json_put_int(w, "train_micro_batch_size_per_gpu", l->passes.micro_batch);
  json_put_int(w, "gradient_accumulation_steps", l->pipeline.shape.micro);
  json_put_int(w, "steps_per_print", 1);
  json_put_real(w, "gradient_clipping", 1.0);
}

static void put_formats(const StateLayout *s, JsonWriter *w)
{
  if (s->formats.precision != DTYPE_FP32) {
    json_open(w, precision_names[s->formats.precision], '{');
    json_put_bool(w, "enabled", TRUE);
    if (s->optimizer.formats[STATE_MAIN_PARAMS] == FORMAT_BF16)
      json_put_bool(w, "bf16_master_weights_and_grads", TRUE);
    if (s->optimizer.formats[STATE_EXP_AVG] == FORMAT_BF16)
      json_put_bool(w, "bf16_optimizer_states", TRUE);
    json_close(w, '}');
  }
  json_open(w, "data_types", '{');
  json_put_string(w, "grad_accum_dtype", format_of(s, s->zero > 0 ? s->gradient_bytes : 2));
  json_close(w, '}');
  json_put_string(w, "communication_data_type", format_of(s, s->reduce_bytes));
}

static const char *const optimizer_types[OPTIMIZER_COUNT] = {
  [OPTIMIZER_ADAM] = "AdamW", [OPTIMIZER_ADAMW] = "AdamW", [OPTIMIZER_SGD] = "SGD", [OPTIMIZER_MUON] = "Muon",
};

static void put_optimizer(Export *e, JsonWriter *w)
{
  const Optimizer *o = &e->layout.states[0].optimizer;
  const char *type = export_optimizer(e, optimizer_types);

  json_open(w, "optimizer", '{');
  json_put_string(w, "type", type);
  json_open(w, "params", '{');
  json_put_real(w, "lr", g_ascii_strtod(EXPORT_LR, NULL));
  if (o->name == OPTIMIZER_SGD) {
    json_put_real(w, "momentum", o->momentum);
  } else {
    json_open(w, "betas", '[');
    json_put_real(w, NULL, 0.9);
    json_put_real(w, NULL, 0.95);
    json_close(w, ']');
    json_put_real(w, "eps", 1e-8);
  }
  json_put_real(w, "weight_decay", 0.1);
  json_close(w, '}');
  json_close(w, '}');
  if (o->name == OPTIMIZER_SGD && e->layout.states[0].zero > 0) /* none of is_zero_supported_optimizer() */
    json_put_bool(w, "zero_allow_untested_optimizer", TRUE);
}

static void put_store(JsonWriter *w, const char *key, Store store)
{
  if (!store)
    return;
  json_open(w, key, '{');
  json_put_string(w, "device", store_names[store]);
  json_put_bool(w, "pin_memory", TRUE);
  if (store == STORE_NVME)
    json_put_string(w, "nvme_path", "/local_nvme");
  json_close(w, '}');
}

static void put_size(JsonWriter *w, const char *key, double params)
{
  if (params > 0)
    json_put_int(w, key, (gint64)params);
}

/* Gathers of stage 3, and ZeRO++. */
static void put_stage3(const StateLayout *s, JsonWriter *w)
{
  const ShardingOptions *o = &s->sharding;

  json_put_int(w, "stage3_prefetch_bucket_size", o->prefetch >= 0 ? (gint64)o->prefetch
                                                 : s->overlap_parameters ? 50000000 : 0);
  put_size(w, "stage3_max_live_parameters", o->live);
  put_size(w, "stage3_param_persistence_threshold", o->persistence);
  if (s->copies > 1)
    json_put_int(w, "mics_shard_size", s->shards);
  put_size(w, "zero_hpz_partition_size", o->secondary);
  if (o->quantized_weights)
    json_put_bool(w, "zero_quantized_weights", TRUE);
  if (o->quantized_gradients)
    json_put_bool(w, "zero_quantized_gradients", TRUE);
  put_store(w, "offload_param", s->offload.parameters);
}

/* Muon's whole matrices need sums on all ranks under stage 3, which refuses it else (runtime/zero/stage3.py). */
static gboolean scatters(const StateLayout *s)
{
  return s->zero != 3 || s->optimizer.name != OPTIMIZER_MUON;
}

static void put_zero(const Layout *l, JsonWriter *w)
{
  const StateLayout *s = &l->states[0];

  json_open(w, "zero_optimization", '{');
  json_put_int(w, "stage", s->zero);
  if (s->zero > 0) {
    json_put_bool(w, "overlap_comm", overlaps(l));
    json_put_bool(w, "contiguous_gradients", TRUE);
    json_put_bool(w, "reduce_scatter", scatters(s));
    json_put_int(w, "reduce_bucket_size", (gint64)op_bucket_params(s));
    put_store(w, "offload_optimizer", s->offload.optimizer);
    put_size(w, "sub_group_size", s->offload.sub_group);
  }
  if (s->zero == 3)
    put_stage3(s, w);
  json_close(w, '}');
}

/* Without a pipeline the model's code makes blocks again, one by one, when the script is told to (launch). */
static gboolean asks_model(const Layout *l)
{
  return l->passes.recompute.granularity == RECOMPUTE_FULL && l->pipeline.shape.ranks == 1;
}

static void put_checkpoints(const Export *e, JsonWriter *w)
{
  const PassLayout *p = &e->layout.passes;
  Store store = e->layout.states[0].offload.activations;
  gboolean asks = asks_model(&e->layout);

  if (!p->partition_activations && !store && !asks)
    return;
  json_open(w, "activation_checkpointing", '{');
  json_put_bool(w, "partition_activations", p->partition_activations);
  json_put_bool(w, "cpu_checkpointing", store != STORE_DEVICE);
  if (asks)
    json_put_int(w, "number_checkpoints", e->model->blocks);
  json_close(w, '}');
}

static void put_ints(JsonWriter *w, const char *key, const int *values, int n)
{
  json_open_line(w, key, '[');
  for (int i = 0; i < n; i++)
    json_put_int(w, NULL, values[i]);
  json_close_line(w, ']');
}

/* Modes of the configuration (deepspeed/runtime/config.py); the others are classes that the model's code makes. */
enum {
  AS_FIXED = 1 << SPARSE_FIXED, AS_VARIABLE = 1 << SPARSE_VARIABLE, AS_BIGBIRD = 1 << SPARSE_BIGBIRD,
  AS_BSLONGFORMER = 1 << SPARSE_BSLONGFORMER,
};

static void put_mode(const SparseAttention *a, guint mode, JsonWriter *w)
{
  const struct {
    const char *key;
    int value;
    guint modes;
  } counts[] = {
    { "num_random_blocks", a->random, AS_VARIABLE | AS_BIGBIRD },
    { "num_sliding_window_blocks", a->sliding, AS_BIGBIRD | AS_BSLONGFORMER },
    { "num_local_blocks", a->local, AS_FIXED },
    { "num_global_blocks", a->global, AS_FIXED | AS_BIGBIRD },
    { "num_different_global_patterns", a->patterns, AS_FIXED },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(counts); i++)
    if (counts[i].modes & mode)
      json_put_int(w, counts[i].key, counts[i].value);
  if (mode == AS_VARIABLE)
    put_ints(w, "local_window_blocks", a->windows, a->n_windows);
  if (mode & (AS_VARIABLE | AS_BSLONGFORMER)) {
    put_ints(w, "global_block_indices", a->first, a->n_ranges);
    put_ints(w, "global_block_end_indices", a->end, a->n_ranges);
  }
}

static void put_sparse(Export *e, JsonWriter *w)
{
  const SparseAttention *a = e->model->sparse;

  if (!a || a->mode == SPARSE_DENSE)
    return;
  guint mode = 1u << a->mode;
  if (!(mode & (AS_FIXED | AS_VARIABLE | AS_BIGBIRD | AS_BSLONGFORMER))) {
    export_lose(e, "sparse_attention.mode: %s: no mode of DeepSpeed's configuration, left to the model's code",
                sparse_mode_names[a->mode]);
    return;
  }
  json_open(w, "sparse_attention", '{');
  json_put_string(w, "mode", sparse_mode_names[a->mode]);
  json_put_int(w, "block", a->block);
  json_put_bool(w, "different_layout_per_head", a->patterns > 1);
  json_put_string(w, "attention", a->unidirectional ? "unidirectional" : "bidirectional");
  if (mode & (AS_FIXED | AS_VARIABLE))
    json_put_bool(w, "horizontal_global_attention", a->horizontal);
  put_mode(a, mode, w);
  json_close(w, '}');
}

static void put_pipeline(const PassLayout *p, JsonWriter *w)
{
  const RecomputeLayout *r = &p->recompute;

  json_open(w, "pipeline", '{');
  json_put_int(w, "activation_checkpoint_interval", r->granularity == RECOMPUTE_FULL ? MAX(1, r->scope.layers) : 0);
  json_put_bool(w, "pipe_partitioned", p->framework->scatter_gather);
  json_put_bool(w, "grad_partitioned", p->framework->scatter_gather);
  json_close(w, '}');
}

static void put_tensor(const PassLayout *p, JsonWriter *w)
{
  json_open(w, "tensor_parallel", '{');
  json_put_int(w, "autotp_size", p->tp);
  if (p->overlap_tensor)
    json_put_bool(w, "tp_overlap_comm", TRUE);
  json_close(w, '}');
}

/* Ulysses' mesh, and AutoEP. */
static void put_parallel(const Layout *l, JsonWriter *w)
{
  const PassLayout *p = &l->passes;

  if (p->cp > 1) {
    json_put_int(w, "sequence_parallel_size", p->cp);
    json_put_int(w, "data_parallel_size", l->mesh.dense[AXIS_DATA].size);
  }
  if (p->ep > 1) {
    json_open(w, "expert_parallel", '{');
    json_put_bool(w, "enabled", TRUE);
    json_put_int(w, "autoep_size", p->ep);
    json_close(w, '}');
  }
  if (l->pipeline.shape.ranks > 1)
    put_pipeline(p, w);
  else if (p->tp > 1)
    put_tensor(p, w);
}

static gboolean render(Export *e, GString *text, GError **error)
{
  JsonWriter w;

  (void)error;
  lose_rest(e);
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  put_batch(&e->layout, &w);
  put_formats(&e->layout.states[0], &w);
  put_optimizer(e, &w);
  put_zero(&e->layout, &w);
  put_checkpoints(e, &w);
  put_parallel(&e->layout, &w);
  put_sparse(e, &w);
  json_put_bool(&w, "wall_clock_breakdown", FALSE);
  json_close(&w, '}');
  return TRUE;
}

static void launch(Export *e, const char *file, GString *line)
{
  const PassLayout *p = &e->layout.passes;
  int stages = e->layout.pipeline.shape.ranks;

  export_words(line, "deepspeed");
  if (e->nodes > 1)
    export_words(line, "--hostfile hostfile --num_nodes %d", e->nodes);
  export_words(line, "--num_gpus %d train.py --deepspeed --deepspeed_config ", e->node_gpus);
  export_shell(line, file);
  if (stages > 1)
    export_words(line, "--pipe-parallel-size %d --model-parallel-size %d", stages, p->tp);
  if (asks_model(&e->layout))
    export_words(line, "--gradient-checkpointing");
  export_words(line, "--seq-length %d", p->seq);
  if (p->decoder_seq != p->seq)
    export_words(line, "--decoder-seq-length %d", p->decoder_seq);
}

const Exporter exporter_deepspeed = {
  .name = "deepspeed",
  .target = "DeepSpeed 0.19.6",
  .extension = "json",
  .framework = "deepspeed",
  .render = render,
  .launch = launch,
};
