#include "model/model.h"

/* What differs from kind to kind: numbers of each head that the projection makes, vectors of heads' numbers that are
 * weights (decay, step, skip), operations for an element of a head's state. */
static const struct {
  int projected, weights;
  gboolean norm_of_head; /* the gated norm's weights are of one head, not of all values */
  double state_flops;
} kinds[] = {
  /* Megatron-LM counts 7 (training.py, num_floating_point_operations): decay, step, outer product, sum, answer */
  [LINEAR_MAMBA2] = {1, 3, FALSE, 7},
  /* decay; what the key reads, outer product of the difference, answer, at 2 each */
  [LINEAR_GATED_DELTA] = {2, 2, TRUE, 7},
  /* decay, outer product, answer */
  [LINEAR_LIGHTNING] = {0, 0, FALSE, 5},
  [LINEAR_MAMBA1] = {0, 2, FALSE, 7},
  [LINEAR_KIMI_DELTA] = {1, 1, TRUE, 7},
  [LINEAR_MLSTM] = {2, 2, FALSE, 7},    /* two gates of each head, with biases; as Mamba-2 */
  [LINEAR_RG_LRU] = {0, 3, FALSE, 0},   /* decays, and biases of two gates */
  [LINEAR_WKV] = {0, 2, FALSE, 0},      /* decays, and what the token itself counts more */
  [LINEAR_SHORT_CONV] = {0, 0, FALSE, 0},
};

gint64 linear_values(const LinearAttention *l)
{
  return (gint64)l->heads * l->head_dim;
}

gboolean linear_by_channel(LinearKind kind)
{
  return kind == LINEAR_MAMBA1 || kind == LINEAR_RG_LRU || kind == LINEAR_WKV || kind == LINEAR_SHORT_CONV;
}

static gint64 linear_keys(const LinearAttention *l)
{
  return linear_by_channel(l->kind) ? 0 : (gint64)l->groups * l->state;
}

/* Decays of each element of keys, and gates of values. */
static gint64 decays_and_gates(const LinearAttention *l)
{
  return l->kind == LINEAR_KIMI_DELTA ? (gint64)l->heads * l->state + linear_values(l) : 0;
}

gint64 linear_projected(const LinearAttention *l)
{
  gint64 values = l->kind == LINEAR_SHORT_CONV || l->kind == LINEAR_WKV ? 3 : l->kind == LINEAR_KIMI_DELTA ? 1 : 2;

  return values * linear_values(l) + 2 * linear_keys(l) + (gint64)kinds[l->kind].projected * l->heads +
         (l->rank ? 0 : decays_and_gates(l));
}

gint64 linear_convolved(const LinearAttention *l)
{
  return l->conv ? linear_values(l) + 2 * linear_keys(l) : 0;
}

gint64 linear_inner_params(const LinearAttention *l, gint64 hidden)
{
  gint64 rank = l->rank;

  if (l->kind == LINEAR_RG_LRU)
    return 2 * linear_values(l) * (linear_values(l) / l->blocks);
  if (l->kind == LINEAR_MAMBA1)
    return linear_values(l) * (rank + 2 * l->state) + rank * linear_values(l);
  return l->kind == LINEAR_KIMI_DELTA ? rank * (2 * hidden + decays_and_gates(l)) : 0;
}

static gint64 norm_params(const LinearAttention *l)
{
  if (l->plain || linear_by_channel(l->kind))
    return l->step_norms && !l->bare_step_norms ? l->rank + 2 * l->state : 0;
  return kinds[l->kind].norm_of_head ? l->head_dim : linear_values(l);
}

/* Decays of Mamba-1 are a value for each element of a state; Kimi's steps one for each of a key. */
static gint64 state_params(const LinearAttention *l)
{
  return l->kind == LINEAR_MAMBA1 || l->kind == LINEAR_KIMI_DELTA ? (gint64)l->heads * l->state : 0;
}

gint64 linear_small_params(const LinearAttention *l)
{
  return linear_convolved(l) * (l->conv + (l->conv_bias ? 1 : 0)) + (gint64)kinds[l->kind].weights * l->heads +
         state_params(l) + norm_params(l);
}

double linear_state_flops(const LinearAttention *l)
{
  if (l->kind == LINEAR_SHORT_CONV) /* each token of the convolution, and two gates */
    return (2.0 * l->conv + 2) * linear_values(l);
  if (l->kind == LINEAR_RG_LRU) /* a product with each gate, and a decayed sum */
    return 4.0 * linear_values(l);
  if (l->kind == LINEAR_WKV) /* numerator and denominator, of those before and with the token itself, and their ratio */
    return 10.0 * linear_values(l);
  return kinds[l->kind].state_flops * linear_values(l) * l->state;
}

const LinearAttention *model_linear(const Model *m)
{
  for (int i = 0; i < m->n_specs; i++)
    if (m->specs[i].linear.heads > 0)
      return &m->specs[i].linear;
  return NULL;
}

gboolean model_shares_weights(const Model *m)
{
  for (int i = 0; i < m->n_specs; i++)
    if (m->specs[i].reused)
      return TRUE;
  return FALSE;
}

gboolean model_is_patterned(const Model *m)
{
  for (int i = 1; i <= m->blocks; i++)
    if (!spec_mixes(model_layer(m, i)) || !model_layer(m, i)->ffn.width)
      return TRUE;
  return FALSE;
}

static const char *own_mechanism(const LayerSpec *spec)
{
  const struct { gboolean has; const char *key; } keys[] = {
    { spec->attention.differential, "lambda_std_dev" },
    { spec->attention.conv_each > 0, "cca_time0" },
    { spec->attention.experts > 0, "experts of attention" },
    { spec->attention.masked, "keep_window_size" },
    { spec->linear.kind == LINEAR_MLSTM && spec->linear.heads, "qk_dim_factor" },
    { spec->linear.kind == LINEAR_RG_LRU && spec->linear.heads, "lru_width" },
    { spec->attention.global_projections, "attention_window" },
    { spec->prompts > 0, "prompt_length" },
    { spec->global_tokens > 0, "num_global_tokens" },
    { spec->adapter > 0, "adapter_reduction_factor" },
    { spec->attention.rel_dim > 0, "d_rel" },
    { spec->laurel > 0, "laurel_rank" },
    { spec->ffn.idle > 0, "zero_expert_num" },
    { spec->doubled, "two blocks a layer" },
    { spec->ffn.sparse_gate, "activation_sparsity_pattern" },
    { spec->shift_mixes > 0, "time_mix_key" },
    { spec->attention.index_block > 0, "index_block_size" },
    { spec->attention.whole_params > 0, "norms of rotated keys alone" },
    { spec->gated_norms > 0, "gated_norm_rank" },
    { spec->branch, "attention before linear attention" },
    { spec->reused, "layers that share weights" },
    { spec->joined, "states of earlier layers" },
    { spec->residual_scales > 0, "scales of residual sums" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    if (keys[i].has)
      return keys[i].key;
  return NULL;
}

const char *model_own_mechanism(const Model *m)
{
  if (m->streams > 1)
    return m->stream_kind == STREAMS_ALTUP ? "altup_num_inputs" : "hc_mult";
  if (m->encoder_blocks && m->mlm_head)
    return "an encoder and a decoder of BERT";
  if (m->beside[0].rows || m->beside[1].rows)
    return "tables beside tokens";
  for (int i = 0; i < m->n_specs; i++)
    if (own_mechanism(&m->specs[i]))
      return own_mechanism(&m->specs[i]);
  return NULL;
}

const char *spec_across_parts(const LayerSpec *spec)
{
  const Attention *a = &spec->attention;

  return a->index_heads          ? "an indexer that chooses keys"
         : a->masked             ? "masks that depend on values"
         : a->conv || spec->conv || a->conv_each ? "convolutions over tokens"
         : a->rel_dim            ? "biases by distance"
         : spec->prompts         ? "prompts before each sequence"
                                 : NULL;
}

const LayerSpec *model_attending(const Model *m)
{
  for (int i = 1; i <= m->blocks; i++)
    if (model_layer(m, i)->attention.heads > 0)
      return model_layer(m, i);
  return NULL;
}
