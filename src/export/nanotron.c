/* nanotron: its YAML, in which no key may be missing or unknown. */
#include "export/target.h"

#include "base/error.h"
#include "op/op.h"

static const ScheduleName schedule_names[] = {{"1f1b", "1f1b", FALSE}, {"gpipe", "afab", FALSE}, {0}};

static const char *const precision_names[DTYPE_COUNT] = {
  [DTYPE_FP32] = "float32", [DTYPE_FP16] = "float16", [DTYPE_BF16] = "bfloat16",
};

static gboolean trains(const Model *m)
{
  const LayerSpec *block = model_layer(m, 1);
  const Attention *a = &block->attention;

  return export_llama_like(m) && !export_block(m, TRUE) && !a->qk_norm && !a->qkv_bias && !a->out_bias &&
         !block->ffn.bias && !a->kv_lora_rank && (gint64)a->heads * a->head_dim == m->hidden;
}

/* Sequences are divided by its Qwen2 alone, whose blocks without biases are Llama's. */
static void put_family(const Export *e, GString *text)
{
  g_string_append(text, "model:\n  init_method:\n    std: 0.02\n  model_config:\n");
  if (e->layout.passes.cp > 1)
    g_string_append(text, "    is_qwen2_config: true\n    attention_bias: false\n"
                          "    _attn_implementation: llama3_ring_attention\n    ring_attn_heads_k_stride: 1\n");
  else
    g_string_append(text, "    is_llama_config: true\n");
}

static void put_model(Export *e, GString *text)
{
  const Model *m = e->model;
  const LayerSpec *block = model_layer(m, 1);

  put_family(e, text);
  g_string_append_printf(text, "    hidden_size: %d\n    intermediate_size: %d\n    num_hidden_layers: %d\n", m->hidden,
                         block->ffn.width, m->blocks);
  g_string_append_printf(text, "    num_attention_heads: %d\n    num_key_value_heads: %d\n", block->attention.heads,
                         block->attention.kv_heads);
  g_string_append_printf(text, "    max_position_embeddings: %d\n", e->layout.passes.seq);
  if (m->rope_scaling.kind)
    export_lose(e, "model: rope_scaling: %s: left out", m->rope_scaling.kind);
  if (m->rope_theta > 0)
    g_string_append_printf(text, "    rope_theta: %.1f\n", m->rope_theta);
  if (m->norm_epsilon > 0)
    g_string_append_printf(text, "    rms_norm_eps: %.1e\n", m->norm_epsilon);
  g_string_append_printf(text, "    vocab_size: %d\n    tie_word_embeddings: %s\n", m->vocab,
                         export_truth(m->tied_embeddings));
  g_string_append_printf(text, "  dtype: %s\n  make_vocab_size_divisible_by: %d\n  ddp_bucket_cap_mb: 25\n",
                         precision_names[e->layout.passes.formats.precision],
                         e->layout.passes.framework->vocab_multiple);
}

static void put_optimizer(Export *e, GString *text)
{
  const StateLayout *s = &e->layout.states[0];
  static const char *const types[OPTIMIZER_COUNT] = {[OPTIMIZER_ADAM] = "adamW", [OPTIMIZER_ADAMW] = "adamW",
                                                     [OPTIMIZER_SGD] = "sgd"};
  const char *type = export_optimizer(e, types);

  g_string_append_printf(text, "optimizer:\n  zero_stage: %d\n", s->zero);
  g_string_append(text, "  weight_decay: 0.1\n  clip_grad: 1.0\n");
  g_string_append_printf(text, "  accumulate_grad_in_fp32: %s\n", export_truth(s->gradient_bytes >= 4));
  g_string_append_printf(text, "  learning_rate_scheduler:\n    learning_rate: " EXPORT_LR "\n    lr_warmup_steps: 2\n"
                        "    lr_warmup_style: linear\n    lr_decay_style: cosine\n    min_decay_lr: " EXPORT_MIN_LR "\n"
                        "  optimizer_factory:\n    name: %s\n", type);
  if (s->optimizer.name != OPTIMIZER_SGD)
    g_string_append(text, "    adam_beta1: 0.9\n    adam_beta2: 0.95\n"
                          "    adam_eps: 1.0e-8\n    torch_adam_is_fused: true\n");
}

static void put_parallelism(Export *e, GString *text)
{
  const PassLayout *p = &e->layout.passes;
  const ScheduleShape *shape = &e->layout.pipeline.shape;
  const ScheduleName *schedule = export_schedule(e, schedule_names);

  g_string_append_printf(text, "parallelism:\n  tp: %d\n  pp: %d\n  dp: %d\n  pp_engine: %s\n", p->tp, shape->ranks,
                         e->layout.mesh.dense[AXIS_DATA].size, schedule->theirs);
  g_string_append_printf(text, "  tp_mode: %s\n  tp_linear_async_communication: %s\n",
                         p->sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE",
                         export_truth(p->sequence_parallel && p->overlap_tensor));
  export_say_overlaps(e, p->sequence_parallel ? OVERLAP_TENSOR : 0);
  g_string_append_printf(text, "  recompute_layer: %s\n", export_truth(p->recompute.granularity == RECOMPUTE_FULL));
  g_string_append_printf(text, "  expert_parallel_size: %d\n  context_parallel_size: %d\n", p->ep, p->cp);
  g_string_append_printf(text, "tokens:\n  sequence_length: %d\n  train_steps: %d\n  micro_batch_size: %d\n"
                               "  batch_accumulation_per_replica: %d\n",
                         p->seq, EXPORT_STEPS, p->micro_batch, shape->micro);
}

static gboolean render(Export *e, GString *text, GError **error)
{
  if (!export_decoders_only(e, error))
    return FALSE;
  if (!trains(e->model))
    return infeasible_error(error, "nanotron: model %s: expected a model of Llama's shape, dense and without biases",
                            e->model->name);
  export_note(e, "Data, tokenizer, steps, learning rate and initialization are placeholders.");
  g_string_append(text, "checkpoints:\n  checkpoint_interval: 1000\n  checkpoints_path: checkpoints\n"
                        "general:\n  project: tdp\n  run: ");
  export_quoted(text, e->model->name);
  g_string_append(text, "\n  seed: 42\n");
  put_model(e, text);
  put_optimizer(e, text);
  put_parallelism(e, text);
  g_string_append(text, "tokenizer:\n  tokenizer_name_or_path: gpt2\n"
                        "data_stages:\n  - name: training\n    start_training_step: 1\n    data:\n      dataset: null\n"
                        "      seed: 42\n      num_loading_workers: 1\n"
                        "logging:\n  log_level: info\n  log_level_replica: info\n  iteration_step_info_interval: 1\n");
  return TRUE;
}

static void launch(Export *e, const char *file, GString *line)
{
  if (e->layout.passes.tp > 1)
    export_words(line, "CUDA_DEVICE_MAX_CONNECTIONS=1");
  export_torchrun(e, line, "run_train.py --config-file", file);
}

const Exporter exporter_nanotron = {
  .name = "nanotron",
  .target = "nanotron of 2026-08",
  .extension = "yaml",
  .comments = TRUE,
  .framework = "nanotron-2025",
  .render = render,
  .launch = launch,
};
