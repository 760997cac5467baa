#include "export/target.h"

#include "base/error.h"

#include <math.h>

static const char *const position_names[] = {
  [POSITIONS_NONE] = "none", [POSITIONS_LEARNED] = NULL, [POSITIONS_ROPE] = "rope",
  [POSITIONS_ALIBI] = "none", [POSITIONS_RELATIVE] = "relative",
};

static const char *const mlp_flags[] = {[MLP_GELU] = NULL, [MLP_SWIGLU] = "--swiglu", [MLP_RELU2] = "--squared-relu",
                                       [MLP_XIELU] = NULL};

/* ---- what differs from block to block ---- */

static gboolean is_sparse(const LayerSpec *spec)
{
  return spec->ffn.experts > 0;
}

static gboolean is_windowed(const LayerSpec *spec)
{
  return spec->attention.window > 0;
}

static gboolean is_linear(const LayerSpec *spec)
{
  return spec->linear.heads > 0;
}

static int period_of(const guint8 *bits, int n)
{
  for (int period = 1; period < n; period++) {
    int i = period;
    if (n % period != 0)
      continue;
    while (i < n && bits[i] == bits[i - period])
      i++;
    if (i == n)
      return period;
  }
  return n;
}

/* A list of 0 and 1, one for each block, as the Python expression that the
 * flags take; NULL if all blocks have it. */
static char *pattern(const Model *m, gboolean (*has)(const LayerSpec *))
{
  g_autofree guint8 *bits = g_new(guint8, m->blocks);
  gboolean all = TRUE;

  for (int i = 0; i < m->blocks; i++) {
    bits[i] = has(model_layer(m, i + 1));
    all = all && bits[i];
  }
  if (all)
    return NULL;
  int period = period_of(bits, m->blocks);
  GString *text = g_string_new("(");
  for (int first = 0, end; first < period; first = end) {
    for (end = first + 1; end < period && bits[end] == bits[first];)
      end++;
    g_string_append_printf(text, "%s[%d]*%d", first ? "+" : "", bits[first], end - first);
  }
  g_string_append_printf(text, ")*%d", m->blocks / period);
  return g_string_free(text, FALSE);
}

/* The narrowest window below the sequence, 0 if none limits it. */
static int window_of(const Model *m, int seq)
{
  int window = 0;

  for (int i = 0; i < m->n_specs; i++) {
    int w = m->specs[i].attention.window;
    if (w > 0 && w < seq && (!window || w < window))
      window = w;
  }
  return window;
}

/* ---- flags ---- */

/* Gates that Megatron-LM has: a value for each of the output. */
static gboolean gates_output(const Attention *a)
{
  return a->gated && !a->gate_of_head && !a->gate_bias && !a->kv_lora_rank;
}

static void add_attention(const Export *e, const Attention *a, GString *flags)
{
  const Model *m = e->model;
  int window = megatron_hybrid(m) ? 0 : window_of(m, e->layout.passes.seq);
  g_autofree char *windowed = pattern(m, is_windowed);

  if (a->kv_lora_rank) {
    export_words(flags, "--multi-latent-attention --kv-lora-rank %d", a->kv_lora_rank);
    if (a->q_lora_rank)
      export_words(flags, "--q-lora-rank %d", a->q_lora_rank);
    export_words(flags, "--qk-head-dim %d --qk-pos-emb-head-dim %d --v-head-dim %d", a->head_dim - a->rope_head_dim,
                 a->rope_head_dim, a->v_head_dim);
    if (a->index_heads)
      export_words(flags, "--experimental-attention-variant dsa --dsa-indexer-n-heads %d --dsa-indexer-head-dim %d "
                   "--dsa-indexer-topk %d", a->index_heads, a->index_dim, a->index_top);
  } else if (a->kv_heads != a->heads) {
    export_words(flags, "--group-query-attention --num-query-groups %d", a->kv_heads);
  }
  if (!a->kv_lora_rank && (gint64)a->heads * a->head_dim != m->hidden)
    export_words(flags, "--kv-channels %d", a->head_dim);
  if (a->qk_norm || a->kv_lora_rank) /* of what is compressed, there */
    export_words(flags, "--qk-layernorm");
  if (a->extra_params && m->positions != POSITIONS_RELATIVE)
    export_words(flags, "--softmax-type learnable");
  if (gates_output(a))
    export_words(flags, "--attention-output-gate");
  if (window)
    export_words(flags, "--window-size %d,0", window - 1);
  if (window && windowed)
    export_words(flags, "--window-attn-skip-freq '%s'", windowed);
}

static void add_feed_forward(const Model *m, GString *flags)
{
  const LayerSpec *dense = export_block(m, FALSE), *sparse = export_block(m, TRUE);
  const FeedForward *f = dense ? &dense->ffn : &sparse->ffn;

  if (f->clamped) /* as GPT-OSS's are: by quick GELU, the linear half plus one, 7 at most */
    export_words(flags, "--quick-geglu --glu-linear-offset 1 --activation-func-clamp-value 7");
  else if (mlp_flags[f->kind])
    export_words(flags, "%s", mlp_flags[f->kind]);
  if (f->kind == MLP_SWIGLU || f->width != (gint64)4 * m->hidden)
    export_words(flags, "--ffn-hidden-size %d", f->width);
}

static void add_experts(const Export *e, GString *flags)
{
  const Model *m = e->model;
  const LayerSpec *sparse = export_block(m, TRUE);
  g_autofree char *layers = megatron_hybrid(m) ? NULL : pattern(m, is_sparse);

  if (!sparse)
    return;
  const FeedForward *f = &sparse->ffn;
  export_words(flags, "--num-experts %d --moe-router-topk %d --moe-ffn-hidden-size %d", f->experts,
               f->experts_per_token, f->width);
  if (e->layout.passes.formats.precision == DTYPE_BF16)
    export_words(flags, "--moe-grouped-gemm");
  if (e->layout.passes.formats.precision == DTYPE_BF16 && f->bias) /* TEGroupedMLP refuses both */
    export_words(flags, "--no-bias-dropout-fusion");
  if (e->layout.passes.framework->fused_permutation)
    export_words(flags, "--moe-permute-fusion");
  if (layers)
    export_words(flags, "--moe-layer-freq '%s'", layers);
  if (f->groups > 0)
    export_words(flags, "--moe-router-num-groups %d --moe-router-group-topk %d", f->groups, f->groups_per_token);
  if (f->latent)
    export_words(flags, "--moe-latent-size %d", f->latent);
  if (f->shared_width)
    export_words(flags, "--moe-shared-expert-intermediate-size %d", f->shared_width);
  if (f->shared_gate)
    export_words(flags, "--moe-shared-expert-gate");
  if (f->router_correction)
    export_words(flags, "--moe-router-score-function sigmoid --moe-router-enable-expert-bias");
  g_string_append_c(flags, '\n');
}

static void add_biases(const LayerSpec *block, GString *flags)
{
  if (block->attention.out_bias || block->ffn.bias)
    return;
  export_words(flags, "--disable-bias-linear");
  if (block->attention.qkv_bias)
    export_words(flags, "--add-qkv-bias");
}

typedef struct {
  gboolean lost;
  const char *what, *instead;
} Loss;

static void lose_parts(Export *e, const Loss *parts, gsize n)
{
  for (gsize i = 0; i < n; i++)
    if (parts[i].lost)
      export_lose(e, "model: %s: not in %s, %s", parts[i].what, e->exporter->target, parts[i].instead);
}

/* Whether some layer has more norms than before its attention and its feed-forward, which are one after the other. */
static gboolean has_norms_behind(const Model *m)
{
  gboolean behind = FALSE;

  for (int i = 1; i <= m->blocks; i++) {
    const LayerSpec *spec = model_layer(m, i);
    int usual = 1 + (spec->cross.heads > 0) + (spec->ffn.width > 0);
    behind |= spec->attention.heads > 0 && !spec->parallel && !spec->encoder && spec->norms != usual;
  }
  return behind;
}

static gboolean encoder_has_windows(const Model *m)
{
  gboolean windows = FALSE;

  for (int i = 1; i <= m->encoder_blocks; i++)
    windows |= model_layer(m, i)->attention.window > 0;
  return windows;
}

static void lose_biases(Export *e, const LayerSpec *block)
{
  const LayerSpec *sparse = export_block(e->model, TRUE);
  const Attention *a = &block->attention;
  gboolean all = a->qkv_bias && a->out_bias && block->ffn.bias, biases = a->out_bias || block->ffn.bias;
  const Loss parts[] = {
    {!all && biases, "biases in some projections", "written with biases in all"},
    {sparse && sparse->ffn.router_bias && !biases, "bias of the router alone", "left out"},
    {sparse && !sparse->ffn.router_bias && biases, "no bias of the router beside others", "written with one"},
  };

  lose_parts(e, parts, G_N_ELEMENTS(parts));
}

static void lose_model(Export *e, const LayerSpec *block)
{
  const Model *m = e->model;
  const LayerSpec *head = model_layer(m, m->n_layers - 1);
  const Loss parts[] = {
    {block->parallel, "attention and feed-forward side by side", "written one after the other"},
    {has_norms_behind(m), "norms behind attention and feed-forward", "left out"},
    {encoder_has_windows(m), "windows of the encoder", "left out"},
    {block->attention.gated && !gates_output(&block->attention), "a gate of attention", "left out"},
    {m->bare_norms, "norms without weights", "written with them"},
    {block->attention.inner_norm, "norms before the last product of attention and feed-forward", "left out"},
    {block->ffn.kind == MLP_XIELU, "xielu", "written as gelu"},
    {!block->attention.kv_lora_rank && block->attention.v_head_dim != block->attention.head_dim,
     "values of another width than keys", "written as wide as these"},
    {block->attention.chunked && block->attention.window < e->layout.passes.seq, "attention by chunks",
     "written as a window of the last tokens"},
    {megatron_hybrid(m) && window_of(m, e->layout.passes.seq) > 0, "windows in a pattern of layers", "left out"},
    {m->output_norms, "norms behind attention and feed-forward alone", "written before them"},
    {block->attention.qk_norm_whole, "norms over the queries and keys of all heads", "written for each head"},
    {m->norm == NORM_LAYERNORM && !m->norm_bias, "layernorm without bias", "written with one"},
    {m->embedding_norm, "norm behind the embedding", "left out"},
    {head->norms == 0, "no norm before the head", "written with one"},
    {m->head_bias && !m->mlm_head, "bias of the head", "left out"},
    {m->post_norm, "norms behind the sums", "written before attention and feed-forward"},
    {m->token_types > 0 && m->mlm_head && !m->pooler, "token types without a next sentence", "left out"},
    {m->encoder_blocks > 0 && 2 * m->encoder_blocks != m->blocks, "stacks of unlike depth",
     "which builds both as deep as the encoder"},
    {m->encoder_vocab > 0, "a table of tokens of the decoder alone", "which looks up in the encoder's"},
    {m->embed_dim != m->hidden, "projected embedding", "written without projection"},
    {m->positions == POSITIONS_ALIBI, "alibi", "written without positions"},
  };

  lose_parts(e, parts, G_N_ELEMENTS(parts));
  lose_biases(e, block);
}

/* ---- models of a pattern of layers ---- */

/* Whether all layers mix tokens and have a feed-forward, those of linear attention gated delta networks: an attention of
 * pretrain_gpt.py, not letters. */
static gboolean mixes_deltas(const Model *m)
{
  const LinearAttention *l = model_linear(m);
  gboolean mixes = l && l->kind == LINEAR_GATED_DELTA && !l->plain && !model_is_patterned(m);

  for (int i = 1; mixes && i <= m->blocks; i++)
    mixes = model_layer(m, i)->ffn.width > 0 && !(is_linear(model_layer(m, i)) && model_layer(m, i)->attention.heads);
  return mixes && model_attending(m);
}

gboolean megatron_hybrid(const Model *m)
{
  return (model_linear(m) || model_is_patterned(m)) && !mixes_deltas(m);
}

static void add_letters(GString *text, const LayerSpec *spec)
{
  if (spec_mixes(spec))
    g_string_append_c(text, spec->linear.heads ? 'M' : '*');
  if (spec->ffn.width)
    g_string_append_c(text, spec->ffn.experts ? 'E' : '-');
}

char *megatron_pattern(const Export *e)
{
  const Model *m = e->model;
  const StageCut *cut = &e->layout.pipeline.cut;
  GString *text = g_string_new(NULL);

  for (int stage = 0; stage < cut->stages; stage++) {
    StageBlocks blocks = stage_blocks(cut, m, stage);
    if (stage > 0)
      g_string_append_c(text, '|');
    for (int i = blocks.first; i < blocks.end; i++)
      add_letters(text, model_layer(m, i));
  }
  for (int i = 0; i < m->mtp; i++) {
    g_string_append_c(text, '/');
    add_letters(text, model_layer(m, m->blocks + 1));
  }
  return g_string_free(text, FALSE);
}

/* MambaMixer's convolution of 4 tokens and chunks of 128 tokens are fixed (mamba_mixer.py). */
static void add_mamba(Export *e, GString *flags)
{
  const LinearAttention *l = model_linear(e->model);

  if (!l)
    return;
  export_words(flags, "--mamba-num-heads %d --mamba-head-dim %d --mamba-num-groups %d --mamba-state-dim %d\n", l->heads,
               l->head_dim, l->groups, l->state);
  if (l->conv != 4 || !l->conv_bias || l->bias)
    export_lose(e, "model: linear_conv: %d: Megatron-LM's Mamba-2 sees 4 tokens, with a bias of the convolution alone",
                l->conv);
  if (l->chunk != 128)
    export_note(e, "model: linear_chunk: %d: Megatron-LM takes 128 tokens at once", l->chunk);
}

static void add_deltas(const Export *e, GString *flags)
{
  const LinearAttention *l = model_linear(e->model);
  g_autofree char *layers = pattern(e->model, is_linear);

  export_words(flags, "--experimental-attention-variant gated_delta_net --linear-attention-freq '%s'",
               layers ? layers : "1");
  export_words(flags, "--linear-num-value-heads %d --linear-value-head-dim %d --linear-num-key-heads %d "
               "--linear-key-head-dim %d --linear-conv-kernel-dim %d\n", l->heads, l->head_dim, l->groups, l->state, l->conv);
}

/* NULL, or the model that pretrain_hybrid.py could train instead. */
static const char *hybrid_wants(const Model *m)
{
  const LinearAttention *l = model_linear(m);

  if (!model_attending(m))
    return "a layer of attention";
  for (int i = 0; i < m->n_specs; i++)
    if (m->specs[i].linear.heads && m->specs[i].attention.heads)
      return "attention or linear attention in a layer, not both";
  if (l && l->plain)
    return "linear attention with a norm (linear_plain false)";
  return l && l->kind != LINEAR_MAMBA2 ? "linear_attention mamba2" : NULL;
}

/* Scripts of other models than decoders read preprocessed text alone. */
#define TEXT "--data-path \"${DATA_PATH:?prefix of preprocessed text}\" --vocab-file \"${VOCAB_FILE:?of WordPiece}\""

const MegatronTrainer *megatron_trainer(const Export *e, GError **error)
{
  static const MegatronTrainer gpt = { "pretrain_gpt.py", NULL, TRUE, TRUE };
  static const MegatronTrainer bert = { "examples/bert/pretrain_bert.py", TEXT, TRUE, FALSE };
  static const MegatronTrainer t5 = { "examples/t5/pretrain_t5.py",
                                      TEXT " --tokenizer-type BertWordPieceCase --vocab-extra-ids 100", FALSE, FALSE };
  static const MegatronTrainer hybrid = { "pretrain_hybrid.py", NULL, TRUE, TRUE };
  const Model *m = e->model;
  const MegatronTrainer *trainer = m->encoder_blocks ? &t5 : m->mlm_head ? &bert : megatron_hybrid(m) ? &hybrid : &gpt;
  g_autofree char *unlike = export_unlike(m) ? g_strdup_printf("a model without %s", export_unlike(m)) : NULL;
  const char *expected = m->patch                                                 ? "a model without patch_size"
                         : m->sparse                                              ? "a model without sparse_attention"
                         : export_unlike(m)                                       ? unlike
                         : m->encoder_blocks && model_has_experts(m)              ? "a model without experts"
                         : trainer == &hybrid && hybrid_wants(m)                  ? hybrid_wants(m)
                         : !trainer->pipeline && e->layout.pipeline.shape.ranks > 1 ? "pipeline_model_parallel_size 1"
                         : !trainer->context && e->layout.passes.cp > 1           ? "context_parallel_size 1"
                                                                                  : NULL;

  if (expected)
    infeasible_error(error, "%s: model %s: expected %s, which is what %s trains", e->exporter->name, m->name, expected,
                     e->exporter->target);
  return expected ? NULL : trainer;
}

/* Layers, widths and lengths. */
static void add_sizes(const Export *e, const LayerSpec *block, GString *flags)
{
  const Model *m = e->model;
  int seq = e->layout.passes.seq, decoder_seq = e->layout.passes.decoder_seq, longest = MAX(seq, m->position_rows);

  if (m->encoder_blocks)
    export_words(flags, "--encoder-num-layers %d --decoder-num-layers %d", m->encoder_blocks,
                 m->blocks - m->encoder_blocks);
  else if (megatron_hybrid(m))
    export_words(flags, "--spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec\n");
  else
    export_words(flags, "--num-layers %d", m->blocks);
  export_words(flags, "--hidden-size %d --num-attention-heads %d\n", m->hidden, block->attention.heads);
  if (m->encoder_blocks)
    export_words(flags, "--encoder-seq-length %d --decoder-seq-length %d --max-position-embeddings %d", seq,
                 decoder_seq, MAX(longest, decoder_seq));
  else
    export_words(flags, "--seq-length %d --max-position-embeddings %d", seq, longest);
}

/* What scripts of other models take otherwise than ours mean it. */
static void note_family(Export *e)
{
  const Model *m = e->model;

  if (m->encoder_blocks || m->mlm_head)
    export_note(e, "model: vocab: %d: the vocabulary is the tokenizer's", m->vocab);
  if (m->predicted < 1)
    export_note(e, "model: Megatron-LM makes logits of all tokens, not of the %.0f %% that it predicts",
                100 * m->predicted);
}

/* Core 0.19 and later (argument_utils.py, _apply_yarn_config_from_args), so not Primus. */
static gboolean is_yarn(const Export *e)
{
  const Model *m = e->model;

  return g_strcmp0(m->rope_scaling.kind, "yarn") == 0 && m->rope_scaling.factor > 0 && e->exporter == &exporter_megatron &&
         !model_attending(m)->attention.kv_lora_rank;
}

/* Shares of both kinds count together in Hugging Face's files, in Megatron-LM each alone. */
static void add_yarn(Export *e, GString *flags)
{
  const RopeScaling *s = &e->model->rope_scaling;
  gboolean both = s->mscale > 0 && s->mscale_all > 0 && !(s->attention > 0);

  export_words(flags, "--rotary-scaling-factor %g", s->factor);
  if (s->tokens > 0)
    export_words(flags, "--yarn-original-max-position-embeddings %.0f", s->tokens);
  else
    export_note(e, "model: rope_scaling: original_max_position_embeddings: not in its file, so Megatron-LM takes 4096");
  if (s->fast > 0)
    export_words(flags, "--yarn-beta-fast %g", s->fast);
  if (s->slow > 0)
    export_words(flags, "--yarn-beta-slow %g", s->slow);
  if (both)
    export_words(flags, "--mscale %g --mscale-all-dim %g", s->mscale, s->mscale_all);
  else if (s->attention > 0 && s->factor > 1)
    export_words(flags, "--mscale %g", (s->attention - 1) / (0.1 * log(s->factor)));
  if (s->exact)
    g_string_append(flags, " --no-yarn-correction-range-round-to-int");
}

/* Megatron-LM scales as Llama 3.1 does, whatever the factor (RotaryEmbedding._apply_scaling at 00caa53). */
static void add_rope_scaling(Export *e, GString *flags)
{
  const RopeScaling *s = &e->model->rope_scaling;

  if (export_rope_is_llama(s) && s->factor > 0)
    export_words(flags, "--use-rope-scaling --rope-scaling-factor %g", s->factor);
  else if (is_yarn(e))
    add_yarn(e, flags);
  else if (s->kind)
    export_lose(e, "model: rope_scaling: %s: expected llama3 with the wavelengths of Llama 3.1%s, left out", s->kind,
                e->exporter == &exporter_megatron ? ", or yarn outside of latent attention" : "");
}

/* What routers do beside choosing. Files of models with corrections scale what their experts give. */
static void add_router_constants(Export *e, GString *flags)
{
  const Model *m = e->model;
  const LayerSpec *sparse = export_block(m, TRUE);

  if (m->balance_loss > 0)
    export_words(flags, "--moe-aux-loss-coeff %g", m->balance_loss);
  if (m->balance_each)
    export_words(flags, "--moe-router-load-balancing-type seq_aux_loss");
  if (m->routed_scale > 0)
    export_words(flags, "--moe-router-topk-scaling-factor %g", m->routed_scale);
  else if (sparse && sparse->ffn.router_correction)
    export_note(e, "model: routed_scaling_factor: not in its file, so Megatron-LM scales by 1");
}

/* Numbers whose defaults are Megatron-LM's: what a model's file does not say keeps them. */
static void add_constants(Export *e, GString *flags)
{
  const Model *m = e->model;

  if (m->rope_theta > 0)
    export_words(flags, "--rotary-base %.0f", m->rope_theta);
  else if (m->positions == POSITIONS_ROPE)
    export_note(e, "model: rope_theta: not in its file, so Megatron-LM takes 10000");
  add_rope_scaling(e, flags);
  if (m->positions == POSITIONS_ROPE && m->rotary_share < 1)
    export_words(flags, "--rotary-percent %g", m->rotary_share);
  if (m->nope_interval > 0)
    export_words(flags, "--no-rope-freq %d", m->nope_interval);
  if (m->norm_epsilon > 0)
    export_words(flags, "--norm-epsilon %g", m->norm_epsilon);
  else
    export_note(e, "model: norm_epsilon: not in its file, so Megatron-LM takes 1e-05");
  add_router_constants(e, flags);
  export_end_line(flags);
}

void megatron_model_flags(Export *e, GString *flags)
{
  const Model *m = e->model;
  const LayerSpec *block = model_attending(m);

  lose_model(e, block);
  note_family(e);
  add_sizes(e, block, flags);
  if (position_names[m->positions])
    export_words(flags, "--position-embedding-type %s", is_yarn(e) ? "yarn" : position_names[m->positions]);
  g_string_append_c(flags, '\n');
  add_attention(e, &block->attention, flags);
  add_feed_forward(m, flags);
  export_end_line(flags);
  add_experts(e, flags);
  if (megatron_hybrid(m))
    add_mamba(e, flags);
  else if (model_linear(m))
    add_deltas(e, flags);
  if (m->mlm_head && !m->pooler)
    export_words(flags, "--bert-no-binary-head");
  if (m->mtp > 0)
    export_words(flags, "--mtp-num-layers %d", m->mtp);
  if (m->norm == NORM_RMSNORM)
    export_words(flags, "--normalization RMSNorm");
  if (!m->tied_embeddings)
    export_words(flags, "--untie-embeddings-and-output-weights");
  add_biases(block, flags);
  export_end_line(flags);
  add_constants(e, flags);
  if (!m->dropout)
    export_words(flags, "--attention-dropout 0 --hidden-dropout 0");
  if (!m->encoder_blocks && !m->mlm_head)
    export_words(flags, "--no-create-attention-mask-in-dataloader"); /* kernels mask; its loader would make squares */
}
