/* The model as MaxText is told it: by the name of one of its own, or by its sizes. */
#include "export/target.h"

#include "base/error.h"
#include "op/op.h"

/* Its own models (configs/models), which say all of these; those of experts have no others. */
static const struct {
  const char *name, *block;
  int hidden, blocks, heads, kv_heads, width, experts, experts_per_token, vocab;
  double theta, epsilon;
} models[] = {
  { "llama2-7b", "llama2", 4096, 32, 32, 32, 11008, 0, 0, 32000, 10000, 1e-5 },
  { "llama2-13b", "llama2", 5120, 40, 40, 40, 13824, 0, 0, 32000, 10000, 1e-5 },
  { "llama2-70b", "llama2", 8192, 80, 64, 8, 28672, 0, 0, 32000, 10000, 1e-5 },
  { "llama3-8b", "llama2", 4096, 32, 32, 8, 14336, 0, 0, 128256, 500000, 1e-5 },
  { "llama3-70b", "llama2", 8192, 80, 64, 8, 28672, 0, 0, 128256, 500000, 1e-5 },
  { "qwen3-8b", "qwen3", 4096, 36, 32, 8, 12288, 0, 0, 151936, 1e6, 1e-6 },
  { "qwen3-14b", "qwen3", 5120, 40, 40, 8, 17408, 0, 0, 151936, 1e6, 1e-6 },
  { "qwen3-32b", "qwen3", 5120, 64, 64, 8, 25600, 0, 0, 151936, 1e6, 1e-6 },
  { "mixtral-8x7b", "mixtral", 4096, 32, 32, 8, 14336, 8, 2, 32000, 1e6, 1e-5 },
};

/* The block without biases but of queries, keys and values; "gpt3" has all. */
static const char *decoder_block(const Model *m)
{
  const LayerSpec *block = model_layer(m, 1);
  const Attention *a = &block->attention;
  const FeedForward *f = &block->ffn;
  gboolean plain = !a->qk_norm && !a->qkv_bias, bare = !a->out_bias && !f->bias && !m->norm_bias;

  if (m->norm == NORM_LAYERNORM && m->norm_bias && m->positions == POSITIONS_LEARNED && f->kind == MLP_GELU &&
      block->norms == 2 && a->qkv_bias && a->out_bias && f->bias && a->kv_heads == a->heads && !f->experts)
    return "gpt3";
  if (!export_llama_like(m) || !bare)
    return NULL;
  if (!f->experts)
    return plain ? "llama2" : a->qk_norm && !a->qkv_bias ? "qwen3" : !a->qk_norm ? "qwen2" : NULL;
  return a->qkv_bias ? NULL : a->qk_norm ? "qwen3_moe" : "mixtral";
}

/* What of a block its decoders have not; NULL if there is nothing. */
static const char *stranger_of(const Model *m)
{
  const Attention *a = &model_layer(m, 1)->attention;
  const FeedForward *f = &model_layer(m, 1)->ffn;
  const struct { gboolean has; const char *key; } keys[] = {
    { a->kv_lora_rank > 0, "kv_lora_rank" }, { m->n_specs != 3, "layers that differ" }, { a->window > 0, "window" },
    { a->extra_params > 0, "attention sinks" }, { f->shared_width > 0, "shared experts" },
    { f->groups > 0 || f->router_correction || f->router_bias, "a router's groups and biases" },
    { f->clamped, "clamped experts" }, { m->rotary_share < 1, "rotary_share" }, { m->head_bias, "head_bias" },
    { m->post_norm, "post_norm" }, { m->embedding_norm, "embedding_norm" }, { m->embed_dim != m->hidden, "embed_dim" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    if (keys[i].has)
      return keys[i].key;
  return decoder_block(m) ? NULL : "its blocks";
}

/* Llama 3.1's, which its code has as constants (layers/embeddings.py, _apply_scaling_factor). */
static gboolean scales_as_llama(const RopeScaling *s)
{
  return export_rope_is_llama(s) && s->factor == 8;
}

/* Its model of these sizes, NULL if it has none. */
static const char *model_name(const Export *e)
{
  const Model *m = e->model;
  const Attention *a = &model_layer(m, 1)->attention;
  const FeedForward *f = &model_layer(m, 1)->ffn;

  for (gsize i = 0; i < G_N_ELEMENTS(models); i++)
    if (g_str_equal(models[i].block, decoder_block(m)) && models[i].hidden == m->hidden &&
        models[i].blocks == m->blocks && models[i].heads == a->heads && models[i].kv_heads == a->kv_heads &&
        a->head_dim == 128 && models[i].width == f->width && models[i].experts == f->experts &&
        models[i].experts_per_token == f->experts_per_token && !m->tied_embeddings &&
        models[i].vocab == op_vocab(m, &e->layout.passes) &&
        models[i].theta == m->rope_theta && models[i].epsilon == m->norm_epsilon && !m->dropout)
      return models[i].name;
  return NULL;
}

static void put_constants(Export *e, GString *text)
{
  const Model *m = e->model;

  if (m->norm_epsilon > 0)
    g_string_append_printf(text, "normalization_layer_epsilon: %g\n", m->norm_epsilon);
  else
    export_note(e, "model: norm_epsilon: not in its file, so MaxText takes 1e-05");
  if (m->rope_theta > 0)
    g_string_append_printf(text, "rope_max_timescale: %.0f\n", m->rope_theta);
  else if (m->positions == POSITIONS_ROPE)
    export_note(e, "model: rope_theta: not in its file, so MaxText takes 10000");
  if (m->positions == POSITIONS_LEARNED)
    g_string_append_printf(text, "trainable_position_size: %d\n", m->position_rows);
  g_string_append_printf(text, "enable_dropout: %s\ndropout_rate: %s\n", export_truth(m->dropout),
                         m->dropout ? "0.1" : "0.0");
}

static void put_sizes(Export *e, GString *text)
{
  const Model *m = e->model;
  const Attention *a = &model_layer(m, 1)->attention;
  const FeedForward *f = &model_layer(m, 1)->ffn;
  int vocab = op_vocab(m, &e->layout.passes);

  g_string_append_printf(text, "decoder_block: %s\nbase_emb_dim: %d\nbase_num_decoder_layers: %d\n", decoder_block(m),
                         m->hidden, m->blocks);
  g_string_append_printf(text, "base_num_query_heads: %d\nbase_num_kv_heads: %d\nhead_dim: %d\nbase_mlp_dim: %d\n",
                         a->heads, a->kv_heads, a->head_dim, f->width);
  if (f->experts)
    g_string_append_printf(text, "base_moe_mlp_dim: %d\nnum_experts: %d\nnum_experts_per_tok: %d\n", f->width,
                           f->experts, f->experts_per_token);
  if (a->qk_norm && f->experts)
    g_string_append(text, "norm_topk_prob: true\n");
  g_string_append_printf(text, "mlp_activations: %s\nattention_bias: %s\nuse_qk_norm: %s\n",
                         f->kind == MLP_GELU ? "[gelu]" : "[silu, linear]", export_truth(a->qkv_bias),
                         export_truth(a->qk_norm));
  g_string_append_printf(text, "vocab_size: %d\nlogits_via_embedding: %s\nnormalize_embedding_logits: false\n",
                         vocab, export_truth(m->tied_embeddings));
  if (vocab != m->vocab)
    export_note(e, "model: vocab: %d: padded to %d, which tensor-parallel ranks divide", m->vocab, vocab);
  put_constants(e, text);
}

void maxtext_put_model(Export *e, GString *text)
{
  const Model *m = e->model;
  const char *name = model_name(e);

  if (m->rope_scaling.kind && !scales_as_llama(&m->rope_scaling))
    export_lose(e, "model: rope_scaling: %s: expected that of Llama 3.1, left out", m->rope_scaling.kind);
  g_string_append_printf(text, "model_name: %s\n", name ? name : "default");
  if (!name)
    put_sizes(e, text);
  if (scales_as_llama(&m->rope_scaling))
    g_string_append(text, "rope_type: llama3.1\n");
  if (export_block(m, TRUE)) /* kernels of XLA's that drop no token; Pallas's are TPUs' */
    g_string_append_printf(text, "sparse_matmul: true\nmegablox: false\ncapacity_factor: -1.0\n"
                                 "load_balance_loss_weight: %g\n", m->balance_loss);
}

gboolean maxtext_trains(const Export *e, GError **error)
{
  const char *stranger;

  if (!export_decoders_only(e, error))
    return FALSE;
  stranger = stranger_of(e->model);
  if (stranger)
    infeasible_error(error, "maxtext: model %s: %s: expected blocks of Llama, Qwen 2 or 3, Mixtral or GPT-3",
                     e->model->name, stranger);
  return !stranger;
}
