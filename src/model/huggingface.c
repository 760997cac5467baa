#include "model/family.h"

/* A field's key is its spellings, the usual one first. */
static const JsonField spelled[] = {
  RECIPE_INT("hidden_size n_embd d_model n_embed emb_dim", hidden, 1, MAX_HIDDEN),
  RECIPE_INT("num_hidden_layers n_layer num_layers n_layers", layers, 1, MAX_LAYERS),
  RECIPE_INT("num_decoder_layers decoder_layers", decoder_layers, 1, MAX_LAYERS),
  RECIPE_INT("encoder_layers", encoder_layers, 1, MAX_LAYERS),
  RECIPE_INT("encoder_attention_heads", encoder_heads, 1, MAX_HEADS),
  RECIPE_INT("encoder_ffn_dim", encoder_ffn, 1, MAX_FFN),
  RECIPE_INT("decoder_attention_heads", decoder_heads, 1, MAX_HEADS),
  RECIPE_INT("decoder_ffn_dim", decoder_ffn, 1, MAX_FFN),
  RECIPE_INT("num_attention_heads n_head num_heads n_heads attention_heads", heads, 1, MAX_HEADS),
  RECIPE_INT("num_key_value_heads num_kv_heads n_head_kv", kv_heads, 1, MAX_HEADS),
  RECIPE_INT("head_dim d_kv", head_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("intermediate_size n_inner ffn_dim d_ff ffn_hidden_size dff block_ff_dim", ffn, 1, MAX_FFN),
  RECIPE_INT("expansion_ratio intermediate_multiple_size", ffn_ratio, 1, 1024),
  RECIPE_INT("vocab_size tgt_vocab_size", vocab, MIN_VOCAB, MAX_VOCAB),
  RECIPE_INT("src_vocab_size", encoder_vocab, MIN_VOCAB, MAX_VOCAB),
  RECIPE_INT("max_position_embeddings n_positions n_ctx max_seq_len context_length "
             "max_encoder_position_embeddings", positions, 1, MAX_SEQ),
  RECIPE_INT("max_decoder_position_embeddings", entry_positions, 1, MAX_SEQ),
  RECIPE_INT("adapter_reduction_factor", adapter_reduction, 1, MAX_HIDDEN),
  RECIPE_INT("num_global_tokens", global_tokens, 0, MAX_SEQ / 4),
  RECIPE_INT("model_max_length", longest, 1, MAX_SEQ),
  RECIPE_INT("word_embed_proj_dim embedding_size input_embedding_size", embed_dim, 1, MAX_HIDDEN),
  RECIPE_INT("output_embedding_size", head_width, 1, MAX_HIDDEN),
  RECIPE_INT("block_size", sparse_block, 1, MAX_SEQ),
  RECIPE_INT("num_random_blocks", random_blocks, 0, MAX_SEQ),
  RECIPE_INT("q_lora_rank", q_lora_rank, 1, MAX_HIDDEN),
  RECIPE_INT("kv_lora_rank", kv_lora_rank, 1, MAX_HIDDEN),
  RECIPE_INT("qk_nope_head_dim", nope_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("qk_rope_head_dim", rope_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("v_head_dim", v_head_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("index_n_heads", index_heads, 1, MAX_HEADS),
  RECIPE_INT("index_head_dim", index_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("index_topk", index_top, 1, MAX_SEQ),
  RECIPE_INT("index_block_size", index_block, 1, MAX_SEQ),
  RECIPE_INT("index_topk_blocks", index_blocks, 1, MAX_SEQ),
  RECIPE_INT("hc_mult altup_num_inputs", streams, 1, 64),
  RECIPE_INT("d_rel", rel_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("rel_extent", rel_extent, 1, MAX_SEQ),
  RECIPE_INT("conv_kernel_size sconv_kernel_size", conv, 1, MAX_CONV),
  RECIPE_INT("swa_num_key_value_heads", window_kv_heads, 1, MAX_HEADS),
  RECIPE_INT("laurel_rank", laurel, 1, MAX_HIDDEN),
  RECIPE_INT("gated_norm_rank", norm_rank, 1, MAX_HIDDEN),
  RECIPE_INT("keep_window_size", mask_keep, 1, MAX_SEQ),
  RECIPE_INT("num_experts num_local_experts n_routed_experts moe_num_experts", experts, 0, MAX_EXPERTS),
  RECIPE_INT("num_experts_per_tok experts_per_token num_experts_per_token moe_k "
             "moe_topk", experts_per_token, 1, MAX_EXPERTS),
  RECIPE_INT("n_group num_expert_group", groups, 1, MAX_EXPERTS),
  RECIPE_INT("topk_group", groups_per_token, 1, MAX_EXPERTS),
  RECIPE_INT("moe_intermediate_size expert_ffn_hidden_size", expert_ffn, 1, MAX_FFN),
  RECIPE_INT("zero_expert_num", idle, 0, MAX_EXPERTS),
  RECIPE_INT("moe_latent_size", latent, 1, MAX_HIDDEN),
  RECIPE_INT("shared_expert_intermediate_size moe_shared_expert_intermediate_size shared_intermediate_size "
             "shared_experts_intermediate_size", shared_ffn, 0, MAX_FFN),
  RECIPE_INT("n_shared_experts num_shared_experts moe_num_shared_experts", shared_experts, 0, MAX_EXPERTS),
  RECIPE_INT("first_k_dense_replace moe_layer_start_index dense_mlp_idx num_dense_layers", first_dense, 0, MAX_LAYERS),
  RECIPE_INT("decoder_sparse_step encoder_sparse_step", sparse_step, 1, MAX_LAYERS),
  RECIPE_INT("full_attention_interval layer_group_size attn_layer_period", attention_every, 1, MAX_LAYERS),
  RECIPE_INT("attn_layer_offset", attention_offset, 0, MAX_LAYERS),
  RECIPE_INT("expert_layer_period", expert_every, 1, MAX_LAYERS),
  RECIPE_INT("expert_layer_offset", expert_offset, 0, MAX_LAYERS),
  RECIPE_INT("mamba_num_heads mamba_n_heads linear_num_value_heads linear_num_heads", linear.heads, 1, MAX_HEADS),
  RECIPE_INT("mamba_head_dim linear_value_head_dim linear_head_dim", linear.head_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("n_groups mamba_n_groups linear_num_key_heads", linear.groups, 1, MAX_HEADS),
  RECIPE_INT("ssm_state_size mamba_d_state state_size linear_key_head_dim", linear.state, 1, MAX_HEAD_DIM),
  RECIPE_INT("conv_kernel mamba_d_conv linear_conv_kernel_dim short_conv_kernel_size conv_L_cache "
             "conv1d_width", linear.conv, 1, MAX_CONV),
  RECIPE_INT("mamba_d_ssm", linear_width, 1, MAX_FFN),
  RECIPE_INT("lru_width attention_hidden_size", linear_width, 1, MAX_HIDDEN),
  RECIPE_INT("block_multiple_of ffn_round_up_to_multiple_of", ffn_multiple, 1, MAX_FFN),
  RECIPE_INT("chunk_size mamba_chunk_size", linear.chunk, 1, MAX_SEQ),
  RECIPE_INT("expand mamba_expand", linear_expand, 1, 1024),
  RECIPE_INT("intermediate_size_mlp dense_intermediate_size", ffn_dense, 1, MAX_FFN),
  RECIPE_INT("interleave_moe_layer_step moe_layer_interval", sparse_step, 1, MAX_LAYERS),
  RECIPE_INT("sliding_window attention_chunk_size window_size attention_window_size", window, 0, MAX_SEQ),
  RECIPE_INT("max_window_layers", window_from, 0, MAX_LAYERS),
  RECIPE_INT("sliding_window_pattern _sliding_window_pattern "
             "global_attn_every_n_layers", window_pattern, 1, MAX_LAYERS),
  RECIPE_INT("local_attention", local_radius, 2, MAX_SEQ),
  RECIPE_BOOL("use_sliding_window", use_window),
  RECIPE_INT("no_rope_layer_interval", nope_interval, 0, MAX_LAYERS),
  RECIPE_INT("relative_attention_num_buckets", buckets, 1, 65536),
  RECIPE_INT("local_radius", local_radius, 1, MAX_SEQ / 4),
  RECIPE_INT("type_vocab_size", token_types, 1, MAX_SEQ),
  RECIPE_INT("hidden_size_per_layer_input", side, 0, MAX_HEAD_DIM),
  RECIPE_INT("vocab_size_per_layer_input", side_vocab, 1, MAX_VOCAB),
  RECIPE_INT("global_head_dim", full_head_dim, 1, MAX_HEAD_DIM),
  RECIPE_INT("num_global_key_value_heads", global_kv_heads, 1, MAX_HEADS),
  RECIPE_INT("num_kv_shared_layers", keyless, 0, MAX_LAYERS),
  RECIPE_INT("num_sparse_encoder_layers", sparse_encoder, 0, MAX_LAYERS),
  RECIPE_INT("num_sparse_decoder_layers", sparse_decoder, 0, MAX_LAYERS),
  RECIPE_INT("image_size", image, 1, MAX_IMAGE),
  RECIPE_INT("patch_size", patch, 1, MAX_IMAGE),
  RECIPE_INT("num_channels", channels, 1, MAX_CHANNELS),
  RECIPE_INT("num_labels", classes, 1, MAX_VOCAB),
  RECIPE_INT("num_ln_in_parallel_attn", parallel_norms, 1, 2),
  RECIPE_BOOL("tie_word_embeddings tie_embedding", tied),
  RECIPE_BOOL("attention_bias", attention_bias),
  RECIPE_BOOL("mlp_bias", ffn_bias),
  RECIPE_BOOL("attention_out_bias", out_bias),
  RECIPE_BOOL("router_bias", router_bias),
  RECIPE_BOOL("qkv_bias use_qkv_bias", qkv_bias),
  RECIPE_BOOL("lm_head_bias decoder_bias", head_bias),
  RECIPE_BOOL("attention_k_eq_v", full_key_is_value),
  RECIPE_BOOL("use_double_wide_mlp", keyless_wide),
  RECIPE_BOOL("norm_bias", norm_bias),
  RECIPE_BOOL("bias enable_bias use_bias", bias),
  RECIPE_BOOL("use_conv_bias mamba_conv_bias", linear.conv_bias),
  RECIPE_BOOL("mamba_proj_bias conv_bias", linear.bias),
  RECIPE_BOOL("mamba_rms_norm", linear_normed),
  RECIPE_BOOL("block_auto_adjust_ff_dim", ffn_adjusted),
  RECIPE_BOOL("use_attention_gate", gate_of_head),
  RECIPE_BOOL("use_expert_bias", router_correction),
  RECIPE_BOOL("use_qk_norm qk_layernorm", qk_norm),
  RECIPE_BOOL("use_post_norm use_sandwich_norm", norms_behind),
  RECIPE_BOOL("parallel_attn use_parallel_residual", parallel),
  RECIPE_BOOL("multi_query", multi_query),
  RECIPE_BOOL("new_decoder_architecture", new_decoder),
  RECIPE_BOOL("alibi", alibi),
  RECIPE_BOOL("do_layer_norm_before", norm_before),
  RECIPE_BOOL("_remove_final_layer_norm", remove_final_norm),
  RECIPE_STRING("feed_forward_proj", ffn_projection),
  RECIPE_STRING("topk_method", topk_method),
  RECIPE_STRING("position_embedding_type", position_type),
  RECIPE_STRING("attention_type", attention_type),
  RECIPE_REAL("resid_pdrop dropout dropout_rate hidden_dropout hidden_dropout_prob residual_dropout", dropout, 0, 1),
  RECIPE_REAL("block_ffn_dim_multiplier", ffn_multiplier, 1e-6, 1e6),
  RECIPE_REAL("ffn_proj_factor", ffn_multiplier, 1e-6, 1024),
  RECIPE_REAL("qk_dim_factor", key_factor, 1e-6, 1024),
  RECIPE_REAL("v_dim_factor", value_factor, 1e-6, 1024),
  RECIPE_REAL("rope_theta rotary_emb_base", rope_theta, 1, 1e15),
  RECIPE_REAL("partial_rotary_factor rotary_pct", rotary_share, 0, 1),
  RECIPE_REAL("rms_norm_eps layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps", norm_epsilon, 1e-30, 1),
  RECIPE_REAL("router_aux_loss_coef aux_loss_alpha", balance_loss, 0, 1e6),
  RECIPE_BOOL("seq_aux", balance_each),
  RECIPE_REAL("routed_scaling_factor", routed_scale, 1e-6, 1e6),
};

/* Ours, which a copy of their file in models/ may carry. */
static const JsonField own_fields[] = {
  RECIPE_INT("seq", seq, 1, MAX_SEQ),
  RECIPE_INT("mtp_num_layers", mtp, 0, 16),
  RECIPE_INT("global_batch_size", global_batch_size, 1, G_MAXINT),
  RECIPE_BOOL("sparse_prediction", sparse_prediction),
  RECIPE_REAL("mlm_probability", mlm_probability, 0.001, 1),
};

/* A field for each spelling. */
static gpointer split_spellings(gpointer data)
{
  GArray *fields = g_array_new(FALSE, FALSE, sizeof(JsonField));

  (void)data;
  for (gsize i = 0; i < G_N_ELEMENTS(spelled); i++) {
    g_auto(GStrv) keys = g_strsplit(spelled[i].key, " ", -1);
    for (char **key = keys; *key; key++) {
      JsonField field = spelled[i];
      field.key = g_intern_string(*key);
      g_array_append_val(fields, field);
    }
  }
  return fields;
}

static RecipeSource source_of(const JsonDoc *doc, const cJSON *object)
{
  static GOnce once = G_ONCE_INIT;
  const GArray *fields = g_once(&once, split_spellings, NULL);

  return (RecipeSource) { doc, object, (const JsonField *)(gconstpointer)fields->data, fields->len };
}

static gboolean check_aliases(const RecipeSource *source, GError **error)
{
  const JsonField *fields = source->fields;

  for (gsize i = 1; i < source->n_fields; i++) {
    const cJSON *item = json_get(source->object, fields[i].key);
    if (!item || fields[i].offset != fields[i - 1].offset)
      continue;
    const cJSON *first = source_item(source, fields[i].offset);
    if (first != item && !cJSON_Compare(first, item, TRUE)) {
      g_autofree char *value = cJSON_PrintUnformatted(first);
      return json_error(source->doc, item, error, "the value of its other spelling %s, %s",
                        first->string, value);
    }
  }
  return TRUE;
}

/* An explicit null means "none", where absence means the class's default. */
static void clear_nulls(const RecipeSource *source, Recipe *r)
{
  const JsonField *fields = source->fields;

  for (gsize i = 0; i < source->n_fields; i++)
    if (fields[i].type == JSON_INT && cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(source->object, fields[i].key)))
      G_STRUCT_MEMBER(int, r, fields[i].offset) = 0;
}

/* Since version 5 of transformers rotary positions have an object, or one for each kind of layer; before, their scaling
 * had one. */
static gboolean read_rope(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField rope[] = {
    RECIPE_REAL("rope_theta", rope_theta, 1, 1e15),
    RECIPE_REAL("partial_rotary_factor", rotary_share, 0, 1),
  };
  const cJSON *object = json_get(source->object, "rope_parameters"), *before = json_get(source->object, "rope_scaling");
  const cJSON *full = cJSON_IsObject(object) ? json_get(object, r->conv_each ? "hybrid" : "full_attention") : NULL;

  object = cJSON_IsObject(full) ? full : object;
  if (!recipe_read_rope_scaling(source->doc, cJSON_IsObject(object) ? object : before, json_read_foreign, r, error))
    return FALSE;
  return !cJSON_IsObject(object) || json_read_foreign(source->doc, object, rope, G_N_ELEMENTS(rope), r, error);
}

/* Named classes count if their number is not given. */
static void read_classes(const cJSON *object, Recipe *r)
{
  const cJSON *names = json_get(object, "id2label");
  if (cJSON_IsObject(names) && names->child && !json_get(object, "num_labels"))
    r->classes = cJSON_GetArraySize(names);
}

static void read_first_position(const cJSON *object, Recipe *r)
{
  const cJSON *padding = json_get(object, "pad_token_id");

  if (r->first_position && cJSON_IsNumber(padding) && padding->valuedouble >= 0 && padding->valuedouble < MAX_VOCAB)
    r->first_position = (int)padding->valuedouble + 1;
  if (r->own_tables && r->extra_rows && cJSON_IsNumber(padding) && padding->valuedouble >= 0)
    r->extra_rows = (int)MIN(padding->valuedouble, MAX_VOCAB) + 1;
}

/* Models of several heads say by their class which they train. */
static void read_heads(const cJSON *object, Recipe *r)
{
  if (huggingface_names_class(object, "ForPreTraining")) {
    r->pooler = TRUE;
    r->bare_pooler = FALSE;
  }
}

static char *read_name(const JsonDoc *doc)
{
  static const char *const keys[] = {"name", "_name_or_path"};
  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++) {
    const cJSON *item = json_get(json_root(doc), keys[i]);
    if (cJSON_IsString(item) && *item->valuestring)
      return g_strdup(item->valuestring);
  }
  return recipe_default_name(doc);
}

/* What one key of a family says of its gate or activation, in words or not. */
static void read_words(const cJSON *object, Recipe *r)
{
  const cJSON *gating = json_get(object, "gating"), *act = json_get(object, "hidden_act");

  if (r->gate_of_head && gating && !cJSON_IsTrue(gating)) {
    r->gate_of_head = cJSON_IsString(gating) && g_str_equal(gating->valuestring, "per-head");
    r->attention_gate = !r->gate_of_head;
  }
  if (r->mlp == MLP_XIELU && cJSON_IsString(act) && !g_str_equal(act->valuestring, "xielu"))
    r->mlp = MLP_GELU;
}

/* A width of each layer, which are the same. */
static gboolean read_listed(const RecipeSource *source, const cJSON *list, Recipe *r, GError **error)
{
  if (!r->layers)
    return TRUE;
  g_autofree int *widths = g_new(int, r->layers);
  int n = json_get_ints(source->doc, list, widths, r->layers, 1, MAX_FFN, error), alike = 0;
  while (alike < n && widths[alike] == widths[0])
    alike++;
  if (n >= 0 && alike < r->layers)
    return json_error(source->doc, list, error, "a number, or the same for each of %d layers", r->layers);
  r->ffn = widths[0];
  return n >= 0;
}

/* xLSTM's names of depth and width: its class makes num_blocks blocks, whatever num_hidden_layers says, and an
 * embedding of embedding_dim, which the blocks read. */
static gboolean read_xlstm(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField names[] = { RECIPE_INT("num_blocks", layers, 1, MAX_LAYERS),
                                     RECIPE_INT("embedding_dim", hidden, 1, MAX_HIDDEN) };
  const cJSON *hidden = json_get(source->object, "hidden_size"), *width = json_get(source->object, "embedding_dim");

  if (r->linear.kind != LINEAR_MLSTM)
    return TRUE;
  if (hidden && width && !cJSON_Compare(hidden, width, TRUE))
    return json_error(source->doc, width, error, "%d as hidden_size, all that its class takes", r->hidden);
  return json_read_foreign(source->doc, source->object, names, G_N_ELEMENTS(names), r, error);
}

/* Sizes by the table, but a list where a family may have one. */
static gboolean read_fields(const RecipeSource *source, Recipe *r, GError **error)
{
  const cJSON *width = json_get(source->object, "intermediate_size");
  const cJSON *list = r->listed_ffn && cJSON_IsArray(width) ? width : NULL;
  g_autofree JsonField *own = g_new(JsonField, source->n_fields);
  gsize n = 0;

  for (gsize i = 0; i < source->n_fields; i++)
    if (!list || !g_str_equal(source->fields[i].key, list->string))
      own[n++] = source->fields[i];
  return json_read_foreign(source->doc, source->object, own, n, r, error) &&
         (!list || read_listed(source, list, r, error)) && read_xlstm(source, r, error);
}

static gboolean read_recipe(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField outer[] = { RECIPE_BOOL("tie_word_embeddings", tied) };
  const JsonDoc *doc = source->doc;
  clear_nulls(source, r);
  if (source->object != json_root(doc) &&
      !json_read_foreign(doc, json_root(doc), outer, G_N_ELEMENTS(outer), r, error))
    return FALSE;
  if (!read_fields(source, r, error) ||
      !json_read_foreign(doc, json_root(doc), own_fields, G_N_ELEMENTS(own_fields), r, error) ||
      (r->own_tables && !json_read_foreign(doc, json_root(doc), outer, G_N_ELEMENTS(outer), r, error)) ||
      !check_aliases(source, error) || !huggingface_check(source, r, error) ||
      !huggingface_read_layers(source, r, error) || !read_rope(source, r, error))
    return FALSE;
  read_classes(source->object, r);
  read_first_position(source->object, r);
  read_heads(source->object, r);
  read_words(source->object, r);
  r->name = read_name(doc);
  return TRUE;
}

/* What most configuration classes take where neither the file nor the family says it. */
static void fill_usual(Recipe *r)
{
  if (!r->norm_epsilon)
    r->norm_epsilon = r->norm == NORM_RMSNORM ? 1e-6 : 1e-5;
  if (!r->rope_theta)
    r->rope_theta = 10000;
}

/* Keys that mean something in other families only. */
static void drop_foreign(Recipe *r, const Recipe *defaults)
{
  if (!defaults->patch)
    r->patch = r->classes = 0;
  if (!defaults->buckets)
    r->buckets = 0;
  if (!defaults->full_head_dim)
    r->full_kv_heads = r->full_head_dim = r->full_key_is_value = r->keyless_wide = 0;
  if (!defaults->full_head_dim && !defaults->side)
    r->side = r->keyless = 0;
  if (!defaults->adapter_reduction)
    r->adapter_reduction = 0;
  if (!defaults->entry_positions)
    r->entry_positions = 0;
  if (!defaults->global_tokens)
    r->global_tokens = 0;
  if (!defaults->doubled)
    r->idle = 0;
  if (!defaults->rel_dim)
    r->rel_dim = r->conv = r->window_kv_heads = 0;
  if (!defaults->laurel)
    r->laurel = 0;
  if (!defaults->narrow_embedding && !defaults->norm_before)
    r->embed_dim = 0;
  if (!defaults->two_stacks)
    r->encoder_layers = r->encoder_heads = r->encoder_ffn = 0;
  if (!defaults->head_width)
    r->head_width = 0;
  if (!defaults->own_tables)
    r->encoder_vocab = 0;
  if (!defaults->mlm_head)
    r->pooler = r->sparse_prediction = r->token_types = 0;
  if (!defaults->kv_lora_rank)
    r->q_lora_rank = r->kv_lora_rank = 0;
  else
    r->qk_norm = FALSE;
  if (!defaults->v_head_dim && !defaults->kv_lora_rank)
    r->v_head_dim = 0;
  if (!defaults->index_heads)
    r->index_heads = 0;
  if (!defaults->index_block)
    r->index_block = 0;
  if (!defaults->streams)
    r->streams = 0;
  if (!defaults->mask_keep)
    r->mask_keep = 0;
  if (!defaults->needs_experts && !defaults->experts)
    r->experts = 0;
  if (!defaults->has_linear)
    r->linear.heads = r->attention_every = 0;
}

/* The configuration of a decoder inside of a model for images or sound: Qwen's Omni has it in the part that thinks, and
 * InternVL under a name of its own. NULL without. */
static const cJSON *inner_of(const JsonDoc *doc)
{
  const cJSON *thinker = json_get(json_root(doc), "thinker_config"), *root = thinker ? thinker : json_root(doc);
  const cJSON *inner = json_get(root, "text_config");

  return inner ? inner : json_get(root, "llm_config");
}

/* Of such a decoder; the other parts are left out. */
static const Family *find_inner(const JsonDoc *doc, const cJSON **object)
{
  const cJSON *inner = inner_of(doc);
  const char *type = json_get_text(inner, "model_type");

  *object = inner;
  return type ? family_find(type) : NULL;
}

#define KIND "one of those that tdp-plan --list kinds names"

static gboolean refuse_type(const JsonDoc *doc, const cJSON *type, GError **error)
{
  const char *reason = cJSON_IsString(type) ? family_reason(type->valuestring) : NULL;
  const char *near = cJSON_IsString(type) ? family_near(type->valuestring) : NULL;

  if (!reason && near)
    return json_error(doc, type, error, KIND "; did you mean \"%s\"?", near);
  if (reason)
    return json_error(doc, type, error, "a model without %s: " KIND, reason);
  if (type)
    return json_error(doc, type, error, KIND "; blocks that are those of a Llama are read as \"llama\"");
  return json_missing(doc, json_root(doc), "model_type", KIND, error);
}

/* The family, and the object that holds its keys. */
static const Family *find_family(const JsonDoc *doc, const cJSON **object, GError **error)
{
  const cJSON *type = json_get(json_root(doc), "model_type");
  const char *name = cJSON_IsString(type) ? type->valuestring : "";
  const Family *family = family_find(name);
  const cJSON *inner;

  *object = json_root(doc);
  if (family && family->nested)
    *object = json_get_object(doc, json_root(doc), family->nested, TRUE, error);
  else if (family && find_inner(doc, &inner))
    family = find_inner(doc, object);
  else if (!family && !family_reason(name))
    family = find_inner(doc, object);
  if (!family) {
    const cJSON *own = family_reason(name) ? NULL : json_get(inner_of(doc), "model_type");
    refuse_type(doc, own ? own : type, error);
  }
  return family && *object ? family : NULL;
}

Model *huggingface_read(const JsonDoc *doc, GError **error)
{
  const cJSON *object;
  const Family *family = find_family(doc, &object, error);
  if (!family)
    return NULL;
  RecipeSource source = source_of(doc, object);
  Recipe r = family->defaults;
  r.family = family->model_type;
  Model *m = NULL;
  if (read_recipe(&source, &r, error)) {
    drop_foreign(&r, &family->defaults);
    fill_usual(&r);
    if (family->derive)
      family->derive(&r);
    recipe_read_interval(&r);
    if (huggingface_check_layers(&source, &r, error) && recipe_read_sparse(&r, doc, error) &&
        recipe_settle(&r, &source, error))
      m = model_build(&r, &source, error);
  }
  recipe_clear(&r);
  return m;
}
