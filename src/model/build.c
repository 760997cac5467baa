#include "model/recipe.h"

#include <string.h>

/* A stack of blocks: the encoder, the decoder beside it, or the only one. */
typedef struct {
  int blocks;
  gboolean encoder, cross, causal;
} Stack;

static void add_layer(Model *m, const LayerSpec *spec)
{
  int i = m->n_specs;
  gsize described = offsetof(LayerSpec, encoder) + sizeof spec->encoder;
  while (i > 0 && memcmp(&m->specs[i - 1], spec, described) != 0)
    i--;
  if (!i) {
    m->specs = g_renew(LayerSpec, m->specs, m->n_specs + 1);
    m->specs[m->n_specs++] = *spec;
    i = m->n_specs;
  }
  m->layers[m->n_layers++] = i - 1;
}

static int qk_norm_vectors(const Recipe *r)
{
  return r->bare_norms || r->conv_each ? 0 : r->qk_norm_bias ? 2 : 1;
}

static Attention attention_of(const Recipe *r, gboolean causal)
{
  return (Attention){
    .heads = r->heads,
    .kv_heads = r->kv_heads,
    .head_dim = r->head_dim,
    .v_head_dim = r->v_head_dim,
    .q_lora_rank = r->q_lora_rank,
    .kv_lora_rank = r->kv_lora_rank,
    .rope_head_dim = r->kv_lora_rank ? r->rope_dim : 0,
    .index_heads = r->index_heads,
    .index_dim = r->index_heads ? r->index_dim : 0,
    .index_top = r->index_heads ? r->index_block ? r->index_block * r->index_blocks : r->index_top : 0,
    .index_block = r->index_heads ? r->index_block : 0,
    .qkv_bias = r->qkv_bias || r->attention_bias || r->bias,
    .out_bias = r->out_bias || r->attention_bias || r->bias,
    .qk_norm = r->qk_norm,
    .qk_norm_whole = r->qk_norm && r->qk_norm_whole,
    .qk_norm_vectors = r->qk_norm ? qk_norm_vectors(r) : 0,
    .gated = r->attention_gate || r->gate_of_head,
    .gate_of_head = r->gate_of_head,
    .gate_bias = r->gate_bias,
    .gate_of_latent = r->gate_of_latent,
    .differential = r->differential,
    .conv_each = r->conv_each,
    .conv_heads = r->conv_heads,
    .experts = r->attention_experts ? r->experts : 0,
    .experts_per_token = r->attention_experts ? r->experts_per_token : 0,
    .masked = r->mask_keep > 0,
    .mask_keep = r->mask_keep,
    .rel_dim = r->rel_dim,
    .rel_extent = r->rel_extent,
    .conv = r->conv,
    .whole_params = (r->differential ? 4 * r->head_dim : 0) + (r->rope_key_norm ? r->rope_dim : 0),
    .inner_norm = r->inner_norms,
    .unit_scales = r->unit_sphere,
    .causal = causal,
  };
}

static FeedForward dense_of(const Recipe *r)
{
  return (FeedForward){.kind = r->mlp, .width = r->ffn, .bias = r->ffn_bias || r->bias,
                       .inner_norm = r->inner_norms, .unit_scales = r->unit_sphere,
                       .gated_output = r->gated_output,
                       .scaled = r->rel_dim > 0};
}

static FeedForward sparse_of(const Recipe *r)
{
  return (FeedForward){
    .kind = r->mlp,
    .width = r->expert_ffn,
    .latent = r->latent,
    .bias = r->ffn_bias || r->bias,
    .experts = r->experts,
    .experts_per_token = r->experts_per_token,
    .idle = r->idle,
    .rated = r->rel_dim ? r->shared_experts : 0,
    .scaled = r->rel_dim > 0,
    .sum_bias = r->attention_experts,
    .router_width = r->router_width,
    .router_skips = r->router_width > 0,
    .groups = r->groups_per_token && r->groups_per_token < r->groups ? r->groups : 0,
    .groups_per_token = r->groups_per_token,
    .shared_width = r->shared_ffn,
    .shared_gate = r->shared_gate && r->shared_ffn,
    .clamped = r->clamped,
    .router_bias = r->router_bias,
    .router_correction = r->router_correction,
  };
}

static gboolean makes_no_keys(const Recipe *r, int layer)
{
  return r->keyless > 0 && layer >= r->layers - r->keyless;
}

/* Sizes that latent attention has where it has a window. */
static void narrow_latent(Attention *a, const Recipe *r)
{
  a->whole_params += r->rope_key_norm ? r->of_window.rope_dim - r->rope_dim : 0;
  a->heads = a->kv_heads = r->of_window.heads;
  a->head_dim = r->of_window.nope_dim + r->of_window.rope_dim;
  a->rope_head_dim = r->of_window.rope_dim;
  a->v_head_dim = r->of_window.v_head_dim;
  a->q_lora_rank = r->of_window.q_lora_rank;
  a->kv_lora_rank = r->of_window.kv_lora_rank;
}

static void add_indexer(Attention *a, const Recipe *r, int layer)
{
  IndexKind kind = r->indexing ? r->indexing[layer] : INDEX_OWN;

  a->index_shared = a->index_heads && kind == INDEX_SHARED;
  if (kind == INDEX_NONE)
    a->index_heads = a->index_dim = a->index_top = a->index_block = 0;
}

static void add_attention(LayerSpec *spec, const Model *m, const Recipe *r, const Stack *stack, int i)
{
  spec->attention = attention_of(r, stack->causal);
  spec->attention.out_bias |= r->last_out_bias && i == stack->blocks - 1;
  spec->attention.window = recipe_window(r, i);
  if (stack->encoder && r->encoder_window)
    spec->attention.window = r->encoder_window;
  if (r->latent_windows && spec->attention.window)
    narrow_latent(&spec->attention, r);
  add_indexer(&spec->attention, r, i);
  spec->attention.global_projections = stack->encoder && r->global_projections;
  if (r->rel_dim && spec->attention.window)
    spec->attention.rel_extent = spec->attention.window;
  spec->attention.chunked = r->chunked && spec->attention.window > 0;
  spec->attention.sparse = stack->cross ? NULL : m->sparse;
  if (r->window_kv_heads && spec->attention.window)
    spec->attention.kv_heads = r->window_kv_heads;
  if (r->full_head_dim && !spec->attention.window)
    spec->attention.head_dim = spec->attention.v_head_dim = r->full_head_dim;
  if (r->full_kv_heads && !spec->attention.window)
    spec->attention.kv_heads = r->full_kv_heads;
  spec->attention.keyless = makes_no_keys(r, i);
  spec->attention.key_is_value = r->full_key_is_value && !spec->attention.window && !spec->attention.keyless;
  spec->attention.extra_params = (r->sinks || (r->window_sinks && spec->attention.window) ? r->heads : 0) +
                                 (i == 0 || r->buckets_each ? r->buckets * r->heads : 0);
}

/* A layer of one part has a norm for that alone. */
static LayerSpec block_with(const Model *m, const Recipe *r, const Stack *stack, int i, guint parts)
{
  LayerSpec spec = {.kind = LAYER_BLOCK, .parallel = r->parallel, .encoder = stack->encoder, .doubled = r->doubled};
  gboolean last_of_encoder = stack->encoder && i == stack->blocks - 1, both = parts & PART_MIXERS && parts & PART_FEEDS;
  spec.norms = (both ? r->norms : r->norms / 2) + (stack->cross ? r->norms / 2 : 0) +
               (last_of_encoder && r->final_norm ? 1 : 0);
  if (parts & PART_ATTENTION)
    add_attention(&spec, m, r, stack, i);
  if (parts & PART_LINEAR)
    spec.linear = r->linear;
  if (stack->cross)
    spec.cross = attention_of(r, FALSE);
  spec.entry = stack->cross && i == 0;
  if (parts & PART_FEEDS)
    spec.ffn = parts & PART_EXPERTS ? sparse_of(r) : dense_of(r);
  if (r->keyless_wide && makes_no_keys(r, i))
    spec.ffn.width *= 2;
  if (r->branched && parts & PART_ATTENTION) {
    spec.branch = TRUE;
    spec.norms = 4; /* one of them twice as wide */
    spec.gate_rank = r->branch_rank;
    spec.qkv_rank = r->branch_qkv ? r->branch_rank : 0;
  }
  spec.side = r->side;
  spec.gated_norms = r->norm_gates ? (parts & PART_EXPERTS ? 2 : 1) : 0;
  spec.global_tokens = stack->encoder ? r->global_tokens : 0;
  spec.ffn.router_carries = spec.ffn.router_width && i > 0;
  spec.prompts = r->prompts;
  spec.adapter = r->adapter_reduction ? r->hidden / r->adapter_reduction : 0;
  spec.conv = r->conv;
  spec.laurel = r->laurel;
  spec.norms += (r->laurel ? 1 : 0) + (r->streams > 1 && r->stream_kind == STREAMS_ALTUP ? 1 : 0);
  spec.ffn.sparse_gate = r->sparse_gates && r->sparse_gates[i];
  spec.shift_mixes = r->shift_mixes;
  spec.residual_scales = r->residual_scales;
  spec.norms += (r->side ? 1 : 0) - (r->first_unnormed && i == 0 ? 1 : 0);
  spec.norms += r->norm_of_experts && parts & PART_EXPERTS ? 1 : 0;
  return spec;
}

/* What encoders have of their own. */
static Recipe recipe_of_stack(const Recipe *r, const Stack *stack)
{
  Recipe own = *r;

  if (stack->encoder && r->encoder_heads) {
    own.heads = own.kv_heads = r->encoder_heads;
    own.head_dim = own.v_head_dim = r->hidden / r->encoder_heads;
  }
  if (stack->encoder && r->both_ways && r->window > 0)
    own.window = 2 * r->window + 1;
  if (stack->encoder && r->encoder_ffn)
    own.ffn = own.expert_ffn = r->encoder_ffn;
  return own;
}

static LayerSpec block_of(const Model *m, const Recipe *r, const Stack *stack, int i)
{
  Recipe own = recipe_of_stack(r, stack);
  return block_with(m, &own, stack, i, recipe_parts(r, i));
}

static void add_stack(Model *m, const Recipe *r, const Stack *stack)
{
  for (int i = 0; i < stack->blocks; i++) {
    LayerSpec block = block_of(m, r, stack, i);
    add_layer(m, &block);
  }
  m->blocks += stack->blocks;
}

/* Of the only stack, where tokens go through layers again. */
static void add_uses(Model *m, const Recipe *r, const Stack *stack)
{
  for (int i = 0; i < r->n_uses; i++) {
    const BlockUse *use = &r->uses[i];
    LayerSpec block = block_of(m, r, stack, use->layer);
    block.reused = use->reused;
    block.detached = use->detached;
    block.joined = use->joined;
    block.norms += use->norms;
    add_layer(m, &block);
  }
  m->blocks += r->n_uses;
}

/* Modules are alike, each with a block like the last one. */
static void add_mtp(Model *m, const Recipe *r, const Stack *stack)
{
  int last = stack->blocks - 1;
  LayerSpec module = block_with(m, r, stack, last, r->mtp_parts ? r->mtp_parts : recipe_parts(r, last));
  LayerSpec head = {.kind = LAYER_HEAD, .norms = 1, .again = TRUE};
  module.kind = LAYER_MTP;
  for (int i = 0; i < r->mtp; i++) {
    add_layer(m, &module);
    add_layer(m, &head);
  }
  m->mtp = r->mtp;
}

static void add_layers(Model *m, const Recipe *r)
{
  gboolean two = r->encoder_layers > 0;
  LayerSpec embedding = {.kind = LAYER_EMBEDDING, .norms = r->embedding_norm ? 1 : 0, .encoder = two,
                         .prompts = r->prompts};
  LayerSpec head = {.kind = LAYER_HEAD, .norms = r->final_norm ? 1 : 0};
  Stack encoder = {.blocks = r->encoder_layers, .encoder = TRUE};
  Stack decoder = {.blocks = r->layers, .cross = two, .causal = !r->bidirectional};
  m->layers = g_new(int, (gsize)r->encoder_layers + MAX(r->layers, r->n_uses) + 2 + 2 * (gsize)r->mtp);
  add_layer(m, &embedding);
  add_stack(m, r, &encoder);
  m->encoder_blocks = m->blocks;
  if (r->uses)
    add_uses(m, r, &decoder);
  else
    add_stack(m, r, &decoder);
  add_mtp(m, r, &decoder);
  add_layer(m, &head);
}

static Model *model_new(Recipe *r)
{
  gboolean learned = r->position_kind == POSITIONS_LEARNED;
  Model *m = g_new0(Model, 1);
  *m = (Model){
    .name = g_steal_pointer(&r->name),
    .family = g_strdup(r->family),
    .hidden = r->hidden,
    .vocab = r->vocab,
    .encoder_vocab = r->encoder_layers ? r->encoder_vocab : 0,
    .classes = r->classes,
    .embed_dim = r->embed_dim,
    .narrow_embedding = r->narrow_embedding && r->embed_dim != r->hidden,
    .head_width = r->head_width ? r->head_width : r->embed_dim,
    .streams = MAX(r->streams, 1),
    .stream_kind = r->stream_kind,
    .rotary_rows = r->rotary_table ? r->positions : 0,
    .seq = r->seq,
    .seq_longest = r->seq_longest,
    .position_rows = learned ? r->positions + r->extra_rows : 0,
    .languages = r->adapter_reduction ? r->languages : 0,
    .entry_rows = learned ? r->entry_positions : 0,
    .global_rows = r->global_tokens,
    .beside = { r->beside[0], r->beside[1] },
    .beside_joined = r->beside_joined,
    .beside_read = r->beside_read,
    .prompts = r->prompts,
    .prompt_rows = r->prompt_rows,
    .position_offset = learned ? r->extra_rows + r->first_position : 0,
    .patch = r->patch,
    .channels = r->channels,
    .global_batch_size = r->global_batch_size,
    .norm = r->norm,
    .norm_bias = r->norm_bias,
    .bare_norms = r->bare_norms,
    .norm_rank = r->norm_gates ? r->norm_rank : 0,
    .positions = r->position_kind,
    .tied_embeddings = r->tied,
    .embedding_norm = r->embedding_norm,
    .dropout = r->dropout > 0,
    .head_bias = r->head_bias,
    .logit_scales = r->unit_sphere,
    .affine_residuals = r->conv_each > 0,
    .router_state = r->router_width,
    .initial_state = r->loops == LOOPS_CYCLES,
    .output_norms = r->output_norms,
    .nope_interval = r->nope_interval,
    .post_norm = r->post_norm,
    .token_types = r->token_types,
    .side = r->side,
    .side_vocab = r->side ? r->side_vocab : 0,
    .mlm_head = r->mlm_head,
    .mlm_bias = r->mlm_head && !r->bare_mlm,
    .pooler = r->pooler,
    .bare_pooler = r->bare_pooler,
    .rope_theta = r->position_kind == POSITIONS_ROPE ? r->rope_theta : 0,
    .rope_scaling = r->rope_scaling,
    .rotary_share = r->rotary_share ? r->rotary_share : 1,
    .norm_epsilon = r->norm_epsilon,
    .balance_loss = r->experts ? r->balance_loss : 0,
    .balance_each = r->experts && r->balance_loss > 0 && r->balance_each,
    .routed_scale = r->experts ? r->routed_scale : 0,
    .predicted = r->sparse_prediction ? r->mlm_probability : 1,
    .sparse = g_steal_pointer(&r->sparse),
  };
  return m;
}

Model *model_build(Recipe *r, const RecipeSource *source, GError **error)
{
  g_autoptr(Model) m = model_new(r);
  add_layers(m, r);
  if (!model_count(m)) {
    source_error(source, offsetof(Recipe, layers), error, "fewer than 2^63 parameters in all");
    return NULL;
  }
  return g_steal_pointer(&m);
}
