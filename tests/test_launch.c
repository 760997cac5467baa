/* Runs of other tools, read and changed: what the exporters write is read back as it was. */
#include "main.h"

#include "base/error.h"
#include "export/export.h"
#include "fixture.h"
#include "import/launch.h"
#include "launch_sample.h"
#include "plan/nearest.h"
#include "sim/simulate.h"

#include <string.h>

/* Keys that mean nothing where they differ, or that the script notes as what Megatron-LM always does. */
static gboolean is_noted(const char *key)
{
  return g_str_equal(key, "pipeline_schedule") || g_str_has_prefix(key, "overlap: ");
}

static void differ(gpointer text, const char *key, const char *before, const char *after, const char *reason)
{
  (void)reason;
  if (!is_noted(key))
    g_string_append_printf(text, "%s: %s -> %s\n", key, before ? before : "-", after ? after : "-");
}

/* What two plans say otherwise, a key a line. */
static char *differences(const Plan *before, const Plan *after)
{
  GString *text = g_string_new(NULL);
  plan_compare(before, after, NULL, &(PlanListener) { differ, text });
  return g_string_free(text, FALSE);
}

/* A script without its comments. */
static char *body(const char *script)
{
  g_auto(GStrv) lines = g_strsplit(script, "\n", -1);
  GString *text = g_string_new(NULL);

  for (int i = 0; lines[i]; i++)
    if (!g_str_has_prefix(lines[i], "# "))
      g_string_append_printf(text, "%s\n", lines[i]);
  return g_string_free(text, FALSE);
}

typedef struct {
  const char *model, *framework;
  int gpus;
} Drawn;

static const Drawn drawn[] = {
  { "llama-3.1-8b", "megatron-core", 16 }, { "gpt3", "megatron-core", 64 },
  { "mixtral-8x7b", "megatron-core-2026", 16 },
  { "deepseek-v2-lite", "megatron-core-2026", 16 }, { "qwen3-0.6b", "megatron-core", 8 },
  { "nemotron-h-8b", "megatron-core", 16 }, { "nemotron-3-super-120b-a12b-mtp", "megatron-core-2026", 64 },
  { "gpt-oss-20b", "megatron-core-2026", 16 }, { "gemma-2-9b", "megatron-core", 16 },
  { "deepseek-v3", "megatron-core-2026", 64 }, { "qwen3-next-80b-a3b", "megatron-core-2026", 16 },
};

#define DRAWN_EACH 200
#define DRAWN_AT_ONCE 10 /* by a test, which reads their model once */
#define DRAWN_TESTS (DRAWN_EACH / DRAWN_AT_ONCE)

static void pass_over(gpointer data, const char *key, const char *before, const char *after, const char *reason)
{
  (void)data, (void)key, (void)before, (void)after, (void)reason;
}

/* Without a default that models read say. */
static char *without_unsaid(char *script)
{
  static const char words[] = "  --norm-epsilon 1e-05\n";
  g_autoptr(GRegex) regex = g_regex_new(words, 0, 0, NULL);
  g_autofree char *owned = script;
  return g_regex_replace_literal(regex, owned, -1, 0, "", 0, NULL);
}

/* The model that was read is written as the one that was meant. */
static void same_model(const Exporter *tool, const Model *read, const char *text, const Plan *plan,
                       const Cluster *cluster)
{
  g_autofree char *other = export_plan(tool, read, cluster, plan, NULL, NULL);
  g_autofree char *expected = without_unsaid(body(text));
  ck_assert_msg(other != NULL, "%s", text);
  test_text(without_unsaid(body(other)), expected);
}

/* A plan is written, read, and the same but for what is lost; FALSE where the tool has no such model. */
static gboolean tool_round_trip(const Exporter *tool, const Plan *near, const Model *model, const Cluster *cluster)
{
  gboolean script = g_str_equal(tool->name, "megatron"); /* which says its GPUs */
  const char *framework = near->framework->name, *name = script ? "drawn.sh" : "drawn.yaml";
  g_autoptr(GPtrArray) losses = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GError) error = NULL;
  g_autoptr(Framework) loaded = NULL;
  g_autofree char *text = export_plan(tool, model, cluster, near, losses, NULL);
  Plan back;

  if (!text)
    return FALSE;
  g_autoptr(Launch) launch = launch_read(text, name, &(LaunchOptions) { script ? 0 : near->gpus, framework }, &error);
  ck_assert_msg(launch != NULL, "%s\n%s", error ? error->message : "", text);
  ck_assert_str_eq(launch->tool, tool->name);
  ck_assert_msg(plan_parse(launch->plan, strlen(launch->plan), name, model, &back, &loaded, &error), "%s\n%s",
                error ? error->message : "", text);
  g_autofree char *other = differences(near, &back);
  ck_assert_msg(!*other || losses->len > 0, "%s\n%s", other, text);
  g_autofree char *again = export_plan(tool, model, cluster, &back, NULL, &error);
  ck_assert_msg(again != NULL, "%s\n%s", error ? error->message : "", text);
  g_autofree char *expected = body(text);
  test_text(body(again), expected);
  ck_assert_msg(launch->unknown->len == 0, "%s", launch->unknown->len ? (char *)launch->unknown->pdata[0] : "");
  g_autoptr(Model) read = model_parse(launch->model, strlen(launch->model), model->name, &error);
  ck_assert_msg(read != NULL, "%s", error ? error->message : "");
  if (!model->encoder_blocks && script)
    same_model(tool, read, text, &back, cluster);
  if (model->encoder_blocks) /* whose vocabulary is its tokenizer's */
    ck_assert_double_eq_tol((double)read->params / model->params, 1, 0.02);
  else if (strstr(text, "norms behind attention and feed-forward: not in"))
    ck_assert_double_eq_tol((double)read->params / model->params, 1, 1e-4);
  else
    ck_assert_int_eq(read->params, model->params);
  return TRUE;
}

/* The nearest plan that Megatron-LM runs, of its script and of Primus; FALSE where it has no such model. */
static gboolean round_trip(const Plan *plan, const Model *model, const Cluster *cluster)
{
  const PlanListener nobody = { pass_over, NULL };
  g_autofree Plan *near = plan_nearest(plan, model, cluster, plan->framework, &nobody, NULL);

  if (!near)
    return FALSE;
  tool_round_trip(exporter_find("primus"), near, model, cluster);
  return tool_round_trip(exporter_find("megatron"), near, model, cluster);
}

START_TEST(megatron_is_read_back)
{
  const Drawn *d = &drawn[_i / DRAWN_TESTS];
  g_autoptr(Model) model = fixture_known_model(d->model);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", d->gpus);
  g_autoptr(Framework) framework = framework_load(d->framework, NULL);

  for (int seed = _i * DRAWN_AT_ONCE; seed < (_i + 1) * DRAWN_AT_ONCE; seed++) {
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    Plan plan;
    if (fixture_draw_plan(rand, model, cluster, framework, &plan))
      round_trip(&plan, model, cluster);
  }
}
END_TEST

/* ---- files of settings ---- */

typedef struct {
  const char *tool, *framework, *model;
} Told;

static const Told files[] = {
  { "nanotron", "nanotron-2025", "llama-3.1-8b" }, { "torchtitan", "torchtitan", "llama-3.1-8b" },
  { "torchtitan", "torchtitan", "qwen3-30b-a3b" }, { "deepspeed", "deepspeed", "llama-3.1-8b" },
};

/* What a file of settings cannot say of a plan that its tool runs: it stands in the user's program, or nowhere. */
static gboolean is_said(const Told *t, const Plan *p)
{
  gboolean deepspeed = g_str_equal(t->tool, "deepspeed"), rows = p->tp == 1 || p->sequence_parallel;

  return deepspeed ? p->pp == 1 && p->recompute == RECOMPUTE_NONE : g_str_equal(t->tool, "nanotron") || rows;
}

static void file_round_trip(const Told *t, const Plan *plan, const Model *model, const Cluster *cluster)
{
  const Exporter *tool = exporter_find(t->tool);
  const PlanListener nobody = { pass_over, NULL };
  g_autoptr(GError) error = NULL;
  g_autoptr(Framework) loaded = NULL;
  g_autofree Plan *near = plan_nearest(plan, model, cluster, plan->framework, &nobody, NULL);
  g_autofree char *text = near && is_said(t, near) ? export_plan(tool, model, cluster, near, NULL, NULL) : NULL;
  Plan back;

  if (!text)
    return;
  ck_assert_msg(launch_recognises(text), "%s", text);
  g_autoptr(Launch) launch = launch_read(text, "drawn", &(LaunchOptions) { near->gpus }, &error);
  ck_assert_msg(launch != NULL, "%s\n%s", error ? error->message : "", text);
  ck_assert_str_eq(launch->tool, t->tool);
  ck_assert_msg(plan_parse(launch->plan, strlen(launch->plan), "drawn", model, &back, &loaded, &error), "%s\n%s",
                error ? error->message : "", text);
  g_autofree char *again = export_plan(tool, model, cluster, &back, NULL, &error);
  ck_assert_msg(again != NULL, "%s\n%s", error ? error->message : "", text);
  g_autofree char *expected = body(text);
  test_text(body(again), expected);
  ck_assert_msg(launch->unknown->len == 0, "%s", launch->unknown->len ? (char *)launch->unknown->pdata[0] : "");
}

START_TEST(settings_are_read_back)
{
  const Told *t = &files[_i / DRAWN_TESTS];
  g_autoptr(Model) model = fixture_known_model(t->model);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 16);
  g_autoptr(Framework) framework = framework_load(t->framework, NULL);

  for (int seed = _i * DRAWN_AT_ONCE; seed < (_i + 1) * DRAWN_AT_ONCE; seed++) {
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    Plan plan;
    if (fixture_draw_plan(rand, model, cluster, framework, &plan))
      file_round_trip(t, &plan, model, cluster);
  }
}
END_TEST

/* What drawn plans have not: keys of a plan for 16 GPUs, of Llama 3.1 8B unless a model is named. */
static const struct {
  const char *keys, *model;
} told[] = {
  { "\"context_parallel_size\": 2, \"cp_comm_type\": \"a2a\"" },
  { "\"context_parallel_size\": 4, \"cp_comm_type\": \"a2a+p2p\", \"context_parallel_a2a_size\": 2" },
  { "\"pipeline_model_parallel_size\": 4, \"layer_split\": [7, 9, 9, 7]" },
  { "\"pipeline_model_parallel_size\": 4, \"virtual_pipeline_model_parallel_size\": 2, \"zero_stage\": 1" },
  { "\"pipeline_model_parallel_size\": 4, \"virtual_pipeline_model_parallel_size\": 2, "
    "\"microbatch_group_size_per_vp_stage\": 8, \"overlap\": { \"pipeline\": false }" },
  { "\"pipeline_model_parallel_size\": 2, \"use_tp_pp_dp_mapping\": true" },
  { "\"tensor_model_parallel_size\": 2, \"sequence_parallel\": true, \"tp_comm_overlap\": true" },
  { "\"zero_stage\": 1, \"shard_group_size\": 8" }, { "\"zero_stage\": 3, \"shard_group_size\": 8" },
  { "\"zero_stage\": 2" }, { "\"zero_stage\": 1, \"offload\": \"optimizer\"" },
  { "\"recompute_granularity\": \"full\", \"recompute_method\": \"block\", \"recompute_num_layers\": 4" },
  { "\"recompute_granularity\": \"full\", \"recompute_num_layers\": 4" },
  { "\"recompute_granularity\": \"selective\", \"recompute_modules\": [\"layernorm\", \"mlp\"]" },
  { "\"recompute_granularity\": \"full\", \"tensor_model_parallel_size\": 2, \"partition_activations\": true" },
  { "\"cpu_offloading_num_layers\": 1" },
  { "\"precision\": \"fp8\", \"fp8_recipe\": \"blockwise\"" }, { "\"precision\": \"fp8\"" },
  { "\"zero_stage\": 1, \"precision\": \"fp8\", \"fp8_param_gather\": true" },
  { "\"zero_stage\": 1, \"precision\": \"fp4\", \"fp8_param_gather\": true" },
  { "\"zero_stage\": 1, \"precision\": \"fp4\"" }, { "\"precision\": \"fp16\"" },
  { "\"precision\": \"fp4\", \"num_layers_at_start_in_bf16\": 1, \"num_layers_at_end_in_bf16\": 4" },
  { "\"precision\": \"fp32\", \"attention\": \"unfused\"" },
  { "\"optimizer\": \"sgd\", \"sgd_momentum\": 0.5" },
  { "\"optimizer\": \"muon\", \"muon_num_ns_steps\": 6, \"tensor_model_parallel_size\": 2, "
    "\"muon_tp_mode\": \"duplicated\"" },
  { "\"zero_stage\": 1, \"exp_avg_dtype\": \"bf16\", \"exp_avg_sq_dtype\": \"bf16\"" },
  { "\"zero_stage\": 1, \"zero_optimization\": { \"reduce_bucket_size\": 1000000 }" },
  { "\"expert_model_parallel_size\": 8, \"moe_token_dispatcher_type\": \"flex\"", "mixtral-8x7b" },
  { "\"expert_model_parallel_size\": 8, \"moe_token_dispatcher_type\": \"hybridep\", "
    "\"overlap\": { \"exchange\": true }", "mixtral-8x7b" },
  { "\"expert_model_parallel_size\": 4, \"tensor_model_parallel_size\": 2, \"sequence_parallel\": true, "
    "\"expert_tensor_parallel_size\": 1, \"cuda_graph\": \"partial\"", "mixtral-8x7b" },
  { "\"expert_model_parallel_size\": 8, \"cuda_graph\": \"partial\", \"cuda_graph_modules\": [\"moe_router\", "
    "\"moe_preprocess\"]", "mixtral-8x7b" },
  { "\"cuda_graph\": \"partial\"" }, { "\"cuda_graph\": \"partial\", \"cuda_graph_modules\": [\"attn\", \"mlp\"]" },
  { "\"expert_model_parallel_size\": 8, \"moe_expert_capacity_factor\": 1.5, \"moe_token_drop_policy\": \"position\", "
    "\"moe_pad_expert_input_to_capacity\": true", "mixtral-8x7b" },
  { "\"expert_model_parallel_size\": 8, \"overlap\": { \"experts\": true }", "deepseek-v2-lite" },
  { "\"zero_stage\": 1", "t5-base" }, { "\"zero_stage\": 1", "bert-large" }, { "\"zero_stage\": 1", "qwen3-30b-a3b" },
  { "\"zero_stage\": 1", "deepseek-v3-mtp" }, { "\"zero_stage\": 1", "qwen2.5-7b" }, { "\"zero_stage\": 1", "gpt2" },
  { "\"expert_model_parallel_size\": 16, \"zero_stage\": 1", "deepseek-v3.2" },
  { "\"zero_stage\": 1", "mistral-7b" }, { "\"zero_stage\": 1", "qwen1.5-moe-a2.7b" },
};

START_TEST(told_is_read_back)
{
  g_autoptr(Model) model = fixture_known_model(told[_i].model ? told[_i].model : "llama-3.1-8b");
  g_autoptr(Cluster) cluster = fixture_cluster(strstr(told[_i].keys, "fp4") ? "hgx-b200" : "dgx-h100", 16);
  g_autofree char *text = g_strdup_printf("{ \"gpus\": 16, \"global_batch_size\": 64, %s, \"framework\": "
                                          "\"megatron-core-2026\" }", told[_i].keys);
  g_autoptr(Framework) framework = NULL;
  g_autoptr(GError) error = NULL;
  Plan plan;

  ck_assert_msg(plan_parse(text, strlen(text), "told", model, &plan, &framework, &error), "%s", error ?
                error->message : "");
  ck_assert_msg(plan_check(&plan, model, cluster, &error) == RULE_NONE, "%s", error ? error->message : "");
  ck_assert(round_trip(&plan, model, cluster));
}
END_TEST

static double step_s(const Model *model, const Cluster *cluster, const Plan *plan)
{
  Trace *trace = simulate_plan(model, cluster, plan);
  Metrics m;

  trace_metrics(trace, &m);
  trace_free(trace);
  return m.iteration_s;
}

/* Models of parts that few have: clamps, sinks, gates of shared experts, biases and corrections of routers. */
START_TEST(step_is_read_back)
{
  static const char *const models[][2] = {
    { "gpt-oss-20b", "kernels and fusions other than the software's usual ones: --no-bias-dropout-fusion" },
    { "qwen3-next-80b-a3b" }, { "deepseek-v3" }, { "qwen1.5-moe-a2.7b" },
  };
  static const char keys[] = "{ \"gpus\": 16, \"global_batch_size\": 64, \"expert_model_parallel_size\": 4, "
                             "\"zero_stage\": 1, \"framework\": \"megatron-core-2026\" }";

  for (gsize i = 0; i < G_N_ELEMENTS(models); i++) {
    g_autoptr(Model) model = fixture_known_model(models[i][0]);
    g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 16);
    g_autoptr(Framework) framework = NULL;
    Plan plan;
    ck_assert(plan_parse(keys, strlen(keys), "told", model, &plan, &framework, NULL));
    g_autofree char *text = export_plan(exporter_find("megatron"), model, cluster, &plan, NULL, NULL);
    g_autoptr(Launch) launch = launch_read(text, "x.sh", &(LaunchOptions) { 0, "megatron-core-2026" }, NULL);
    g_autoptr(Model) read = model_parse(launch->model, strlen(launch->model), "x.sh", NULL);
    ck_assert_msg(step_s(read, cluster, &plan) == step_s(model, cluster, &plan), "%s", models[i][0]);
    ck_assert_uint_eq(launch->not_simulated->len, models[i][1] != NULL);
    if (models[i][1])
      ck_assert_str_eq(launch->not_simulated->pdata[0], models[i][1]);
  }
}
END_TEST

/* ---- scripts as people write them ---- */

static void has(const char *text, const char *part)
{
  ck_assert_msg(strstr(text, part) != NULL, "no %s in %s", part, text);
}

START_TEST(arrays)
{
  g_autoptr(Launch) l = launch_of_sample("arrays.sh", 0);

  ck_assert_int_eq(l->gpus, 16);
  has(l->model, "\"layers\": 16");
  has(l->model, "\"kv_heads\": 8");
  has(l->plan, "\"tensor_model_parallel_size\": 2");
  has(l->plan, "\"zero_stage\": 1");
  has(l->plan, "\"sequence_parallel\": false");
  has(l->plan, "\"recompute_granularity\": \"full\"");
  ck_assert_uint_eq(l->unknown->len, 1);
  ck_assert_str_eq(l->unknown->pdata[0], "--made-up-by-nobody");
  ck_assert_uint_eq(l->ignored->len, 2);
  ck_assert_str_eq(l->ignored->pdata[0], "data and tokenizer: --data-path, --split");
  ck_assert_str_eq(l->ignored->pdata[1], "steps, learning rate and other constants: --lr, --train-iters");
  ck_assert_uint_eq(l->assumed->len, 0);
}
END_TEST

START_TEST(strings)
{
  g_autoptr(Launch) l = launch_of_sample("strings.slurm", 0);
  g_autoptr(Launch) more = launch_of_sample("strings.slurm", 64);

  ck_assert_int_eq(l->gpus, 32);
  ck_assert_int_eq(more->gpus, 64);
  has(l->model, "\"layers\": 32");
  has(l->plan, "\"precision\": \"fp16\"");
  has(l->plan, "\"recompute_granularity\": \"full\"");
  has(l->plan, "\"framework\": \"megatron-2021\"");
  ck_assert_uint_eq(l->assumed->len, 2);
  has(l->model, "\"dropout\": true");
  ck_assert_str_eq(l->assumed->pdata[0], "dropout: 0.1, as nothing says --attention-dropout or --hidden-dropout: "
                                         "attention takes longer with it");
  ck_assert_str_eq(l->assumed->pdata[1], "global_batch_size: 512: the last one, behind what --rampup-batch-size says");
}
END_TEST

static void refuses(const char *text, const char *expected)
{
  g_autoptr(GError) error = NULL;

  ck_assert_ptr_null(launch_read(text, "x.sh", &(LaunchOptions) { 0 }, &error));
  ck_assert_str_eq(error->message, expected);
  ck_assert_int_eq(error->code, TDP_ERROR_INPUT);
}

#define SIZES "--hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1 "

/* Of numbers with any number of digits. */
static void laid_out(const char *layout, const char *split)
{
  g_autofree char *text = g_strdup_printf("python pretrain_gpt.py " SIZES "--num-layers 2 "
                                          "--pipeline-model-parallel-layout '%s'\n", layout);
  g_autoptr(Launch) launch = launch_read(text, "x.sh", &(LaunchOptions) { 0 }, NULL);

  ck_assert_msg(launch, "%s: refused", layout);
  has(launch->plan, split);
}

START_TEST(bad_scripts)
{
  refuses("ls\n",
          "x.sh: no command with the arguments of a model: expected a script, a command line or a log of Megatron-LM");
  refuses("python pretrain_gpt.py " SIZES "--num-layers $N\n",
          "x.sh: --num-layers: $N: expected a number, and nothing in the script says it: "
          "give --script-args");
  refuses("[ \"$1\" = more ] && MORE=--bf16\npython pretrain_vlm.py " SIZES "--num-layers 4 $MORE\n",
          "x.sh: pretrain_vlm.py: expected a program that trains a language model alone");
  refuses("python pretrain_gpt.py " SIZES "--num-layers 2.5\n", "x.sh: --num-layers: 2.5: expected a whole number");
  refuses("python pretrain_gpt.py " SIZES "--num-layers\n",
          "x.sh: --num-layers: nothing behind it: expected a number");
  refuses("python pretrain_gpt.py " SIZES "--train-iters 5\n",
          "x.sh: --num-layers: missing: expected the arguments of a whole model");
  refuses("python pretrain_hybrid.py " SIZES "--hybrid-layer-pattern 'M-M/M-/M*'\n",
          "x.sh: --hybrid-layer-pattern: M-M/M-/M*: expected modules for multi-token prediction that are alike");
  refuses("python pretrain_hybrid.py " SIZES "--pipeline-model-parallel-size 2 --hybrid-layer-pattern 'M-|M|-M'\n",
          "x.sh: --hybrid-layer-pattern: M-|M|-M: expected a multiple of 2 stages");
  refuses("python pretrain_mamba.py " SIZES "--num-layers 12 --hybrid-override-pattern 'M-M-*'\n",
          "x.sh: --hybrid-override-pattern: M-M-*: expected the 12 layers of --num-layers, not 5");
  refuses("python pretrain_hybrid.py " SIZES "--hybrid-layer-pattern M-M- --hybrid-override-pattern M-M-\n",
          "x.sh: --hybrid-override-pattern: M-M-: expected without --hybrid-layer-pattern, which replaced it");
  refuses("python pretrain_gpt.py " SIZES "--num-layers 2 --tensor-model-parallel-size 2 --world-size 2147483647\n",
          "x.sh: ranks: 2147483647: expected at most 10000000");
  refuses("python pretrain_gpt.py " SIZES "--num-layers 2 --tensor-model-parallel-size 4000000 "
          "--pipeline-model-parallel-size 4000000\n",
          "x.sh: --tensor-model-parallel-size: 4000000: expected degrees of at most 10000000 ranks in all");
  laid_out("t*2000000000t*2000000000", "\"layer_split\": [512]"); /* no plan has so many */
  laid_out("t*4294967298", "\"layer_split\": [256]"); /* nor as many; in 32 bits it would be 2 */
  laid_out("t*99999999999999999999", "\"layer_split\": [256]");
  laid_out("t*-99999999999999999999t*3", "\"layer_split\": [3]");
  laid_out("t*t", "\"layer_split\": [2]");
  laid_out("t|(t)*4294967298", "\"layer_split\": [1, 1000]");
}
END_TEST

/* ---- changes ---- */

/* What stands in the lines of the new text that the old one has not, and the other way round. */
static char *changed_lines(const char *before, const char *after)
{
  g_auto(GStrv) old = g_strsplit(before, "\n", -1), new = g_strsplit(after, "\n", -1);
  GString *text = g_string_new(NULL);

  for (int i = 0; old[i]; i++)
    if (!g_strv_contains((const char *const *)new, old[i]))
      g_string_append_printf(text, "-%s\n", old[i]);
  for (int i = 0; new[i]; i++)
    if (!g_strv_contains((const char *const *)old, new[i]))
      g_string_append_printf(text, "+%s\n", new[i]);
  return g_string_free(text, FALSE);
}

static void changes_of_file(const char *name, const char *before, const char *after, const char *lines,
                            const char *undone)
{
  g_autofree char *text = launch_sample(name);
  g_autoptr(GPtrArray) left = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *changed = launch_change(text, name, NULL, before, after, left);

  test_text(changed_lines(text, changed), lines);
  g_ptr_array_add(left, NULL);
  test_text(g_strjoinv(", ", (char **)left->pdata), undone);
}

static void changes(const char *name, const char *before, const char *after, const char *lines, const char *undone)
{
  g_autofree char *old = g_strdup_printf("run x.py %s", before), *new = g_strdup_printf("run x.py %s", after);

  changes_of_file(name, old, new, lines, undone);
}

START_TEST(changes_where_it_stands)
{
  changes("arrays.sh", "--tensor-model-parallel-size 2", "--tensor-model-parallel-size 2", "", "");
  changes("arrays.sh", "--tensor-model-parallel-size 2", "--tensor-model-parallel-size 8",
          "-TP=2\t# over a pair\n+TP=8\t# over a pair\n", "");
  changes("arrays.sh", "--micro-batch-size 1", "--micro-batch-size 16", "-MBS=1\n+MBS=16\n", "");
  changes("arrays.sh", "--pipeline-model-parallel-size 2", "--pipeline-model-parallel-size 4",
          "-    --pipeline-model-parallel-size 2\n+    --pipeline-model-parallel-size 4\n", "");
  changes("strings.slurm", "--pipeline-model-parallel-size 2", "--pipeline-model-parallel-size 8",
          "-PP_SIZE=2\n+PP_SIZE=8\n", "");
  /* a number that two arguments share is changed where it is used */
  changes("strings.slurm", "--num-attention-heads 32", "--num-attention-heads 64",
          "-    --num-attention-heads $N_HEADS \\\n+    --num-attention-heads 64 \\\n", "");
  changes("strings.slurm", "--num-layers 32", "--num-layers 48",
          "-    --num-layers $((N_HEADS)) \\\n+    --num-layers 48 \\\n", "");
}
END_TEST

START_TEST(adds_and_removes)
{
  changes("arrays.sh", "", "--tensor-model-parallel-size 2 --sequence-parallel", "+    --sequence-parallel\n", "");
  changes("arrays.sh", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", "",
          "-    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1\n", "");
  changes("arrays.sh", "--use-distributed-optimizer", "", "-    --use-distributed-optimizer\n", "");
  changes("strings.slurm", "", "--tensor-model-parallel-size 4 --sequence-parallel", "+    --sequence-parallel \\\n",
          "");
  /* older spellings of what is changed go */
  changes("strings.slurm", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", "",
          "-    --checkpoint-activations \\\n", "");
  changes("strings.slurm", "--recompute-granularity full", "--recompute-granularity selective",
          "-    --checkpoint-activations \\\n+    --recompute-granularity selective \\\n", "");
}
END_TEST

/* What has no place is said. */
START_TEST(undone)
{
  g_autoptr(GPtrArray) left = g_ptr_array_new_with_free_func(g_free);
  const char *text = "source args.sh\nfor i in 1; do :; done\npython pretrain_gpt.py $(cat flags)\n";
  g_autofree char *same = launch_change(text, "x.sh", NULL, "run x.py --a 1", "run x.py --a 2 --b", left);

  ck_assert_str_eq(same, text);
  ck_assert_uint_eq(left->len, 2);
  ck_assert_str_eq(left->pdata[0], "--a 2: no place in the script: write it yourself");
  ck_assert_str_eq(left->pdata[1], "--b: no place in the script: write it yourself");
}
END_TEST

/* ---- settings as people write them ---- */

START_TEST(settings)
{
  g_autoptr(Launch) titan = launch_of_sample("llama3_8b.toml", 16), nano = launch_of_sample("tiny.yaml", 0),
      zero = launch_of_sample("zero2.json", 8);

  ck_assert_str_eq(titan->tool, "torchtitan");
  has(titan->model, "\"name\": \"llama-3.1-8b\"");
  has(titan->plan, "\"data_parallel_size\": 8");
  has(titan->plan, "\"zero_stage\": 3");
  has(titan->plan, "\"recompute_granularity\": \"full\"");
  ck_assert_uint_eq(titan->unknown->len, 0); /* of a section that is known all settings may matter */
  ck_assert_str_eq(titan->not_simulated->pdata[0], "kernels, buckets and formats other than the software's usual ones: "
                                            "parallelism.made_up_degree");
  ck_assert_str_eq(nano->tool, "nanotron");
  ck_assert_int_eq(nano->gpus, 8);
  has(nano->plan, "\"global_batch_size\": 64");
  has(nano->model, "\"vocab\": 49152");
  ck_assert_uint_eq(nano->unknown->len, 0);
  ck_assert_str_eq(zero->tool, "deepspeed");
  has(zero->plan, "\"global_batch_size\": 64");
  has(zero->plan, "\"optimizer\": \"cpu\"");
  has(zero->plan, "\"precision\": \"bf16\"");
  ck_assert_ptr_null(zero->model);
  ck_assert_str_eq(zero->unknown->pdata[0], "made_up");
  ck_assert(g_ptr_array_find_with_equal_func(zero->assumed, "seq_length: the model's: the file names none",
                                             g_str_equal, NULL));
  ck_assert(!strstr(zero->plan, "seq_length"));
}
END_TEST

START_TEST(bad_settings)
{
  refuses("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\ntensor_parallel_degree = two\n",
          "x.sh: parallelism.tensor_parallel_degree: two: expected a whole number");
  refuses("model:\n  model_config:\n    d_model: 64\nparallelism:\n  dp: 1\ntokens:\n  sequence_length: 8\n",
          "x.sh: model.model_config.is_llama_config: expected it, or is_qwen2_config, to be true: other models are not "
          "read");
  refuses("{ \"train_batch_size\": 8, \"tensor_parallel\": { \"autotp_size\": 3000 }, "
          "\"sequence_parallel_size\": 10000 }",
          "x.sh: degrees of 30000000 ranks in all: expected 1 to 10000000");
}
END_TEST

START_TEST(settings_are_changed)
{
  changes_of_file("llama3_8b.toml", "[training]\nlocal_batch_size = 1\n[parallelism]\ntensor_parallel_degree = 2\n",
                  "[training]\nlocal_batch_size = 4\n[parallelism]\ntensor_parallel_degree = 1\n",
                  "-local_batch_size = 1\n-tensor_parallel_degree = 2      # within a node\n"
                  "+local_batch_size = 4\n+tensor_parallel_degree = 1      # within a node\n", "");
  changes_of_file("llama3_8b.toml", "[parallelism]\n", "[parallelism]\ncontext_parallel_degree = 2\n",
                  "+context_parallel_degree = 2\n", "");
  /* what torchtitan would take otherwise beside stages is said */
#define STAGES(n) "[parallelism]\nfsdp_reshard_after_forward = \"always\"\npipeline_parallel_degree = " #n "\n"
  changes_of_file("llama3_8b.toml", STAGES(1), STAGES(1) "context_parallel_degree = 2\n",
                  "+context_parallel_degree = 2\n", "");
  changes_of_file("llama3_8b.toml", STAGES(1), STAGES(2),
                  "+fsdp_reshard_after_forward = \"always\"\n+pipeline_parallel_degree = 2\n", "");
#undef STAGES
  changes_of_file("llama3_8b.toml", "[activation_checkpoint]\nmode = \"full\"\n", "[activation_checkpoint]\n",
                  "-mode = \"full\"  # [\"none\", \"selective\", \"full\"]\n", "");
  changes_of_file("tiny.yaml", "optimizer:\n  zero_stage: 0\n", "optimizer:\n  zero_stage: 1\n",
                  "-  zero_stage: 0   # states on each rank\n+  zero_stage: 1   # states on each rank\n", "");
  changes_of_file("tiny.yaml", "parallelism:\n  tp: 2\n", "parallelism:\n  tp: 2\n  recompute_layer: true\n",
                  "+  recompute_layer: true\n", "");
  changes_of_file("zero2.json", "{ \"zero_optimization\": { \"stage\": 2 } }",
                  "{ \"zero_optimization\": { \"stage\": 3 }, \"sequence_parallel_size\": 2 }",
                  "-  \"zero_optimization\": { \"stage\": 2, \"overlap_comm\": false,\n-  \"made_up\": 1\n"
                  "+  \"zero_optimization\": { \"stage\": 3, \"overlap_comm\": false,\n+  \"made_up\": 1,\n"
                  "+  \"sequence_parallel_size\": 2\n", "");
  changes_of_file("tiny.yaml", "other:\n  x: 1\n", "other:\n  x: 2\n", "",
                  "other.x: 2: no place in the file: write it yourself");
}
END_TEST

TEST_LOOPS("launch", { megatron_is_read_back, DRAWN_TESTS * G_N_ELEMENTS(drawn), TRUE },
           { settings_are_read_back, DRAWN_TESTS * G_N_ELEMENTS(files), TRUE },
           { step_is_read_back, 1 }, { told_is_read_back, G_N_ELEMENTS(told) }, { arrays }, { strings }, { bad_scripts },
           { changes_where_it_stands }, { adds_and_removes }, { undone }, { settings }, { bad_settings },
           { settings_are_changed })
