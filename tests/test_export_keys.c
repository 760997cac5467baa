/* Every key of a plan, in every exporter: a changed key changes what is written, or what is said to be lost, and what
 * is lost whole is not written. */
#include "main.h"

#include "export/export.h"
#include "fixture.h"
#include "plan/keys.h"
#include "plan/nearest.h"

#include <string.h>

/* A plan and a change of it, both legal: keys of a plan file for 16 GPUs. */
typedef struct {
  const char *key, *framework, *before, *after;
  const char *model; /* NULL: Llama's */
} Change;

#define MEGATRON "megatron-core"
#define PIPE "\"pipeline_model_parallel_size\": 4, \"tensor_model_parallel_size\": 2, \"zero_stage\": 1"
#define SHARDED "\"zero_stage\": 3"
#define RECENT "megatron-core-2026"
#define TENSOR "\"tensor_model_parallel_size\": 2, \"zero_stage\": 1"
#define EXPERTS "\"expert_model_parallel_size\": 2"
#define HYBRIDEP EXPERTS ", \"moe_token_dispatcher_type\": \"hybridep\""
#define FOLDED EXPERTS ", \"tensor_model_parallel_size\": 4, \"sequence_parallel\": true, \"zero_stage\": 3"
#define CURRENT "\"precision\": \"fp8\", \"fp8_recipe\": \"current\""
#define ROWS8 TENSOR ", \"sequence_parallel\": true, \"tp_comm_overlap\": true, \"precision\": \"fp8\""
#define CHUNKS PIPE ", \"virtual_pipeline_model_parallel_size\": 2"

static const Change changes[] = {
  { "gpus", MEGATRON, "", "\"gpus\": 32" },
  { "data_parallel_size", MEGATRON, "", "\"gpus\": 32, \"data_parallel_size\": 32" },
  { "global_batch_size", MEGATRON, "", "\"global_batch_size\": 128" },
  { "micro_batch_size", MEGATRON, "", "\"micro_batch_size\": 2" },
  { "seq_length", MEGATRON, "", "\"seq_length\": 4096" },
  { "decoder_seq_length", MEGATRON, "", "\"decoder_seq_length\": 64", "t5-base" },
  { "tensor_model_parallel_size", MEGATRON, "", TENSOR },
  { "sequence_parallel", MEGATRON, TENSOR, TENSOR ", \"sequence_parallel\": true" },
  { "tp_comm_overlap", MEGATRON, TENSOR ", \"sequence_parallel\": true",
    TENSOR ", \"sequence_parallel\": true, \"tp_comm_overlap\": true" },
  { "tp_comm_overlap_fp8", MEGATRON, ROWS8, ROWS8 ", \"tp_comm_overlap_fp8\": true" },
  { "pipeline_model_parallel_size", MEGATRON, "\"zero_stage\": 1", PIPE },
  { "pipeline_model_parallel_split_rank", MEGATRON, "\"pipeline_model_parallel_size\": 4",
    "\"pipeline_model_parallel_size\": 4, \"pipeline_model_parallel_split_rank\": 1", "t5-base" },
  { "use_tp_pp_dp_mapping", MEGATRON, PIPE, PIPE ", \"use_tp_pp_dp_mapping\": true" },
  { "virtual_pipeline_model_parallel_size", MEGATRON, PIPE, CHUNKS },
  { "microbatch_group_size_per_vp_stage", MEGATRON, CHUNKS, CHUNKS ", \"microbatch_group_size_per_vp_stage\": 8" },
  { "pipeline_schedule", MEGATRON, PIPE, PIPE ", \"pipeline_schedule\": \"gpipe\"" },
  { "context_parallel_size", MEGATRON, "", "\"context_parallel_size\": 2" },
  { "context_parallel_size", "deepspeed", "", "\"context_parallel_size\": 2" },
  { "cp_comm_type", MEGATRON, "\"context_parallel_size\": 2",
    "\"context_parallel_size\": 2, \"cp_comm_type\": \"a2a\"" },
  { "cp_comm_type", MEGATRON, "\"context_parallel_size\": 2, \"cp_comm_type\": \"all_gather\"",
    "\"context_parallel_size\": 2, \"cp_comm_type\": \"p2p\"" },
  { "context_parallel_a2a_size", MEGATRON, "\"context_parallel_size\": 4, \"cp_comm_type\": \"a2a+p2p\"",
    "\"context_parallel_size\": 4, \"cp_comm_type\": \"a2a+p2p\", \"context_parallel_a2a_size\": 2" },
  { "expert_model_parallel_size", MEGATRON, "", EXPERTS, "mixtral-8x7b" },
  { "expert_tensor_parallel_size", MEGATRON, EXPERTS ", " TENSOR ", \"sequence_parallel\": true",
    EXPERTS ", " TENSOR ", \"sequence_parallel\": true, \"expert_tensor_parallel_size\": 1", "mixtral-8x7b" },
  { "expert_tensor_parallel_size", "torchtitan", FOLDED ", \"expert_tensor_parallel_size\": 1",
    FOLDED ", \"expert_tensor_parallel_size\": 2", "qwen3-30b-a3b" },
  { "moe_token_dispatcher_type", MEGATRON, EXPERTS, EXPERTS ", \"moe_token_dispatcher_type\": \"flex\"",
    "mixtral-8x7b" },
  { "moe_token_dispatcher_type", RECENT, EXPERTS ", \"moe_token_dispatcher_type\": \"flex\"",
    EXPERTS ", \"moe_token_dispatcher_type\": \"hybridep\"", "mixtral-8x7b" },
  { "moe_token_dispatcher_type", "torchtitan-2025-11", EXPERTS ", " SHARDED,
    EXPERTS ", " SHARDED ", \"moe_token_dispatcher_type\": \"flex\"", "qwen3-30b-a3b" },
  { "moe_token_dispatcher_type", "torchtitan-2026-05", EXPERTS ", " SHARDED,
    EXPERTS ", " SHARDED ", \"moe_token_dispatcher_type\": \"hybridep\"", "qwen3-30b-a3b" },
  { "cuda_graph", RECENT, EXPERTS, EXPERTS ", \"cuda_graph\": \"partial\"", "mixtral-8x7b" },
  { "cuda_graph", "nemo-2026-08", HYBRIDEP ", \"cuda_graph\": \"partial\"", HYBRIDEP ", \"cuda_graph\": \"full\"",
    "mixtral-8x7b" },
  { "cuda_graph_modules", RECENT, EXPERTS ", \"cuda_graph\": \"partial\"",
    EXPERTS ", \"cuda_graph\": \"partial\", \"cuda_graph_modules\": [\"moe_router\", \"moe_preprocess\"]", "mixtral-8x7b" },
  { "cuda_graph", RECENT, PIPE, PIPE ", \"cuda_graph\": \"full\"" },
  { "moe_expert_capacity_factor", MEGATRON, EXPERTS, EXPERTS ", \"moe_expert_capacity_factor\": 1.5",
    "mixtral-8x7b" },
  { "moe_token_drop_policy", MEGATRON, EXPERTS ", \"moe_expert_capacity_factor\": 1.5",
    EXPERTS ", \"moe_expert_capacity_factor\": 1.5, \"moe_token_drop_policy\": \"position\"", "mixtral-8x7b" },
  { "moe_pad_expert_input_to_capacity", MEGATRON, EXPERTS ", \"moe_expert_capacity_factor\": 1.5",
    EXPERTS ", \"moe_expert_capacity_factor\": 1.5, \"moe_pad_expert_input_to_capacity\": true", "mixtral-8x7b" },
  { "zero_stage", MEGATRON, "", "\"zero_stage\": 1" },
  { "zero_stage", MEGATRON, "\"zero_stage\": 1", "\"zero_stage\": 2" },
  { "zero_stage", MEGATRON, "\"zero_stage\": 2", "\"zero_stage\": 3" },
  { "zero_stage", "fsdp", "\"pipeline_model_parallel_size\": 4, \"zero_stage\": 1",
    "\"pipeline_model_parallel_size\": 4, \"zero_stage\": 2" },
  { "shard_group_size", MEGATRON, "\"zero_stage\": 1", "\"zero_stage\": 1, \"shard_group_size\": 8" },
  { "shard_group_size", MEGATRON, SHARDED, SHARDED ", \"shard_group_size\": 8" },
  { "recompute_granularity", MEGATRON, "", "\"recompute_granularity\": \"full\"" },
  { "recompute_granularity", MEGATRON, "", "\"recompute_granularity\": \"selective\"" },
  { "recompute_granularity", MEGATRON, PIPE, PIPE ", \"recompute_granularity\": \"full\"" },
  { "recompute_num_layers", MEGATRON, "\"recompute_granularity\": \"full\"",
    "\"recompute_granularity\": \"full\", \"recompute_num_layers\": 4" },
  { "recompute_method", MEGATRON, "\"recompute_granularity\": \"full\", \"recompute_num_layers\": 4",
    "\"recompute_granularity\": \"full\", \"recompute_num_layers\": 4, \"recompute_method\": \"block\"" },
  { "recompute_modules", MEGATRON, "\"recompute_granularity\": \"selective\"",
    "\"recompute_granularity\": \"selective\", \"recompute_modules\": [\"mlp\"]" },
  { "precision", MEGATRON, "", "\"precision\": \"fp16\"" },
  { "precision", MEGATRON, "", "\"precision\": \"fp8\"" },
  { "precision", "torchtitan", SHARDED, SHARDED ", \"precision\": \"fp8\"" },
  { "fp8_recipe", MEGATRON, "\"precision\": \"fp8\"", "\"precision\": \"fp8\", \"fp8_recipe\": \"blockwise\"" },
  { "num_layers_at_start_in_bf16", MEGATRON, CURRENT, CURRENT ", \"num_layers_at_start_in_bf16\": 2" },
  { "num_layers_at_start_in_bf16", "torchtitan", SHARDED ", \"precision\": \"fp8\"",
    SHARDED ", \"precision\": \"fp8\", \"num_layers_at_start_in_bf16\": 2" },
  { "num_layers_at_end_in_bf16", MEGATRON, CURRENT, CURRENT ", \"num_layers_at_end_in_bf16\": 14" },
  { "num_layers_at_end_in_bf16", "torchtitan", SHARDED ", \"precision\": \"fp8\"",
    SHARDED ", \"precision\": \"fp8\", \"num_layers_at_end_in_bf16\": 5" },
  { "fp8_param_gather", MEGATRON, "\"zero_stage\": 1, \"precision\": \"fp8\"",
    "\"zero_stage\": 1, \"precision\": \"fp8\", \"fp8_param_gather\": true" },
  { "fp8_param_gather", "torchtitan", SHARDED ", \"precision\": \"fp8\"",
    SHARDED ", \"precision\": \"fp8\", \"fp8_param_gather\": false" },
  { "adapter", MEGATRON, "", "\"adapter\": \"lora:r=16\"" },
  { "adapter", "fsdp", "\"adapter\": \"lora:r=16\"", "\"adapter\": \"qlora:r=16\"" },
  { "adapter", "deepspeed", SHARDED, SHARDED ", \"adapter\": \"lora:r=16,targets=qkv,proj\"" },
  { "optimizer", MEGATRON, "", "\"optimizer\": \"sgd\"" },
  { "optimizer", MEGATRON, "", "\"optimizer\": \"muon\"" },
  { "optimizer", "fsdp", "", "\"optimizer\": \"adafactor\"" },
  { "sgd_momentum", MEGATRON, "\"optimizer\": \"sgd\"", "\"optimizer\": \"sgd\", \"sgd_momentum\": 0.5" },
  { "optimizer_block_size", "fsdp", "\"optimizer\": \"adam8bit\"",
    "\"optimizer\": \"adam8bit\", \"optimizer_block_size\": 2048" },
  { "muon_num_ns_steps", MEGATRON, "\"optimizer\": \"muon\"", "\"optimizer\": \"muon\", \"muon_num_ns_steps\": 6" },
  { "muon_tp_mode", MEGATRON, TENSOR ", \"optimizer\": \"muon\"",
    TENSOR ", \"optimizer\": \"muon\", \"muon_tp_mode\": \"duplicated\"" },
  { "store_param_remainders", MEGATRON, "\"zero_stage\": 1", "\"zero_stage\": 1, \"store_param_remainders\": true" },
  { "main_params_dtype", MEGATRON, "\"zero_stage\": 1", "\"zero_stage\": 1, \"main_params_dtype\": \"bf16\"" },
  { "main_grads_dtype", MEGATRON, "\"zero_stage\": 1", "\"zero_stage\": 1, \"main_grads_dtype\": \"bf16\"" },
  { "main_params_dtype", "deepspeed", SHARDED,
    SHARDED ", \"main_params_dtype\": \"bf16\", \"exp_avg_dtype\": \"bf16\", \"exp_avg_sq_dtype\": \"bf16\"" },
  { "exp_avg_dtype", MEGATRON, "\"zero_stage\": 1", "\"zero_stage\": 1, \"exp_avg_dtype\": \"bf16\"" },
  { "exp_avg_sq_dtype", MEGATRON, "\"zero_stage\": 1", "\"zero_stage\": 1, \"exp_avg_sq_dtype\": \"bf16\"" },
  { "grad_reduce_dtype", MEGATRON, "\"zero_stage\": 1", "\"zero_stage\": 1, \"grad_reduce_dtype\": \"bf16\"" },
  { "tensor_reduce_dtype", "deepspeed", TENSOR, TENSOR ", \"tensor_reduce_dtype\": \"fp32\"" },
  { "partition_activations", MEGATRON, TENSOR ", \"recompute_granularity\": \"full\"",
    TENSOR ", \"recompute_granularity\": \"full\", \"partition_activations\": true" },
  { "cpu_offloading_num_layers", MEGATRON, "", "\"cpu_offloading_num_layers\": 20" },
  { "attention", MEGATRON, "", "\"attention\": \"unfused\"" },
  { "attention", MEGATRON, "", "\"attention\": \"flash1\"" },
  { "layer_split", MEGATRON, PIPE, PIPE ", \"layer_split\": [7, 9, 9, 7]" },
  { "layer_split", MEGATRON, PIPE, PIPE ", \"layer_split\": [7, 10, 9, 6]" },
  { "layer_strategies", "galvatron", "\"zero_stage\": 1",
    "\"zero_stage\": 1, \"layer_strategies\": [{ \"layers\": 32, \"recompute_granularity\": \"full\" }]" },

  { "offload: optimizer", "deepspeed", SHARDED, SHARDED ", \"offload\": \"optimizer\"" },
  { "offload: parameters", "deepspeed", SHARDED ", \"offload\": { \"optimizer\": \"cpu\" }",
    SHARDED ", \"offload\": { \"optimizer\": \"cpu\", \"parameters\": \"cpu\" }" },
  { "offload: activations", "deepspeed", SHARDED ", \"recompute_granularity\": \"full\"",
    SHARDED ", \"recompute_granularity\": \"full\", \"offload\": { \"activations\": \"cpu\" }" },
  { "offload: sub_group_size", "deepspeed", SHARDED ", \"offload\": { \"optimizer\": \"cpu\" }",
    SHARDED ", \"offload\": { \"optimizer\": \"cpu\", \"sub_group_size\": 1000000 }" },
  { "offload: delayed_update", "zero-offload-2021", "\"zero_stage\": 2, \"offload\": { \"optimizer\": \"cpu\" }",
    "\"zero_stage\": 2, \"offload\": { \"optimizer\": \"cpu\", \"delayed_update\": true }" },
  { "zero_optimization: reduce_bucket_size", "deepspeed", "\"zero_stage\": 1",
    "\"zero_stage\": 1, \"zero_optimization\": { \"reduce_bucket_size\": 1000000 }" },
  { "zero_optimization: stage3_prefetch_bucket_size", "deepspeed", SHARDED,
    SHARDED ", \"zero_optimization\": { \"stage3_prefetch_bucket_size\": 7000000 }" },
  { "zero_optimization: stage3_max_live_parameters", "deepspeed", SHARDED,
    SHARDED ", \"zero_optimization\": { \"stage3_max_live_parameters\": 7000000 }" },
  { "zero_optimization: stage3_param_persistence_threshold", "deepspeed", SHARDED,
    SHARDED ", \"zero_optimization\": { \"stage3_param_persistence_threshold\": 70000 }" },
  { "zero_optimization: reshard_after_forward", "fsdp", SHARDED,
    SHARDED ", \"zero_optimization\": { \"reshard_after_forward\": false }" },
  { "zero_optimization: no_sync", "fsdp", SHARDED, SHARDED ", \"zero_optimization\": { \"no_sync\": true }" },
  { "zero_optimization: no_sync", "fsdp", SHARDED ", \"pipeline_model_parallel_size\": 4",
    SHARDED ", \"pipeline_model_parallel_size\": 4, \"zero_optimization\": { \"no_sync\": true }" },
  { "zero_optimization: zero_hpz_partition_size", "deepspeed", SHARDED,
    SHARDED ", \"zero_optimization\": { \"zero_hpz_partition_size\": 8 }" },
  { "zero_optimization: zero_quantized_weights", "deepspeed", SHARDED,
    SHARDED ", \"zero_optimization\": { \"zero_quantized_weights\": true }" },
  { "zero_optimization: zero_quantized_gradients", "deepspeed", SHARDED,
    SHARDED ", \"zero_optimization\": { \"zero_quantized_gradients\": true }" },
  { "zero_optimization: tiling_factor", "deepspeed", SHARDED,
    SHARDED ", \"zero_optimization\": { \"tiling_factor\": 4 }" },
  { "zero_optimization: gradient_as_bucket_view", "ddp", "",
    "\"zero_optimization\": { \"gradient_as_bucket_view\": true }" },
  { "overlap: gradients", MEGATRON, "\"zero_stage\": 1", "\"zero_stage\": 1, \"overlap\": { \"gradients\": false }" },
  { "overlap: parameters", MEGATRON, "\"zero_stage\": 1",
    "\"zero_stage\": 1, \"overlap\": { \"parameters\": false }" },
  { "overlap: pipeline", MEGATRON, CHUNKS, CHUNKS ", \"overlap\": { \"pipeline\": false }" },
  { "overlap: pipeline", MEGATRON, PIPE, PIPE ", \"overlap\": { \"pipeline\": true }" },
  { "overlap: tensor", MEGATRON, TENSOR, TENSOR ", \"overlap\": { \"tensor\": false }" },
  { "overlap: offload", "deepspeed", SHARDED ", \"offload\": \"optimizer\"",
    SHARDED ", \"offload\": \"optimizer\", \"overlap\": { \"offload\": false }" },
  { "overlap: experts", MEGATRON, EXPERTS, EXPERTS ", \"overlap\": { \"experts\": true }", "deepseek-v2-lite" },
  { "overlap: exchange", RECENT, EXPERTS, EXPERTS ", \"overlap\": { \"exchange\": true }", "mixtral-8x7b" },
};

/* Keys that no tool is told, and why. */
static const char *const untold[][2] = {
  { "framework", "which tool runs the plan" },
  { "moe_load_imbalance", "what a prediction takes for granted: formats with comments note it" },
  { "description", "a text for the reader of the file" },
  { "hetero_device_types", "clusters of several types are refused" },
};

typedef struct {
  Framework *framework;
  Plan plan;
  Cluster *cluster;
  gboolean refused;
  char *body, *said; /* what is written without comments, and launched; losses, notes and refusals */
  char *lost;        /* the losses alone, a line each */
} Side;

/* Comments hold losses and notes. */
static void split_comments(const char *text, GString *body, GString *said)
{
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

  for (int i = 0; lines[i]; i++)
    g_string_append_printf(g_str_has_prefix(lines[i], "# ") ? said : body, "%s\n", lines[i]);
}

/* What every plan has unless it says otherwise. */
static const char *usual(const char *keys)
{
  return strstr(keys, "\"gpus\"") ? "\"global_batch_size\": 64, "
         : strstr(keys, "\"global_batch_size\"") ? "\"gpus\": 16, " : "\"gpus\": 16, \"global_batch_size\": 64, ";
}

static Side side_of(const Change *c, const char *keys, const Model *model)
{
  g_autofree char *text = g_strdup_printf("{ %s%s%s\"framework\": \"%s\" }", keys, *keys ? ", " : "", usual(keys),
                                          c->framework);
  g_autoptr(GError) error = NULL;
  Side side = { 0 };

  ck_assert_msg(plan_parse(text, strlen(text), c->key, model, &side.plan, &side.framework, &error), "%s",
                error ? error->message : "");
  side.cluster = fixture_cluster("dgx-h100", side.plan.gpus);
  ck_assert_msg(plan_check(&side.plan, model, side.cluster, &error) == RULE_NONE, "%s: %s", c->key,
                error ? error->message : "");
  return side;
}

static void side_write(Side *side, const Exporter *exporter, const Model *model)
{
  g_autoptr(GPtrArray) losses = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GError) error = NULL;
  GString *body = g_string_new(NULL), *said = g_string_new(NULL);

  g_autofree char *file = export_plan(exporter, model, side->cluster, &side->plan, losses, &error);
  g_autofree char *line = launch_line(exporter, model, side->cluster, &side->plan, NULL);
  if (file)
    split_comments(file, body, said);
  else
    g_string_append_printf(said, "%s\n", error->message);
  side->refused = !file;
  g_ptr_array_add(losses, NULL);
  side->lost = g_strjoinv("\n", (char **)losses->pdata);
  g_string_append(said, side->lost);
  g_string_append(body, line);
  side->body = g_string_free(body, FALSE);
  side->said = g_string_free(said, FALSE);
}

static void side_clear_text(Side *side)
{
  g_free(side->body);
  g_free(side->said);
  g_free(side->lost);
}

static void side_clear(Side *side)
{
  framework_free(side->framework);
  cluster_free(side->cluster);
}

/* The last word of a path: "overlap: tensor"; chunks are those of a schedule. */
static gboolean names(const char *said, const char *key)
{
  const char *last = strrchr(key, ' ');
  gboolean chunks = g_str_equal(key, "virtual_pipeline_model_parallel_size") && strstr(said, "chunks a rank");
  return chunks || strstr(said, last ? last + 1 : key);
}

/* A key's value in the one of two plans that comes first; NULL: it has none there. */
typedef struct {
  const char *key;
  char *before;
} Earlier;

static void remember(gpointer data, const char *key, const char *before, const char *after, const char *reason)
{
  Earlier *earlier = data;

  (void)after, (void)reason;
  if (g_str_equal(key, earlier->key))
    earlier->before = g_strdup(before);
}

/* Whether a change of the key is lost whole: written as it was before, or left out where nothing was said. */
static gboolean loses_change(const Side *before, const Side *after, const char *key)
{
  Earlier earlier = { key, NULL };
  gboolean lost = FALSE;

  plan_compare(&before->plan, &after->plan, NULL, &(PlanListener) { remember, &earlier });
  g_autofree char *instead = earlier.before ? g_strconcat("written as ", earlier.before, NULL) : g_strdup("left out");
  g_auto(GStrv) lines = g_strsplit(after->lost, "\n", -1);
  for (int i = 0; lines[i]; i++)
    lost |= g_str_has_prefix(lines[i], key) && g_str_has_suffix(lines[i], instead);
  g_free(earlier.before);
  return lost;
}

START_TEST(a_key_is_written_or_named)
{
  const Change *c = &changes[_i];
  g_autoptr(Model) model = fixture_known_model(c->model ? c->model : "llama-3.1-8b");
  g_autoptr(GString) silent = g_string_new(NULL), told = g_string_new(NULL);

  Side before = side_of(c, c->before, model), after = side_of(c, c->after, model);
  for (int i = 0; exporters[i]; i++) {
    side_write(&before, exporters[i], model);
    side_write(&after, exporters[i], model);
    gboolean differs = strcmp(before.body, after.body) != 0;
    if (!differs && !(before.refused && after.refused) && !names(after.said, c->key) && !names(before.said, c->key))
      g_string_append_printf(silent, " %s", exporters[i]->name);
    if (differs && loses_change(&before, &after, c->key))
      g_string_append_printf(told, " %s", exporters[i]->name);
    side_clear_text(&before);
    side_clear_text(&after);
  }
  side_clear(&before);
  side_clear(&after);
  ck_assert_msg(silent->len == 0, "%s (%s): neither written nor named by%s", c->key, c->after, silent->str);
  ck_assert_msg(told->len == 0, "%s (%s): written, and named as lost whole, by%s", c->key, c->after, told->str);
}
END_TEST

/* The key as changes name it: "overlap: tensor". */
static char *path_of(const PlanKey *key)
{
  return key->object ? g_strdup_printf("%s: %s", key->object, key->field.key) : g_strdup(key->field.key);
}

static gboolean is_changed(const char *path)
{
  for (gsize i = 0; i < G_N_ELEMENTS(changes); i++)
    if (g_str_equal(changes[i].key, path))
      return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS(untold); i++)
    if (g_str_equal(untold[i][0], path))
      return TRUE;
  return FALSE;
}

/* An object's own row says nothing beside its keys. */
START_TEST(every_key_is_changed)
{
  for (const PlanKey *key = plan_keys; key->field.key; key++) {
    g_autofree char *path = path_of(key);
    ck_assert_msg(plan_key_members(key) || is_changed(path), "%s: no change of it is exported here", path);
  }
}
END_TEST

TEST_LOOPS("export keys", { a_key_is_written_or_named, G_N_ELEMENTS(changes) }, { every_key_is_changed, 1 })
