#include "model/recipe.h"

enum { UNSET = -1 }; /* of a flag whose default depends on others */

#define REQUIRED_INT(key, field, high) {key, JSON_INT, offsetof(Recipe, field), TRUE, 1, high}
#define ENUM(key, field, list) {key, JSON_ENUM, offsetof(Recipe, field), .names = list}

static const char *const mlp_names[] = {"gelu", "swiglu", "relu2", "xielu", NULL};
static const char *const norm_names[] = {"layernorm", "rmsnorm", NULL};
static const char *const norm_position_names[] = {"pre", "post", NULL};
static const char *const linear_names[] = {"mamba2", "gated_delta_net", "lightning", "mamba1", "kimi_delta",
                                            "short_conv", NULL};
static const char *const position_names[] = {"none", "learned", "rope", "alibi", NULL};

/* README.md says what each means and its default. */
static const JsonField fields[] = {
  RECIPE_STRING("name", name),
  {"description", JSON_ANY},
  {"source", JSON_ANY},
  REQUIRED_INT("layers", layers, MAX_LAYERS),
  REQUIRED_INT("hidden", hidden, MAX_HIDDEN),
  RECIPE_INT("heads", heads, 1, MAX_HEADS),
  RECIPE_INT("kv_heads", kv_heads, 1, MAX_HEADS),
  RECIPE_INT("head_dim", head_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("ffn_hidden", ffn, 1, MAX_FFN),
  {"vocab", JSON_INT, offsetof(Recipe, vocab), TRUE, MIN_VOCAB, MAX_VOCAB},
  REQUIRED_INT("seq", seq, MAX_SEQ),
  ENUM("mlp", mlp, mlp_names),
  ENUM("norm", norm, norm_names),
  RECIPE_BOOL("norm_bias", norm_bias),
  RECIPE_BOOL("bare_norms", bare_norms),
  RECIPE_BOOL("inner_norms", inner_norms),
  ENUM("positions", position_kind, position_names),
  RECIPE_REAL("rope_theta", rope_theta, 1, 1e15),
  RECIPE_REAL("partial_rotary_factor", rotary_share, 0, 1),
  {"rope_scaling", JSON_ANY},
  RECIPE_REAL("norm_epsilon", norm_epsilon, 1e-30, 1),
  RECIPE_REAL("router_aux_loss_coef", balance_loss, 0, 1e6),
  RECIPE_BOOL("seq_aux", balance_each),
  RECIPE_REAL("routed_scaling_factor", routed_scale, 1e-6, 1e6),
  RECIPE_BOOL("tied_embeddings", tied),
  RECIPE_BOOL("bias", bias),
  RECIPE_BOOL("qkv_bias", qkv_bias),
  {"dropout", JSON_ANY},
  RECIPE_BOOL("embedding_norm", embedding_norm),
  RECIPE_BOOL("parallel_block", parallel),
  RECIPE_BOOL("qk_norm", qk_norm),
  RECIPE_BOOL("qk_norm_bias", qk_norm_bias),
  RECIPE_INT("window", window, 1, MAX_SEQ),
  RECIPE_BOOL("chunked", chunked),
  RECIPE_INT("sliding_window_pattern", window_pattern, 1, MAX_LAYERS),
  {"sparse_attention", JSON_ANY},
  {"layer_pattern", JSON_ANY},
  RECIPE_INT("full_attention_interval", attention_every, 1, MAX_LAYERS),
  ENUM("linear_attention", linear.kind, linear_names),
  RECIPE_INT("linear_heads", linear.heads, 1, MAX_HEADS),
  RECIPE_INT("linear_head_dim", linear.head_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("linear_groups", linear.groups, 1, MAX_HEADS),
  RECIPE_INT("linear_state", linear.state, 1, MAX_HEAD_DIM),
  RECIPE_INT("linear_conv", linear.conv, 0, MAX_CONV),
  RECIPE_INT("linear_chunk", linear.chunk, 1, MAX_SEQ),
  RECIPE_INT("linear_rank", linear.rank, 1, MAX_HIDDEN),
  RECIPE_BOOL("linear_plain", linear.plain),
  RECIPE_BOOL("linear_step_norms", linear.step_norms),
  RECIPE_BOOL("attention_gate", attention_gate),
  RECIPE_BOOL("head_gate", gate_of_head),
  RECIPE_BOOL("sinks", sinks),
  RECIPE_BOOL("causal", causal),
  ENUM("norm_position", post_norm, norm_position_names),
  RECIPE_INT("type_vocab_size", token_types, 1, MAX_SEQ),
  RECIPE_BOOL("mlm_head", mlm_head),
  RECIPE_BOOL("pooler", pooler),
  RECIPE_BOOL("sparse_prediction", sparse_prediction),
  RECIPE_REAL("mlm_probability", mlm_probability, 0.001, 1),
  RECIPE_INT("global_batch_size", global_batch_size, 1, G_MAXINT),
  RECIPE_INT("experts", experts, 1, MAX_EXPERTS),
  RECIPE_INT("experts_per_token", experts_per_token, 1, MAX_EXPERTS),
  RECIPE_INT("expert_groups", groups, 1, MAX_EXPERTS),
  RECIPE_INT("groups_per_token", groups_per_token, 1, MAX_EXPERTS),
  RECIPE_INT("expert_ffn_hidden", expert_ffn, 1, MAX_FFN),
  RECIPE_INT("expert_latent", latent, 1, MAX_HIDDEN),
  RECIPE_INT("shared_ffn_hidden", shared_ffn, 1, MAX_FFN),
  RECIPE_BOOL("shared_gate", shared_gate),
  RECIPE_BOOL("router_bias", router_bias),
  RECIPE_BOOL("router_correction", router_correction),
  RECIPE_BOOL("clamped", clamped),
  RECIPE_INT("first_dense_layers", first_dense, 0, MAX_LAYERS),
  RECIPE_INT("moe_every", sparse_step, 1, MAX_LAYERS),
  RECIPE_INT("mtp_num_layers", mtp, 0, 16),
  {"mtp_layer_pattern", JSON_ANY},
  RECIPE_INT("q_lora_rank", q_lora_rank, 1, MAX_HIDDEN),
  RECIPE_INT("kv_lora_rank", kv_lora_rank, 1, MAX_HIDDEN),
  RECIPE_INT("qk_nope_head_dim", nope_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("qk_rope_head_dim", rope_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("v_head_dim", v_head_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("index_heads", index_heads, 1, MAX_HEADS),
  RECIPE_INT("index_head_dim", index_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("index_topk", index_top, 1, MAX_SEQ),
};

/* Keys that mean nothing without another one, or beside it. */
static const struct {
  gsize offset, other;
  gboolean together;
} rules[] = {
  {offsetof(Recipe, experts_per_token), offsetof(Recipe, experts), TRUE},
  {offsetof(Recipe, expert_ffn), offsetof(Recipe, experts), TRUE},
  {offsetof(Recipe, groups), offsetof(Recipe, experts), TRUE},
  {offsetof(Recipe, groups_per_token), offsetof(Recipe, groups), TRUE},
  {offsetof(Recipe, shared_ffn), offsetof(Recipe, experts), TRUE},
  {offsetof(Recipe, shared_gate), offsetof(Recipe, shared_ffn), TRUE},
  {offsetof(Recipe, router_bias), offsetof(Recipe, experts), TRUE},
  {offsetof(Recipe, router_correction), offsetof(Recipe, experts), TRUE},
  {offsetof(Recipe, clamped), offsetof(Recipe, experts), TRUE},
  {offsetof(Recipe, sinks), offsetof(Recipe, heads), TRUE},
  {offsetof(Recipe, balance_each), offsetof(Recipe, balance_loss), TRUE},
  {offsetof(Recipe, routed_scale), offsetof(Recipe, experts), TRUE},
  {offsetof(Recipe, latent), offsetof(Recipe, experts), TRUE},
  {offsetof(Recipe, first_dense), offsetof(Recipe, experts), TRUE},
  {offsetof(Recipe, sparse_step), offsetof(Recipe, experts), TRUE},
  {offsetof(Recipe, q_lora_rank), offsetof(Recipe, kv_lora_rank), TRUE},
  {offsetof(Recipe, nope_dim), offsetof(Recipe, kv_lora_rank), TRUE},
  {offsetof(Recipe, rope_dim), offsetof(Recipe, kv_lora_rank), TRUE},
  {offsetof(Recipe, index_heads), offsetof(Recipe, kv_lora_rank), TRUE},
  {offsetof(Recipe, index_dim), offsetof(Recipe, index_heads), TRUE},
  {offsetof(Recipe, index_top), offsetof(Recipe, index_heads), TRUE},
  {offsetof(Recipe, window_pattern), offsetof(Recipe, window), TRUE},
  {offsetof(Recipe, chunked), offsetof(Recipe, window), TRUE},
  {offsetof(Recipe, linear.heads), offsetof(Recipe, linear.kind), TRUE},
  {offsetof(Recipe, linear.head_dim), offsetof(Recipe, linear.kind), TRUE},
  {offsetof(Recipe, linear.groups), offsetof(Recipe, linear.kind), TRUE},
  {offsetof(Recipe, linear.state), offsetof(Recipe, linear.kind), TRUE},
  {offsetof(Recipe, linear.conv), offsetof(Recipe, linear.kind), TRUE},
  {offsetof(Recipe, linear.chunk), offsetof(Recipe, linear.kind), TRUE},
  {offsetof(Recipe, linear.rank), offsetof(Recipe, linear.kind), TRUE},
  {offsetof(Recipe, linear.plain), offsetof(Recipe, linear.kind), TRUE},
  {offsetof(Recipe, linear.step_norms), offsetof(Recipe, linear.kind), TRUE},
  {offsetof(Recipe, attention_every), offsetof(Recipe, linear.kind), TRUE},
  {offsetof(Recipe, post_norm), offsetof(Recipe, parallel), FALSE},
  {offsetof(Recipe, pooler), offsetof(Recipe, mlm_head), TRUE},
  {offsetof(Recipe, sparse_prediction), offsetof(Recipe, mlm_head), TRUE},
  {offsetof(Recipe, mlm_probability), offsetof(Recipe, sparse_prediction), TRUE},
  {offsetof(Recipe, kv_heads), offsetof(Recipe, kv_lora_rank), FALSE},
  {offsetof(Recipe, head_dim), offsetof(Recipe, kv_lora_rank), FALSE},
  {offsetof(Recipe, qk_norm), offsetof(Recipe, kv_lora_rank), FALSE},
  {offsetof(Recipe, qk_norm_bias), offsetof(Recipe, qk_norm), TRUE},
  {offsetof(Recipe, norm_bias), offsetof(Recipe, bare_norms), FALSE},
  {offsetof(Recipe, qk_norm_bias), offsetof(Recipe, bare_norms), FALSE},
  {offsetof(Recipe, gate_of_head), offsetof(Recipe, attention_gate), FALSE},
};

#define KIND(kind) (1u << (kind))
#define BY_CHANNEL (KIND(LINEAR_MAMBA1) | KIND(LINEAR_SHORT_CONV))

/* Keys that mean nothing beside some kinds of linear attention. */
static const struct {
  gsize offset;
  guint not_of;
} kind_rules[] = {
  {offsetof(Recipe, linear.groups), BY_CHANNEL},
  {offsetof(Recipe, linear.chunk), BY_CHANNEL},
  {offsetof(Recipe, linear.plain), BY_CHANNEL},
  {offsetof(Recipe, linear.state), KIND(LINEAR_SHORT_CONV)},
  {offsetof(Recipe, linear.rank), ~(KIND(LINEAR_MAMBA1) | KIND(LINEAR_KIMI_DELTA))},
  {offsetof(Recipe, linear.step_norms), ~KIND(LINEAR_MAMBA1)},
};

static gboolean check_kind(const RecipeSource *source, const Recipe *r, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS(kind_rules); i++)
    if (source_item(source, kind_rules[i].offset) && kind_rules[i].not_of & KIND(r->linear.kind))
      return source_error(source, kind_rules[i].offset, error, "no such key beside linear_attention \"%s\"",
                          linear_names[r->linear.kind]);
  return TRUE;
}

static gboolean check_clamp(const RecipeSource *source, const Recipe *r, GError **error)
{
  return !r->clamped || r->mlp == MLP_SWIGLU ||
         source_error(source, offsetof(Recipe, clamped), error, "false without mlp \"swiglu\"");
}

static gboolean check_rules(const RecipeSource *source, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS(rules); i++) {
    gboolean other = source_item(source, rules[i].other) != NULL;
    if (source_item(source, rules[i].offset) && other != rules[i].together)
      return source_error(source, rules[i].offset, error, "this key only %s %s",
                          rules[i].together ? "beside" : "without",
                          source_key(source, rules[i].other));
  }
  return TRUE;
}

/* Llama's rule (Touvron et al. 2023): a gated feed-forward with the weights of a plain one, in 256s. */
static int default_ffn(const Recipe *r)
{
  gint64 width = (gint64)r->hidden * 8 / mlp_matrices(r->mlp);
  return r->mlp == MLP_SWIGLU ? (width + 255) / 256 * 256 : width;
}

static void fill_defaults(Recipe *r, const JsonDoc *doc)
{
  if (!r->name)
    r->name = recipe_default_name(doc);
  if (r->norm_bias == UNSET)
    r->norm_bias = r->norm == NORM_LAYERNORM;
  if (r->bias == UNSET)
    r->bias = r->norm == NORM_LAYERNORM;
  if (r->qkv_bias == UNSET)
    r->qkv_bias = r->bias;
  r->out_bias = r->ffn_bias = r->bias;
  r->head_bias = r->mlm_head;
  if (r->linear.conv == UNSET)
    r->linear.conv = r->linear.kind == LINEAR_LIGHTNING ? 0 : 4;
  r->linear.conv_bias = r->linear.kind == LINEAR_MAMBA2 || r->linear.kind == LINEAR_MAMBA1;
  r->final_norm = !r->post_norm;
  r->bidirectional = !r->causal;
  r->bias = FALSE;
  r->norms = r->parallel ? 1 : 2;
  r->positions = r->seq;
  if (!r->ffn)
    r->ffn = default_ffn(r);
}

/* true, or the rate. */
static gboolean read_dropout(const JsonDoc *doc, Recipe *r, GError **error)
{
  const cJSON *item = json_get(json_root(doc), "dropout");
  if (cJSON_IsBool(item))
    r->dropout = cJSON_IsTrue(item) ? 1 : 0;
  else if (cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 1)
    r->dropout = item->valuedouble;
  else if (item)
    return json_error(doc, item, error, "true, false or a rate from 0 up to 1");
  return TRUE;
}

static gboolean read_rope_scaling(const JsonDoc *doc, Recipe *r, GError **error)
{
  const cJSON *item = json_get(json_root(doc), "rope_scaling");

  if (item && (r->position_kind != POSITIONS_ROPE || !cJSON_IsString(json_get(item, "rope_type"))))
    return json_error(doc, item, error, "an object with rope_type, beside positions \"rope\"");
  return !item || recipe_read_rope_scaling(doc, item, json_read, r, error);
}

/* Layers of one part, and those of linear attention, have a norm before each part. */
static gboolean check_order(const RecipeSource *source, const Recipe *r, GError **error)
{
  gboolean plain = !r->parts && !r->attention_every;

  if (!plain && r->parallel)
    return source_error(source, offsetof(Recipe, parallel), error,
                        "false beside layer_pattern or full_attention_interval");
  return plain || !r->post_norm ||
         source_error(source, offsetof(Recipe, post_norm), error,
                      "\"pre\" beside layer_pattern or full_attention_interval");
}

/* A model with linear attention says which layers have it. */
static gboolean read_parts(const RecipeSource *source, Recipe *r, GError **error)
{
  const cJSON *pattern = json_get(source->object, "layer_pattern");
  const cJSON *mtp = json_get(source->object, "mtp_layer_pattern");
  gboolean linear = source_item(source, offsetof(Recipe, linear.kind)) != NULL;

  if (!recipe_read_pattern(r, source->doc, pattern, error))
    return FALSE;
  if (pattern && r->attention_every)
    return source_error(source, offsetof(Recipe, attention_every), error, "this key only without layer_pattern");
  if (r->parts ? recipe_has(r, PART_LINEAR) != linear : linear && !r->attention_every)
    return source_error(source, offsetof(Recipe, linear.kind), error, "%s", linear
                        ? "this key only with layers of it, by layer_pattern or full_attention_interval"
                        : "the kind of layers M of layer_pattern");
  r->mtp_parts = cJSON_IsString(mtp) ? recipe_pattern_parts(mtp->valuestring) : 0;
  if (mtp && (!r->mtp_parts || !pattern))
    return json_error(source->doc, mtp, error, "the parts of a module, a mixer first, as \"*E\", beside layer_pattern");
  recipe_read_interval(r);
  return TRUE;
}

static gboolean read_recipe(const RecipeSource *source, Recipe *r, GError **error)
{
  const JsonDoc *doc = source->doc;
  if (!json_read(doc, source->object, fields, G_N_ELEMENTS(fields), r, error))
    return FALSE;
  if (!read_dropout(doc, r, error) || !check_rules(source, error) || !check_kind(source, r, error) ||
      !check_clamp(source, r, error) || !read_rope_scaling(doc, r, error) || !read_parts(source, r, error) ||
      !check_order(source, r, error))
    return FALSE;
  fill_defaults(r, doc);
  return recipe_read_sparse(r, doc, error) && recipe_settle(r, source, error);
}

Model *native_read(const JsonDoc *doc, GError **error)
{
  RecipeSource source = {doc, json_root(doc), fields, G_N_ELEMENTS(fields)};
  Recipe r = {
    .family = "gpt",
    .position_kind = POSITIONS_LEARNED,
    .norm_bias = UNSET,
    .bias = UNSET,
    .qkv_bias = UNSET,
    .tied = TRUE,
    .causal = TRUE,
    .mlm_probability = 0.15,
    .use_window = TRUE,
    .linear.conv = UNSET,
  };
  Model *m = read_recipe(&source, &r, error) ? model_build(&r, &source, error) : NULL;
  recipe_clear(&r);
  return m;
}
