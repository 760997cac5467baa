#include "model/recipe.h"

/* Weights of a part of a layer: those of matrices, which multiply each token,
 * and the rest: biases, norms, tables. */
typedef struct {
  gint64 matrix, rest;
} Weights;

int mlp_matrices(MlpKind kind)
{
  static const int matrices[] = {[MLP_GELU] = 2, [MLP_SWIGLU] = 3, [MLP_RELU2] = 2, [MLP_XIELU] = 2};
  return matrices[kind];
}

static Weights sum(Weights a, Weights b)
{
  return (Weights){a.matrix + b.matrix, a.rest + b.rest};
}

/* `times` matrices of in x out, each with a bias of out. */
static Weights linear(gint64 times, gint64 in, gint64 out, gboolean bias)
{
  return (Weights){times * in * out, bias ? times * out : 0};
}

gint64 attention_gate(const Attention *a)
{
  return a->gated ? (gint64)a->heads * (a->gate_of_head ? 1 : a->v_head_dim) : 0;
}

gint64 attention_made_keys(const Attention *a)
{
  return a->keyless ? 0 : (gint64)a->kv_heads * (a->head_dim + (a->key_is_value ? 0 : a->v_head_dim));
}

gint64 attention_norm_params(const Attention *a)
{
  gint64 normed = a->qk_norm_whole ? (gint64)a->heads + a->kv_heads : a->keyless ? 1 : 2;

  return a->qk_norm ? a->qk_norm_vectors * normed * a->head_dim : 0;
}

/* A projection to `out` through a normed bottleneck of `rank`, which may carry
 * `aside` further values past it. */
static Weights low_rank(gint64 hidden, gint64 rank, gint64 aside, gint64 out, gboolean bias)
{
  Weights down = linear(1, hidden, rank + aside, bias);
  down.rest += rank;
  return sum(down, linear(1, rank, out, FALSE));
}

/* Queries of all its heads from the queries' latent, one key behind a layernorm, a number of each head; of blocks, from
 * the input, both normed. */
static Weights indexer_weights(const Attention *a, gint64 hidden)
{
  gint64 heads = a->index_heads, dim = a->index_dim;

  if (a->index_shared)
    return (Weights){0};
  if (a->index_block)
    return (Weights){hidden * (heads + 1) * dim, 2 * dim};
  return (Weights){a->q_lora_rank * heads * dim + hidden * (dim + heads), 2 * dim};
}

/* Queries, and a gate, of the latent as it was beside the normed one. */
static Weights latent_gate(const Attention *a, gint64 hidden)
{
  Weights q = low_rank(hidden, a->q_lora_rank, 0, 0, a->qkv_bias);

  q.matrix += 2 * (gint64)a->q_lora_rank * ((gint64)a->heads * a->head_dim + attention_gate(a));
  return q;
}

static Weights latent_qkv(const Attention *a, gint64 hidden)
{
  gint64 heads = a->heads;
  gint64 nope = a->head_dim - a->rope_head_dim, gate = a->gate_of_latent ? 0 : attention_gate(a);
  Weights q = a->gate_of_latent ? latent_gate(a, hidden)
              : a->q_lora_rank ? low_rank(hidden, a->q_lora_rank, 0, heads * a->head_dim, a->qkv_bias)
                             : linear(1, hidden, heads * a->head_dim, FALSE);
  Weights kv = low_rank(hidden, a->kv_lora_rank, a->rope_head_dim, heads * (nope + a->v_head_dim), a->qkv_bias);
  return sum(sum(sum(q, kv), indexer_weights(a, hidden)), linear(1, hidden, gate, FALSE));
}

/* Weights of one expert of attention. */
static gint64 expert_params_of_attention(const Attention *a, gint64 hidden)
{
  return hidden * a->kv_heads * ((gint64)a->head_dim + a->v_head_dim);
}

/* Keys and values, a router, the experts that a token visits, and a bias of what they give. */
static Weights expert_attention(const Attention *a, gint64 hidden)
{
  Weights w = linear(1, hidden, attention_made_keys(a) + a->experts, FALSE);

  return sum(w, (Weights) { a->experts_per_token * expert_params_of_attention(a, hidden), hidden });
}

/* Of queries and keys: of each value, then of each head's values, both with biases; a number of each head of keys. */
static Weights convolution_weights(const Attention *a)
{
  gint64 convolved = ((gint64)a->heads + a->kv_heads) * a->head_dim;

  if (!a->conv_each)
    return (Weights) { 0 };
  return (Weights) { convolved * a->head_dim * a->conv_heads, convolved * (a->conv_each + 2) + a->kv_heads };
}

static Weights plain_qkv(const Attention *a, gint64 hidden)
{
  gint64 out = (gint64)a->heads * ((gint64)a->head_dim + a->rel_dim) + attention_made_keys(a);
  gboolean gate_bias = a->qkv_bias && !a->gate_of_head;
  Weights w = sum(linear(1, hidden, out, a->qkv_bias), linear(1, hidden, attention_gate(a), gate_bias));
  return sum(sum(w, indexer_weights(a, hidden)), convolution_weights(a));
}

/* A number of each head's key from all values, and one more of each head. */
static Weights mask_weights(const Attention *a)
{
  Weights w = linear(1, (gint64)a->kv_heads * a->v_head_dim, a->kv_heads, a->qkv_bias);

  w.rest += a->kv_heads;
  return w;
}

static Weights attention_weights(const Attention *a, gint64 read, gint64 hidden)
{
  if (!a->heads)
    return (Weights){0};
  if (a->experts)
    return expert_attention(a, hidden);
  Weights w = a->kv_lora_rank ? latent_qkv(a, read) : plain_qkv(a, read);
  gint64 given = (gint64)a->heads * a->v_head_dim;
  w.rest += (gint64)a->rel_dim * a->rel_extent + a->conv * attention_made_keys(a);
  if (a->global_projections)
    w.rest += (read + 1) * ((gint64)a->heads * a->head_dim + attention_made_keys(a));
  if (a->masked)
    w = sum(w, mask_weights(a));
  w.rest += a->extra_params + a->whole_params + attention_norm_params(a) + (a->gate_bias ? a->heads : 0);
  w.rest += a->unit_scales ? (gint64)a->heads * a->head_dim + attention_gate(a) : a->inner_norm ? given : 0;
  return sum(w, linear(1, given, hidden, a->out_bias));
}

static Weights linear_weights(const LinearAttention *l, gint64 hidden)
{
  if (!l->heads)
    return (Weights){0};
  Weights w = sum(linear(1, hidden, linear_projected(l), l->bias), linear(1, linear_values(l), hidden, l->bias));
  w.matrix += linear_inner_params(l, hidden);
  w.rest += linear_small_params(l);
  return w;
}

/* `width` of its own experts, or of those that every token visits. */
static Weights mlp_weights(const FeedForward *f, gint64 width, gint64 hidden)
{
  if (!width)
    return (Weights){0};
  Weights w = sum(linear(mlp_matrices(f->kind) - 1, hidden, width, f->bias), linear(1, width, hidden, f->bias));
  w.rest += mlp_activation_params(f->kind) + (f->unit_scales ? 2 * width : f->inner_norm ? width : 0);
  return f->gated_output ? sum(w, linear(1, hidden, hidden, FALSE)) : w;
}

/* To a narrow state, which is normed and goes through two layers; what the layer before had is added by weights. */
static Weights routing_weights(const FeedForward *f, gint64 hidden, gint64 choices)
{
  gint64 width = f->router_width;
  Weights layers = sum(linear(2, width, width, TRUE), linear(1, width, choices, FALSE));

  layers.rest += width * (f->router_carries ? 2 : 1);
  return sum(layers, linear(1, hidden, width, TRUE));
}

static Weights router_weights(const FeedForward *f, gint64 hidden)
{
  gint64 choices = (gint64)f->experts + f->idle + f->rated + f->router_skips;
  Weights w = f->router_width ? routing_weights(f, hidden, choices) : linear(1, hidden, choices, f->router_bias);
  if (f->latent)
    w = sum(w, sum(linear(1, hidden, f->latent, f->bias), linear(1, f->latent, hidden, f->bias)));
  w.rest += (f->router_correction ? f->experts + f->idle : 0) + (f->sum_bias ? hidden : 0);
  w.matrix += f->shared_gate ? hidden : 0;
  if (f->shared_width)
    w = sum(w, mlp_weights(f, f->shared_width, hidden));
  return w;
}

static gint64 norm_weights(const Model *m, int norms)
{
  return (gint64)norms * m->hidden * norm_vectors(m);
}

/* What the decoder of an encoder-decoder has to embed its tokens, but a table of them that both share. */
static gint64 entry_weights(const Model *m)
{
  return ((gint64)model_entry_rows(m) + m->token_types) * m->hidden + norm_weights(m, m->embedding_norm ? 1 : 0) +
         (m->encoder_vocab ? (gint64)m->vocab * m->embed_dim : 0);
}

/* What mixes the streams for a part of a block, and spreads what it gives: for each stream a number or two from all of
 * them, shifted, and scaled. */
static Weights stream_weights(const Model *m, int numbers)
{
  gint64 rows = (gint64)numbers * m->streams;

  if (m->streams == 1 || m->stream_kind != STREAMS_HYPER)
    return (Weights){0};
  return (Weights){rows * m->streams * m->hidden, rows + numbers};
}

/* Numbers of each stream from the one that goes through a block, and from these what predicts and what corrects. */
static Weights alternating_weights(const Model *m)
{
  gint64 n = m->streams;

  return m->stream_kind == STREAMS_ALTUP ? (Weights){n * m->hidden + n * n + n * n * n, 0} : (Weights){0};
}

/* To each further stream from the embedding, or from each to the head. */
static Weights further_streams(const Model *m)
{
  gint64 further = m->stream_kind == STREAMS_ALTUP ? m->streams - 1 : 0;

  return linear(further, m->hidden, m->hidden, FALSE);
}

/* Of one language. */
static Weights adapter_weights(const Model *m, const LayerSpec *spec)
{
  return sum(linear(1, m->hidden, spec->adapter, TRUE), linear(spec->adapter ? 1 : 0, spec->adapter, m->hidden, TRUE));
}

/* Two products of a bottleneck beside each matrix of queries, keys and values, which are as wide, and beside gate and
 * up, which have one of both. */
static Weights low_rank_weights(const Model *m, const LayerSpec *spec)
{
  gint64 queries = (gint64)spec->attention.heads * spec->attention.head_dim, gates = 2 * (gint64)spec->ffn.width;

  return (Weights) { 3 * spec->qkv_rank * (2 * (gint64)m->hidden + queries) + spec->gate_rank * (m->hidden + gates),
                     0 };
}

/* What a block with a branch has of its own. */
static Weights beside_branch(const Model *m, const LayerSpec *spec)
{
  Weights projection = linear(1, m->hidden, m->hidden, FALSE);

  projection.rest += norm_weights(m, 1);
  return sum(sum(projection, linear_weights(&spec->linear, m->hidden)), low_rank_weights(m, spec));
}

/* What is another block's. */
static void count_reused(const Model *m, LayerSpec *spec)
{
  Weights own = spec->branch ? beside_branch(m, spec) : (Weights) { 0 };

  spec->tied_params += spec->params - own.matrix - own.rest;
  spec->params = spec->active_params = own.matrix + own.rest;
  spec->expert_params = 0;
}

static void count_block(const Model *m, LayerSpec *spec)
{
  const Attention *attention = &spec->attention;
  const FeedForward *f = &spec->ffn;
  Weights one = mlp_weights(f, f->width, f->latent ? f->latent : m->hidden);
  Weights w =
    sum(attention_weights(attention, (spec->branch ? 2 : 1) * (gint64)m->hidden, m->hidden),
        attention_weights(&spec->cross, m->hidden, m->hidden));
  w = sum(w, linear_weights(&spec->linear, m->hidden));
  w = sum(w, low_rank_weights(m, spec));
  w.matrix += spec->branch ? (gint64)m->hidden * m->hidden : 0;
  for (int i = spec_mixes(spec) + (spec->ffn.width > 0); i > 0; i--)
    w = sum(w, stream_weights(m, 2));
  w = sum(w, alternating_weights(m));
  w.rest += norm_weights(m, spec->global_tokens ? 1 : 0);
  w.rest += 2 * (gint64)spec->conv * m->hidden + (f->scaled ? 1 : 0);
  Weights adapter = adapter_weights(m, spec);
  w = sum(w, adapter);
  w.matrix += 2 * ((gint64)spec->laurel + spec->side + (gint64)spec->gated_norms * m->norm_rank) * m->hidden;
  w.rest += ((gint64)spec->residual_scales + spec->shift_mixes) * m->hidden;
  w.rest += m->affine_residuals ? 4 * (gint64)(spec_mixes(spec) + (f->width > 0)) * m->hidden : 0;
  int visited = f->experts ? f->experts_per_token : 1;
  if (f->experts)
    w = sum(w, router_weights(f, m->hidden));
  w.rest += norm_weights(m, spec->norms) + (spec->entry ? entry_weights(m) : 0);
  spec->tied_params = spec->entry && !m->encoder_vocab ? (gint64)m->vocab * m->embed_dim : 0;
  spec->expert_params = f->experts * (one.matrix + one.rest);
  spec->matrix_params = w.matrix + visited * one.matrix;
  spec->active_params = spec->matrix_params + w.rest + visited * one.rest;
  spec->params =
    spec->active_params + (f->experts ? f->experts - visited : 0) * (one.matrix + one.rest) +
    (spec->adapter ? m->languages - 1 : 0) * (adapter.matrix + adapter.rest) +
    (attention->experts - attention->experts_per_token) * expert_params_of_attention(attention, m->hidden);
  if (spec->reused)
    count_reused(m, spec);
}

/* A block behind two norms and a projection; looks up in the first layer's table. */
static void count_mtp(const Model *m, LayerSpec *spec)
{
  Weights join = linear(1, 2 * (gint64)m->hidden, m->hidden, FALSE);

  count_block(m, spec);
  join.rest += norm_weights(m, 2);
  spec->tied_params = (gint64)m->vocab * m->embed_dim;
  spec->matrix_params += join.matrix;
  spec->params += join.matrix + join.rest;
  spec->active_params += join.matrix + join.rest;
}

/* Of all layers' own embeddings: a table, and a projection of the tokens' embedding that is normed and added to it. */
static Weights side_weights(const Model *m)
{
  gint64 width = (gint64)m->blocks * m->side;
  Weights w = linear(1, m->hidden, width, FALSE);

  w.rest += width * m->side_vocab + m->side * norm_vectors(m);
  return w;
}

/* Tables beside tokens, and what their rows are projected by. */
static Weights beside_weights(const Model *m)
{
  Weights w = m->beside_joined ? linear(1, (gint64)m->hidden + m->beside_read, m->hidden, TRUE) : (Weights) { 0 };

  for (gsize i = 0; i < G_N_ELEMENTS(m->beside); i++)
    w.rest += (gint64)m->beside[i].rows * m->beside[i].width;
  return w;
}

static void count_embedding(const Model *m, LayerSpec *spec)
{
  gint64 table = (gint64)(m->encoder_vocab ? m->encoder_vocab : m->vocab) * m->embed_dim;
  gint64 width = m->narrow_embedding ? m->embed_dim : m->hidden;
  Weights w = {0, width * spec->norms * norm_vectors(m)};
  if (m->patch)
    w = sum(w, linear(1, (gint64)m->patch * m->patch * m->channels, m->hidden, TRUE));
  if (m->patch)
    w.rest += m->hidden; /* the class token */
  if (m->embed_dim != m->hidden)
    w = sum(w, linear(1, m->embed_dim, m->hidden, m->narrow_embedding));
  w.rest += ((gint64)m->position_rows + m->token_types + m->global_rows + m->prompt_rows) * width;
  w = sum(w, beside_weights(m));
  w.rest += table;
  if (m->rotary_rows)
    w.rest += (gint64)m->rotary_rows * model_attending(m)->attention.head_dim;
  if (m->side)
    w = sum(w, side_weights(m));
  w.rest += (m->initial_state ? m->hidden : 0) + (m->affine_residuals ? 2 * (gint64)m->hidden : 0);
  w = sum(w, further_streams(m));
  spec->matrix_params = w.matrix;
  spec->params = spec->active_params = w.matrix + w.rest;
}

/* Of a masked language model, before the logits; the matrix of the next sentence is of one token a sequence. */
static Weights masked_head_weights(const Model *m)
{
  Weights w = {0};
  if (m->mlm_head) {
    gint64 width = m->narrow_embedding ? m->head_width : m->hidden;
    w = linear(1, m->hidden, width, m->mlm_bias);
    w.rest += width * norm_vectors(m);
  }
  if (m->pooler)
    w.rest += (m->hidden + (m->bare_pooler ? 0 : 2)) * ((gint64)m->hidden + 1);
  return w;
}

static void count_head(const Model *m, LayerSpec *spec)
{
  gint64 outputs = m->vocab ? m->vocab : m->classes;
  gboolean projected = m->embed_dim != m->hidden && !m->narrow_embedding;
  gint64 projection = projected ? (gint64)m->hidden * m->embed_dim : 0;
  Weights out = linear(1, m->head_width, outputs, m->head_bias);
  out.rest += m->logit_scales ? outputs : 0;
  Weights masked = sum(sum(masked_head_weights(m), stream_weights(m, 1)), further_streams(m));
  spec->tied_params = m->tied_embeddings ? out.matrix : 0;
  spec->matrix_params = projection + masked.matrix + out.matrix;
  spec->params =
    spec->matrix_params - spec->tied_params + masked.rest + out.rest + norm_weights(m, spec->norms);
  if (spec->again) {
    spec->tied_params = out.matrix;
    spec->params = norm_weights(m, spec->norms);
  }
  spec->active_params = spec->params;
}

gboolean model_count(Model *m)
{
  static void (*const count[])(const Model *, LayerSpec *) = {
    [LAYER_EMBEDDING] = count_embedding,
    [LAYER_BLOCK] = count_block,
    [LAYER_HEAD] = count_head,
    [LAYER_MTP] = count_mtp,
  };
  for (int i = 0; i < m->n_specs; i++)
    count[m->specs[i].kind](m, &m->specs[i]);
  for (int i = 0; i < m->n_layers; i++) {
    if (__builtin_add_overflow(m->params, model_layer(m, i)->params, &m->params))
      return FALSE;
    m->active_params += model_layer(m, i)->active_params;
  }
  return TRUE;
}

/* Of an indexer. */
static double score_flops(const Attention *a, double seq)
{
  return a->index_shared ? 0 : 6 * seq * seq * a->index_heads * a->index_dim;
}

/* Of biases by distance: each query with the same distances, however many keys it sees. */
static double distance_flops(const Attention *a, double seq)
{
  return 6 * seq * a->heads * a->rel_dim * a->rel_extent;
}

static double attention_flops(const Attention *a, double seq)
{
  double span = a->window ? MIN(seq, a->window) : seq;
  if (a->sparse && sparse_fits(a->sparse, (int)seq))
    span = MIN(span, sparse_keys_seen(a->sparse, a->heads, (int)seq));
  if (attention_chosen(a, (int)seq))
    return 6 * seq * a->index_top * a->heads * ((double)a->head_dim + a->v_head_dim) + score_flops(a, seq);
  return distance_flops(a, seq) +
         6 * seq * span * a->heads * ((double)a->head_dim + (a->differential ? 2.0 : 1.0) * a->v_head_dim);
}

/* Tokens of a sequence that go through the layer's matrices: of an image, the
 * class token is not embedded and alone classified. */
static double layer_tokens(const Model *m, const LayerSpec *spec, double seq)
{
  if (spec->kind == LAYER_HEAD && !m->patch)
    return seq * m->predicted;
  if (!m->patch || spec->kind == LAYER_BLOCK)
    return seq;
  return spec->kind == LAYER_EMBEDDING ? seq - 1 : 1;
}

/* Of products with weights. */
static double matrix_flops(const Model *m, const LayerSpec *spec, int seq, int encoder_seq)
{
  const Attention *cross = &spec->cross;
  double keys_and_values = (double)m->hidden * cross->kv_heads * (cross->head_dim + cross->v_head_dim);

  return 6.0 * spec->matrix_params * layer_tokens(m, spec, seq) + 6.0 * keys_and_values * (encoder_seq - seq);
}

/* Of queries on keys. */
static double layer_flops(const Model *m, const LayerSpec *spec, int seq, int encoder_seq)
{
  const Attention *cross = &spec->cross;

  return matrix_flops(m, spec, seq, encoder_seq) + attention_flops(&spec->attention, seq) +
         3.0 * seq * (spec->linear.heads ? linear_state_flops(&spec->linear) : 0) +
         6.0 * cross->heads * ((double)cross->head_dim + cross->v_head_dim) * seq * encoder_seq;
}

/* Of both passes, what a layer does that no gradient passes. */
static double passed(const LayerSpec *spec)
{
  return spec->detached ? 1 / 3.0 : 1;
}

typedef double (*LayerFlops)(const Model *m, const LayerSpec *spec, int seq, int encoder_seq);

static double of_all_layers(const Model *m, LayerFlops of, int seq, int decoder_seq)
{
  double flops = 0;

  for (int i = 0; i < m->n_layers; i++) {
    const LayerSpec *spec = model_layer(m, i);
    flops += passed(spec) * of(m, spec, (spec->encoder ? seq : decoder_seq) + spec->prompts, seq);
  }
  return flops;
}

double model_matrix_flops(const Model *m, int seq, int decoder_seq)
{
  return of_all_layers(m, matrix_flops, seq, decoder_seq);
}

double model_flops_of_both(const Model *m, int seq, int decoder_seq)
{
  return of_all_layers(m, layer_flops, seq, decoder_seq);
}

/* What a causal mask hides, of each chunk where queries see their own alone. */
static double masked_flops(const Attention *a, int seq)
{
  if (!a->causal || (a->window && !a->chunked) || a->sparse)
    return 0;
  return (attention_chosen(a, seq) ? score_flops(a, seq) : attention_flops(a, seq) - distance_flops(a, seq)) / 2;
}

double model_flops_unmasked(const Model *m, int seq, int decoder_seq)
{
  double flops = model_flops_of_both(m, seq, decoder_seq);

  for (int i = 0; i < m->n_layers; i++) {
    const LayerSpec *spec = model_layer(m, i);
    flops -= passed(spec) * masked_flops(&spec->attention, spec->encoder ? seq : decoder_seq);
  }
  return flops;
}

double model_flops(const Model *m, int seq)
{
  return model_flops_of_both(m, seq, seq);
}

gboolean model_has_experts(const Model *m)
{
  for (int i = 0; i < m->n_specs; i++)
    if (m->specs[i].ffn.experts > 0)
      return TRUE;
  return FALSE;
}
