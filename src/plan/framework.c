#include "plan/framework.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/units.h"
#include "plan/keys.h"

#include <string.h>

const char *const recompute_names[] = { "none", "selective", "full", NULL };
const char *const context_exchange_names[] = { "p2p", "all_gather", "a2a", "a2a+p2p", NULL };
const char *const expert_dispatch_names[] = { "alltoall", "allgather", "flex", "hybridep", NULL };
const char *const fp8_recipe_names[] = { "none", "delayed", "current", "tensorwise", "rowwise", "blockwise",
                                         "mxfp8", "nvfp4", NULL };
static const char *const fp8_library_names[] = { "transformer-engine", "torchao", NULL };
const char *const memory_count_names[] = { "nvidia-smi", "max_allocated", "max_reserved", NULL };

#define FIELD(name) G_STRUCT_OFFSET(Framework, name)

/* Of operations of products, where a file says nothing: "more than 2x", casts and all (TransformerEngine#761). */
#define NARROW_OVER_WIDE 2

static const char *const engine_names[] = { "megatron", "deepspeed", "fsdp", "torchtitan", "nanotron", "maxtext", "jax",
                                            NULL };

/* The first of AttentionKernel. */
static const char *const without_flash_names[] = { "unfused", "efficient", NULL };
static const char *const placement_names[] = { "whole", "data", "folded", NULL };
static const char *const capacity_names[] = { "none", "drop", "pad", NULL };
static const char *const step_gradient_names[] = { "in_place", "copied", "flattened", NULL };
static const char *const placeholder_names[] = { "none", "passing", "kept", NULL };
static const char *const accumulation_names[] = { "none", "separate", "fused", NULL };

typedef struct {
  Framework framework;
  int engine;
  char *like;
  GChecksum *digest;
} Parsed;

static const JsonField fields[] = {
  { "name", JSON_STRING, FIELD(name), TRUE },
  { "like", JSON_STRING, G_STRUCT_OFFSET(Parsed, like), .optional = TRUE },
  { "description", JSON_ANY, .optional = TRUE },
  { "engine", JSON_ENUM, G_STRUCT_OFFSET(Parsed, engine), .names = engine_names },
  { "zero_stage_max", JSON_INT, FIELD(zero_max), FALSE, 0, 3 },
  { "zero_stage_max_with_pipeline", JSON_INT, FIELD(zero_max_pipeline), FALSE, 0, 3 },
  { "schedules", JSON_ANY },
  { "context_parallel", JSON_ANY },
  { "multi_token_prediction", JSON_BOOL, FIELD(mtp) },
  { "expert_parallel", JSON_ENUM, FIELD(experts), .names = placement_names },
  { "moe_token_dispatcher", JSON_ANY },
  { "moe_flex_node", JSON_INT, FIELD(flex_node), FALSE, 0, 8, .optional = TRUE },
  { "moe_expert_capacity", JSON_ENUM, FIELD(capacity), .names = capacity_names },
  { "moe_flex_quiets", JSON_INT, FIELD(flex_quiets), FALSE, 0, 4096, .optional = TRUE },
  { "moe_shared_expert_overlap", JSON_BOOL, FIELD(shared_overlap) },
  { "fp8_recipe", JSON_ENUM, FIELD(fp8), .names = fp8_recipe_names },
  { "fp8_recipes", JSON_ANY },
  { "fp8_param_gather", JSON_ANY, .optional = TRUE },
  { "fp8_param_gather_default", JSON_ANY, .optional = TRUE },
  { "fp8_primary", JSON_BOOL, FIELD(fp8_primary) },
  { "fp8_weight_cache", JSON_BOOL, FIELD(fp8_weight_cache), .optional = TRUE },
  { "offload_adds_on_device", JSON_BOOL, FIELD(offload_adds), .optional = TRUE },
  { "sparse_attention", JSON_ANY },
  { "shard_groups", JSON_BOOL, FIELD(shard_groups) },
  { "microbatch_groups", JSON_BOOL, FIELD(micro_groups) },
  { "tp_pp_dp_mapping", JSON_BOOL, FIELD(tp_pp_dp) },
  { "choices", JSON_ANY },
  { "sharding_options", JSON_ANY, .optional = TRUE }, /* the older name of choices */
  { "optimizers", JSON_ANY },
  { "state_dtypes", JSON_ANY },
  { "copied_buckets", JSON_BOOL, FIELD(copied_buckets) },
  { "single_process", JSON_BOOL, FIELD(single_process) },
  { "encoder_one_stage", JSON_BOOL, FIELD(encoder_one_stage), .optional = TRUE },
  { "layer_splits", JSON_ENUM, FIELD(splits), .names = split_kind_names },
  { "excludes", JSON_ANY },
  { "excludes_changes", JSON_ANY, .optional = TRUE },
  { "fp8_library", JSON_ENUM, FIELD(fp8_library), .names = fp8_library_names, .optional = TRUE },
  { "moe_grouped_kernels", JSON_BOOL, FIELD(grouped_kernels) },
  { "moe_routes_apart", JSON_BOOL, FIELD(routes_apart) },
  { "moe_fused_permutation", JSON_BOOL, FIELD(fused_permutation) },
  { "moe_weighs_inside", JSON_BOOL, FIELD(weighs_inside) },
  { "moe_weighs_wide", JSON_BOOL, FIELD(weighs_wide), .optional = TRUE },
  { "moe_sorts_by_index", JSON_BOOL, FIELD(sorts_by_index), .optional = TRUE },
  { "moe_indexes_received", JSON_BOOL, FIELD(indexes_received), .optional = TRUE },
  { "moe_pads_rows", JSON_BOOL, FIELD(pads_rows), .optional = TRUE },
  { "narrow_attention", JSON_BOOL, FIELD(narrow_attention) },
  { "moe_exchange_overlap", JSON_BOOL, FIELD(exchange_overlap) },
  { "moe_exchange_recompute", JSON_BOOL, FIELD(exchange_recompute) },
  { "cuda_graphs", JSON_ANY },
  { "moe_paged_stash", JSON_BOOL, FIELD(paged_stash) },
  { "moe_stash_recipes", JSON_ANY, .optional = TRUE },
  { "moe_stash_16_bits", JSON_BOOL, FIELD(stash_elsewhere), .optional = TRUE },
  { "adapters", JSON_ANY, .optional = TRUE },
  { "adapter_scales_outputs", JSON_BOOL, FIELD(adapter_scales_outputs), .optional = TRUE },
  { "kv_heads_divided", JSON_BOOL, FIELD(kv_heads_divided) },
  { "layer_strategies", JSON_BOOL, FIELD(strategies) },
  { "mixer_copies", JSON_BOOL, FIELD(mixer_copies), .optional = TRUE },
  { "fused_softmax", JSON_BOOL, FIELD(fused_softmax) },
  { "fused_activation", JSON_BOOL, FIELD(fused_activation) },
  { "fused_dropout_add", JSON_BOOL, FIELD(fused_dropout_add) },
  { "fused_rms_norm", JSON_BOOL, FIELD(fused_rms_norm) },
  { "compiled_norms", JSON_BOOL, FIELD(compiled_norms), .optional = TRUE },
  { "compiled_loss", JSON_BOOL, FIELD(compiled_loss), .optional = TRUE },
  { "triangular_softmax", JSON_BOOL, FIELD(triangular_softmax), .optional = TRUE },
  { "plain_norms", JSON_BOOL, FIELD(plain_norms), .optional = TRUE },
  { "wide_norm_inputs", JSON_BOOL, FIELD(wide_norm_inputs), .optional = TRUE },
  { "checkpointed_norms", JSON_BOOL, FIELD(checkpointed_norms), .optional = TRUE },
  { "fused_rope", JSON_BOOL, FIELD(fused_rope) },
  { "complex_rope", JSON_BOOL, FIELD(complex_rope), .optional = TRUE },
  { "repeats_keys", JSON_BOOL, FIELD(repeats_keys), .optional = TRUE },
  { "copies_split_qkv", JSON_BOOL, FIELD(copies_split_qkv), .optional = TRUE },
  { "qkv_bias_apart", JSON_BOOL, FIELD(qkv_bias_apart), .optional = TRUE },
  { "qkv_joined", JSON_BOOL, FIELD(qkv_joined), .optional = TRUE },
  { "scaled_rope_apart", JSON_BOOL, FIELD(scaled_rope_apart), .optional = TRUE },
  { "latent_rope_apart", JSON_BOOL, FIELD(latent_rope_apart), .optional = TRUE },
  { "separate_bias", JSON_BOOL, FIELD(separate_bias) },
  { "attention_copies", JSON_BOOL, FIELD(attention_copies) },
  { "table_gradients", JSON_BOOL, FIELD(table_gradients), .optional = TRUE },
  { "whole_vocabulary", JSON_BOOL, FIELD(whole_vocabulary) },
  { "fused_loss", JSON_BOOL, FIELD(fused_loss) },
  { "selective_products", JSON_BOOL, FIELD(selective_products) },
  { "selective_narrow", JSON_BOOL, FIELD(selective_narrow) },
  { "column_sums_apart", JSON_BOOL, FIELD(column_sums_apart), .optional = TRUE },
  { "copied_rows", JSON_BOOL, FIELD(copied_rows) },
  { "ring_returns", JSON_BOOL, FIELD(ring_returns), .optional = TRUE },
  { "ring_keeps_blocks", JSON_BOOL, FIELD(ring_keeps_blocks), .optional = TRUE },
  { "original_inputs", JSON_BOOL, FIELD(original_inputs), .optional = TRUE },
  { "losses_summed", JSON_BOOL, FIELD(losses_summed), .optional = TRUE },
  { "reduced_amax", JSON_BOOL, FIELD(reduced_amax), .optional = TRUE },
  { "recompute_modules", JSON_ANY },
  { "recompute_alike", JSON_BOOL, FIELD(recompute_alike) },
  { "recompute_stops_early", JSON_BOOL, FIELD(recompute_stops_early) },
  { "whole_tensors", JSON_BOOL, FIELD(whole_tensors) },
  { "muon_whole_zero_max", JSON_INT, FIELD(muon_whole_zero_max), FALSE, 0, 3, .optional = TRUE },
  { "fused_weights", JSON_BOOL, FIELD(fused_weights), .optional = TRUE },
  { "muon_gram", JSON_BOOL, FIELD(muon_gram), .optional = TRUE },
  { "muon_cuts", JSON_BOOL, FIELD(muon_cuts), .optional = TRUE },
  { "muon_by_bucket", JSON_BOOL, FIELD(muon_by_bucket), .optional = TRUE },
  { "stage_outputs", JSON_BOOL, FIELD(stage_outputs), .optional = TRUE },
  { "scatter_gather", JSON_BOOL, FIELD(scatter_gather) },
  { "overlap_gradients", JSON_BOOL, FIELD(overlap_gradients) },
  { "overlap_by_zero", JSON_BOOL, FIELD(overlap_by_zero) },
  { "overlap_parameters", JSON_BOOL, FIELD(overlap_parameters) },
  { "overlap_pipeline", JSON_BOOL, FIELD(overlap_pipeline) },
  { "stages_sum_once", JSON_BOOL, FIELD(stages_sum_once), .optional = TRUE },
  { "overlap_chunks_only", JSON_BOOL, FIELD(overlap_chunks_only) },
  { "overlap_tensor", JSON_BOOL, FIELD(overlap_tensor) },
  { "waits_for_whole_rows", JSON_BOOL, FIELD(waits_for_whole_rows), .optional = TRUE },
  { "fsdp_own_gradients", JSON_BOOL, FIELD(fsdp_own_gradients), .optional = TRUE },
  { "overlap_offload", JSON_BOOL, FIELD(overlap_offload) },
  { "attention", JSON_ENUM, FIELD(attention), .names = attention_kernel_names },
  { "attention_without_flash", JSON_ENUM, FIELD(attention_without_flash), .names = without_flash_names },
  { "accumulation", JSON_ENUM, FIELD(accumulation), .names = accumulation_names },
  { "gradient_placeholders", JSON_ENUM, FIELD(placeholders), .names = placeholder_names, .optional = TRUE },
  { "gradient_bytes", JSON_INT, FIELD(gradient_bytes), FALSE, 1, 8 },
  { "reduce_bytes", JSON_INT, FIELD(reduce_bytes), FALSE, 1, 8 },
  { "bf16_gradient_bytes", JSON_INT, FIELD(bf16_gradient_bytes), FALSE, 0, 8 },
  { "bf16_gradient_copy_bytes", JSON_INT, FIELD(bf16_gradient_copy_bytes), FALSE, 0, 8 },
  { "bf16_gradient_copy_dropped", JSON_BOOL, FIELD(bf16_gradient_copy_dropped), .optional = TRUE },
  { "shards_main_params", JSON_BOOL, FIELD(shards_main_params) },
  { "main_params_copied", JSON_BOOL, FIELD(main_params_copied), .optional = TRUE },
  { "root_group", JSON_BOOL, FIELD(root_group), .optional = TRUE },
  { "bf16_reduced_copy", JSON_BOOL, FIELD(bf16_reduced_copy) },
  { "step_gradients", JSON_ENUM, FIELD(step_gradients), .names = step_gradient_names, .optional = TRUE },
  { "fp16_step_copies", JSON_BOOL, FIELD(fp16_step_copies) },
  { "step_bytes", JSON_REAL, FIELD(step_bytes), FALSE, 0, 100 },
  { "updated_lists", JSON_BOOL, FIELD(updated_lists), .optional = TRUE },
  { "gather_mparams", JSON_REAL, FIELD(gather_params), FALSE, 0, 1e6, 1e6, .optional = TRUE },
  { "collectives_queued", JSON_BOOL, FIELD(collectives_queued), .optional = TRUE },
  { "vocab_multiple", JSON_INT, FIELD(vocab_multiple), FALSE, 1, 4096 },
  { "bucket_mparams", JSON_REAL, FIELD(bucket_params), FALSE, 0.001, 1e6, 1e6 },
  { "bucket_mparams_per_rank", JSON_REAL, FIELD(bucket_params_per_rank), FALSE, 0, 1e6, 1e6 },
  { "reduce_queue", JSON_INT, FIELD(reduce_queue), FALSE, 1, 1024 },
  { "reduce_queue_mparams", JSON_REAL, FIELD(reduce_queue_params), FALSE, 0, 1e6, 1e6 },
  { "cuda_version", JSON_REAL, FIELD(cuda_version), FALSE, 1, 1000 },
  { "issue_us", JSON_REAL, FIELD(issue_s), FALSE, 0, 1000, US },
  { "product_operations", JSON_REAL, FIELD(product_operations), FALSE, 1, 100 },
  { "narrow_product_operations", JSON_REAL, FIELD(narrow_product_operations), FALSE, 1, 100, .optional = TRUE },
  { "operation_us", JSON_REAL, FIELD(operation_s), FALSE, 0, 1000, US },
  { "collective_us", JSON_REAL, FIELD(collective_s), FALSE, 0, 1000, US },
  { "step_ms", JSON_REAL, FIELD(step_s), FALSE, 0, 1e5, 1e-3 },
  { "shard_tensors", JSON_INT, FIELD(shard_tensors), FALSE, 0, 1000 },
  { "shard_live_mparams", JSON_REAL, FIELD(shard_live_params), FALSE, 0, 1e6, 1e6 },
  { "shard_list_launches", JSON_INT, FIELD(shard_list_launches), FALSE, 0, 1000 },
  { "shard_copy_bytes", JSON_REAL, FIELD(shard_copy_bytes), FALSE, 0, 1000 },
  { "shard_gather_bytes", JSON_REAL, FIELD(shard_gather_bytes), FALSE, 0, 1000, .optional = TRUE },
  { "shard_reduce_bytes", JSON_REAL, FIELD(shard_reduce_bytes), FALSE, 0, 1000, .optional = TRUE },
  { "shard_gradient_bytes", JSON_REAL, FIELD(shard_gradient_bytes), FALSE, 0, 1000, .optional = TRUE },
  { "shard_sum_bytes", JSON_REAL, FIELD(shard_sum_bytes), FALSE, 0, 1000, .optional = TRUE },
  { "rest_gradient_bytes", JSON_REAL, FIELD(rest_gradient_bytes), FALSE, 0, 1000, .optional = TRUE },
  { "optimizer_bytes", JSON_REAL, FIELD(optimizer_bytes), FALSE, 1, 1000 },
  { "gradient_passes", JSON_REAL, FIELD(gradient_passes), FALSE, 0, 20 },
  { "context_gib", JSON_REAL, FIELD(context_bytes), FALSE, 0, 100, GIB },
  { "group_mib", JSON_REAL, FIELD(group_bytes), FALSE, 0, 1e5, MIB },
  { "graph_gib", JSON_REAL, FIELD(graph_bytes), FALSE, 0, 100, GIB, .optional = TRUE },
  { "stage_graph_gib", JSON_REAL, FIELD(stage_graph_bytes), FALSE, 0, 100, GIB, .optional = TRUE },
  { "bucket_copies", JSON_INT, FIELD(bucket_copies), FALSE, 0, 8 },
  { "ddp_bucket_bytes", JSON_REAL, FIELD(ddp_bucket_bytes), FALSE, 0, 8 },
  { "loss_bytes", JSON_REAL, FIELD(loss_bytes), FALSE, 4, 40 },
  { "divided_loss_bytes", JSON_REAL, FIELD(divided_loss_bytes), FALSE, 0, 40 },
  { "loss_chunks", JSON_INT, FIELD(loss_chunks), FALSE, 1, 1024 },
  { "executor_memory", JSON_BOOL, FIELD(executor_memory), .optional = TRUE },
  { "pairs_in_turn", JSON_BOOL, FIELD(pairs_in_turn), .optional = TRUE },
  { "loss_in_place", JSON_BOOL, FIELD(loss_in_place) },
  { "norm_row_values", JSON_INT, FIELD(norm_row_values), FALSE, 0, 4 },
  { "metric_bytes", JSON_REAL, FIELD(metric_bytes), FALSE, 0, 200 },
  { "loss_token_values", JSON_INT, FIELD(loss_token_values), FALSE, 0, 8 },
  { "fragmentation", JSON_REAL, FIELD(fragmentation), FALSE, 0, 0.5 },
  { "unstated", JSON_ANY, .optional = TRUE }, /* of validate/habits.c */
  { "source", JSON_ANY, .required = TRUE },
};

/* Every number of the file must have its reason, and a file
 * that starts from no other must have every key that is not optional. */
static gboolean check_keys(const JsonDoc *doc, gboolean whole, GError **error)
{
  const cJSON *root = json_root(doc), *source = json_get_object(doc, root, "source", TRUE, error);

  if (!source)
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS(fields); i++) {
    const char *key = fields[i].key;
    gboolean number = fields[i].type == JSON_REAL || fields[i].type == JSON_INT;
    gboolean older = g_str_equal(key, "choices") && json_get(root, "sharding_options");
    if (whole && !fields[i].optional && !older && !json_get(root, key))
      return json_error(doc, root, error, "the key %s, or \"like\" with the name of another framework", key);
    if (number && json_get(root, key) && !cJSON_IsString(json_get(source, key)))
      return json_error(doc, source, error, "a string that says where %s comes from", key);
  }
  return TRUE;
}

const char *framework_adapts_only(const Framework *f, const Adapter *a)
{
  if (!adapter_freezes(a) || f->adapters >> a->kind & 1)
    return NULL;
  return adapter_kind_names[f->adapters >> ADAPTER_LORA & 1 ? ADAPTER_LORA : ADAPTER_NONE];
}

char *fp8_recipes_text(guint recipes)
{
  GString *text = g_string_new(NULL);

  for (guint left = recipes & ((1u << FP8_NVFP4) - (1u << FP8_DELAYED)); left; left &= left - 1)
    g_string_append_printf(text, "%s%s", text->len == 0 ? "" : left & (left - 1) ? ", " : " or ",
                           fp8_recipe_names[g_bit_nth_lsf(left, -1)]);
  return g_string_free(text, FALSE);
}

char *framework_narrows_only(const Framework *f, DType format, Fp8Recipe recipe)
{
  guint own = f->fp8 ? f->fp8_recipes | 1u << f->fp8 : 0;

  if (format == DTYPE_FP8 ? own >> (recipe ? recipe : f->fp8) & 1
                          : format != DTYPE_FP4 || f->fp8_recipes >> FP8_NVFP4 & 1)
    return NULL;
  if (format == DTYPE_FP4 || !own)
    return g_strdup_printf("bf16, fp16 or fp32, %s has no %s recipe", f->name, dtype_names[format]);
  g_autofree char *recipes = fp8_recipes_text(own);
  return g_strdup_printf("%s with %s", recipes, f->name);
}

gboolean framework_runs(const Framework *framework, const Schedule *schedule)
{
  int i = schedule_index(schedule);

  return i >= 0 && framework->schedules >> i & 1;
}

/* Names of schedules as bits. */
static gboolean read_schedules(const JsonDoc *doc, guint64 *out, GError **error)
{
  const cJSON *names = json_get_array(doc, json_root(doc), "schedules", FALSE, error), *name;

  if (!names)
    return !json_get(json_root(doc), "schedules");
  *out = 0;
  cJSON_ArrayForEach(name, names) {
    int i = 0;
    while (schedules[i] && !(cJSON_IsString(name) && g_str_equal(schedules[i]->name, name->valuestring)))
      i++;
    if (!schedules[i])
      return json_error(doc, name, error, "the name of a schedule");
    *out |= G_GUINT64_CONSTANT(1) << i;
  }
  return TRUE;
}

/* Names of a list as bits; the first one is the default, untouched if the key is absent. */
static gboolean read_names(const JsonDoc *doc, const char *key, const char *const *known, guint *bits, int *first,
                           GError **error)
{
  const cJSON *names = json_get_array(doc, json_root(doc), key, FALSE, error), *name;

  if (!names)
    return !json_get(json_root(doc), key);
  *bits = 0;
  cJSON_ArrayForEach(name, names) {
    int i = cJSON_IsString(name) ? names_find(known, name->valuestring) : -1;
    if (i < 0) {
      g_autofree char *choices = g_strjoinv(", ", (char **)known);
      return json_error(doc, name, error, "one of %s", choices);
    }
    if (!*bits)
      *first = i;
    *bits |= 1u << i;
  }
  return TRUE;
}

static const char *const sparse_names[] = { "separate", "fused", NULL };

static const struct {
  const char *key;
  const char *const *names;
  gsize bits, first; /* first: 0 = it is none of the framework's */
} name_lists[] = {
  { "context_parallel", context_exchange_names, FIELD(context), FIELD(context_first) },
  { "moe_token_dispatcher", expert_dispatch_names, FIELD(dispatch), FIELD(dispatch_first) },
  { "sparse_attention", sparse_names, FIELD(sparse) },
  { "cuda_graphs", cuda_graph_names, FIELD(graphs) },
  { "adapters", adapter_kind_names, FIELD(adapters) },
  { "optimizers", optimizer_names, FIELD(optimizers) },
  { "state_dtypes", optimizer_state_names, FIELD(state_formats) },
  { "fp8_recipes", fp8_recipe_names, FIELD(fp8_recipes) },
  { "moe_stash_recipes", fp8_recipe_names, FIELD(stash_recipes) },
  { "fp8_param_gather", fp8_recipe_names, FIELD(param_gathers) },
  { "fp8_param_gather_default", fp8_recipe_names, FIELD(param_gathers_usual) },
};

/* A file of 0.1 that says fp8_primary gathers so under every recipe of fp8. */
static gboolean read_name_lists(const JsonDoc *doc, Framework *out, GError **error)
{
  gboolean older = json_get(json_root(doc), "fp8_primary") && out->fp8_primary &&
                   !json_get(json_root(doc), "fp8_param_gather");

  if (older)
    out->param_gathers = out->param_gathers_usual = ~(1u << FP8_NVFP4);
  for (gsize i = 0; i < G_N_ELEMENTS(name_lists); i++) {
    gsize bits = name_lists[i].bits, at = name_lists[i].first;
    int first = at ? G_STRUCT_MEMBER(int, out, at) : 0;
    if (!read_names(doc, name_lists[i].key, name_lists[i].names, &G_STRUCT_MEMBER(guint, out, bits), &first, error))
      return FALSE;
    if (at)
      G_STRUCT_MEMBER(int, out, at) = first;
  }
  return TRUE;
}

/* Ranks that open each other's memory come in powers of two. */
static gboolean check_flex_node(const JsonDoc *doc, const Framework *f, GError **error)
{
  if (f->flex_node != 1 && (f->flex_node & (f->flex_node - 1)) == 0)
    return TRUE;
  return json_error(doc, json_get(json_root(doc), "moe_flex_node"), error, "0, 2, 4 or 8");
}

/* Names of modules in their order. */
static gboolean read_modules(const JsonDoc *doc, Framework *out, GError **error)
{
  const cJSON *names = json_get_array(doc, json_root(doc), "recompute_modules", FALSE, error), *name;

  if (!names)
    return !json_get(json_root(doc), "recompute_modules");
  out->n_recompute_modules = 0;
  cJSON_ArrayForEach(name, names) {
    int i = cJSON_IsString(name) ? names_find(recompute_module_names, name->valuestring) : -1;
    gboolean fresh = i > MODULE_CORE_ATTN;
    for (int k = 0; k < out->n_recompute_modules; k++)
      fresh &= out->recompute_modules[k] != i;
    if (!fresh)
      return json_error(doc, name, error, "each once, of layernorm, mla_up_proj, mlp, moe, moe_act, shared_experts");
    out->recompute_modules[out->n_recompute_modules++] = i;
  }
  return TRUE;
}

static PlanChoice find_choice(const cJSON *name)
{
  PlanChoice choice = CHOICE_COUNT - 1;

  while (choice > CHOICE_NONE && !(cJSON_IsString(name) && g_str_equal(plan_choice_name(choice), name->valuestring)))
    choice--;
  return choice;
}

/* Names of choices as bits. */
static gboolean read_choices(const JsonDoc *doc, guint *out, GError **error)
{
  const cJSON *root = json_root(doc), *older = json_get(root, "sharding_options"), *name;
  const char *key = older ? "sharding_options" : "choices";

  if (older && json_get(root, "choices"))
    return json_error(doc, older, error, "none, where choices, its newer name, stands");
  const cJSON *names = json_get_array(doc, root, key, FALSE, error);
  if (!names)
    return !json_get(root, key);
  *out = 0;
  cJSON_ArrayForEach(name, names) {
    PlanChoice choice = find_choice(name);
    if (choice == CHOICE_NONE)
      return json_error(doc, name, error, "the name of a choice of src/plan/keys.h");
    *out |= 1u << choice;
  }
  return TRUE;
}

static void reverse(char **names)
{
  for (guint i = 0, j = g_strv_length(names); i + 1 < j; i++) {
    char *last = names[--j];
    names[j] = names[i];
    names[i] = last;
  }
}

/* Names of tools, and that of the file that describes their software, or what it begins with before a date. */
static const struct {
  const char *tool, *file;
  gboolean dated;
} tools[] = {
  { "megatron", "megatron-core", TRUE },
  { "megatron-lm", "megatron-core", TRUE },
  { "primus", "megatron-core", TRUE },
  { "bridge", "nemo", TRUE },
  { "megatron-bridge", "nemo", TRUE },
  { "nemo", "nemo", TRUE },
  { "automodel", "automodel", TRUE },
  { "accelerate", "fsdp", FALSE },
  { "transformers", "fsdp", FALSE },
  { "pytorch", "fsdp", FALSE },
  { "litgpt", "fsdp", FALSE },
  { "olmo", "fsdp", FALSE },
  { "axolotl", "fsdp", FALSE },
  { "llama-factory", "fsdp", FALSE },
  { "trl", "fsdp", FALSE },
};

static gboolean is_dated(const char *name, const char *begin)
{
  return g_str_has_prefix(name, begin) && strspn(name + strlen(begin), "-0123456789") == strlen(name) - strlen(begin);
}

/* The newest file that describes what the tool of that name runs; NULL where it is none of these. */
static const char *of_tool(char **newest_first, const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS(tools); i++)
    for (int j = 0; g_ascii_strcasecmp(tools[i].tool, name) == 0 && newest_first[j]; j++)
      if (tools[i].dated ? is_dated(newest_first[j], tools[i].file) : g_str_equal(newest_first[j], tools[i].file))
        return newest_first[j];
  return NULL;
}

char *framework_path(const char *name, GError **error)
{
  g_autofree char *below = g_strdup_printf("plans/frameworks/%s.json", name);
  g_autofree char *path = strchr(name, '/') ? g_strdup(name) : files_data_path(below);

  if (g_file_test(path, G_FILE_TEST_IS_REGULAR))
    return g_steal_pointer(&path);
  g_auto(GStrv) names = files_names("plans/frameworks");
  reverse(names); /* of two as near, the newer */
  const char *tool = of_tool(names, name);
  g_autofree char *meant = tool ? g_strdup_printf("; did you mean \"%s\"?", tool)
                                : names_meant((const char *const *)names, name);
  input_error(error, "framework: %s: expected a file of plans/frameworks/ (looked for %s)%s", name, path,
              *meant ? meant : "; tdp-plan --list frameworks names all");
  return NULL;
}

gboolean framework_exists(const char *name)
{
  g_autofree char *path = framework_path(name, NULL);
  return path != NULL;
}

/* Starts from another framework, whose strings are replaced by the file's. */
static gboolean start_from(const JsonDoc *doc, Parsed *parsed, int depth, GError **error);

static gboolean read_file(const char *name, Parsed *parsed, int depth, GError **error)
{
  g_autofree char *path = framework_path(name, error);
  g_autoptr(JsonDoc) doc = path ? json_load(path, error) : NULL;

  if (doc)
    json_digest(doc, parsed->digest);
  return doc && start_from(doc, parsed, depth, error) &&
         json_read(doc, json_root(doc), fields, G_N_ELEMENTS(fields), parsed, error) &&
         read_schedules(doc, &parsed->framework.schedules, error) &&
         read_name_lists(doc, &parsed->framework, error) && check_flex_node(doc, &parsed->framework, error) &&
         read_choices(doc, &parsed->framework.choices, error) &&
         exclusions_read(doc, json_root(doc), &parsed->framework.excludes, error) &&
         read_modules(doc, &parsed->framework, error) &&
         check_keys(doc, parsed->like == NULL, error);
}

static gboolean start_from(const JsonDoc *doc, Parsed *parsed, int depth, GError **error)
{
  const cJSON *like = json_get(json_root(doc), "like");

  g_clear_pointer(&parsed->like, g_free);
  if (!like)
    return TRUE;
  if (!cJSON_IsString(like) || depth == 8)
    return json_error(doc, like, error, "the name of a framework that does not start from this one");
  gboolean ok = read_file(like->valuestring, parsed, depth + 1, error);
  g_clear_pointer(&parsed->like, g_free);
  return ok;
}

Framework *framework_load(const char *name, GError **error)
{
  g_autoptr(GChecksum) digest = g_checksum_new(G_CHECKSUM_SHA256);
  Parsed parsed = { .digest = digest };
  gboolean ok = read_file(name, &parsed, 0, error);

  g_free(parsed.like);
  if (!ok) {
    g_free(parsed.framework.name);
    g_clear_pointer(&parsed.framework.excludes, g_array_unref);
    return NULL;
  }
  /* a plan that names it must find it again */
  if (strchr(name, '/')) {
    g_free(parsed.framework.name);
    parsed.framework.name = g_strdup(name);
  }
  json_digest_text(digest, parsed.framework.digest);
  parsed.framework.engine = engine_names[parsed.engine];
  if (parsed.framework.narrow_product_operations == 0)
    parsed.framework.narrow_product_operations = NARROW_OVER_WIDE * parsed.framework.product_operations;
  return g_memdup2(&parsed.framework, sizeof parsed.framework);
}

gboolean framework_attention_on(const Framework *f, AttentionKernel asked, const Cluster *c, AttentionKernel *out)
{
  *out = framework_attention(f, asked, &cluster_type(c, 0)->device);
  for (int i = 1; i < c->n_types; i++)
    if (framework_attention(f, asked, &c->types[i]->device) != *out)
      return FALSE;
  return TRUE;
}

AttentionKernel framework_attention_named(const Framework *f, AttentionKernel asked, const Cluster *c)
{
  AttentionKernel kernel;

  return framework_attention_on(f, asked, c, &kernel) ? kernel : asked;
}

void framework_free(Framework *framework)
{
  if (!framework)
    return;
  g_free(framework->name);
  g_clear_pointer(&framework->excludes, g_array_unref);
  schedule_table_free(framework->table);
  g_free(framework);
}
