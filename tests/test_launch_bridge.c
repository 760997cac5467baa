/* Megatron-Bridge's recipes: read as the plan that they are, and changed to another. */
#include "main.h"

#include "export/export.h"
#include "fixture.h"
#include "import/launch.h"

#include <string.h>

#define HEAD "from megatron.bridge import AutoBridge\n_ID: str = \"Qwen/Qwen3-30B-A3B-Base\"  # of the hub\nLENGTH = 8192\n"
#define MODEL "    cfg = _pretrain_common()\n    cfg.model = AutoBridge.from_hf_pretrained(_ID, revision=\"1\").get_model_config()\n"
#define DEGREES "    cfg.model.tensor_model_parallel_size = 2\n    cfg.model.pipeline_model_parallel_size = 2\n" \
                "    cfg.model.expert_model_parallel_size = 4\n    cfg.model.expert_tensor_parallel_size = 1\n" \
                "    cfg.model.sequence_parallel = True\n    cfg.model.virtual_pipeline_model_parallel_size = None\n"
#define RECIPE(body) HEAD "def run_16gpu_h100_config() -> ConfigContainer:\n    \"\"\"A recipe.\"\"\"\n" MODEL DEGREES \
                     "    cfg.train.global_batch_size = 64\n    cfg.train.micro_batch_size = 1\n" body "    return cfg\n"

static Launch *read_text(const char *text, const char *config, int gpus)
{
  g_autofree char *name = config ? g_strdup_printf("CONFIG=%s", config) : NULL;
  const char *const given[] = { name, NULL };
  g_autoptr(GError) error = NULL;
  Launch *l = launch_read(text, "x.py", &(LaunchOptions) { .gpus = gpus, .given = given }, &error);

  ck_assert_msg(l != NULL, "%s\n%s", error ? error->message : "", text);
  return l;
}

static void check_plan(const Launch *l, Plan *plan, Model **model, Framework **framework)
{
  g_autoptr(GError) error = NULL;

  ck_assert_ptr_nonnull(l->model);
  *model = model_parse(l->model, strlen(l->model), "x.py", &error);
  ck_assert_ptr_nonnull(*model);
  ck_assert_msg(plan_parse(l->plan, strlen(l->plan), "x.py", *model, plan, framework, &error), "%s\n%s",
                error ? error->message : "", l->plan);
  g_autoptr(Cluster) cluster = fixture_cluster(plan->fp8_recipe == FP8_MXFP8 ? "hgx-b200" : "dgx-h100", plan->gpus);
  ck_assert_msg(plan_is_legal(plan, *model, cluster, &error), "%s\n%s", error ? error->message : "", l->plan);
}

static gboolean has_line(const GPtrArray *lines, const char *part)
{
  for (guint i = 0; i < lines->len; i++)
    if (strstr(lines->pdata[i], part))
      return TRUE;
  return FALSE;
}

/* What a body adds to the recipe, and what the plan then says or does not. */
static const struct {
  const char *body, *says, *not;
} bodies[] = {
  { "", "\"tensor_model_parallel_size\": 2", NULL },
  { "", "\"expert_model_parallel_size\": 4", NULL },
  { "", "\"seq_length\": 4096", NULL }, /* _pretrain_common() */
  { "", "\"gradients\": true", NULL },
  { "", "\"zero_stage\": 1", NULL },
  { "", "\"main_grads_dtype\": \"fp32\"", NULL },
  { "", "\"framework\": \"nemo-2026-08-library\"", NULL },
  { "    cfg.dataset.seq_length = LENGTH\n", "\"seq_length\": 8192", NULL },
  { "    cfg.dataset.seq_length = LENGTH\n    cfg.model.seq_length = 2 * 8192\n", "\"seq_length\": 16384", NULL },
  { "    cfg.ddp.overlap_grad_reduce = False\n", "\"gradients\": false", NULL },
  { "    cfg.mixed_precision = bf16_mixed()\n    cfg.mixed_precision.grad_reduce_in_fp32 = False\n",
    "\"main_grads_dtype\": \"bf16\"", NULL },
  { "    cfg.ddp.grad_reduce_in_fp32 = False\n", "\"main_grads_dtype\": \"fp32\"", NULL }, /* mixed_precision has the last word */
  { "    cfg.mixed_precision = \"bf16_with_fp8_current_scaling_mixed\"\n", "\"fp8_recipe\": \"current\"", NULL },
  { "    cfg.mixed_precision = bf16_with_fp8_current_scaling_mixed()\n", "\"num_layers_at_start_in_bf16\": 1", NULL },
  { "    cfg.mixed_precision = bf16_with_fp8_current_scaling_mixed()\n    cfg.mixed_precision.first_last_layers_bf16 = False\n",
    "\"fp8_param_gather\": true", "num_layers_at_start_in_bf16" },
  { "    cfg.mixed_precision = get_mixed_precision_config(\"bf16_with_mxfp8_mixed\")\n", "\"fp8_recipe\": \"mxfp8\"", NULL },
  { "    cfg.model.recompute_granularity = \"selective\"\n    cfg.model.recompute_modules = [\"moe_act\", \"layernorm\"]\n",
    "\"moe_act\"", NULL },
  { "    cfg.model.recompute_granularity = \"full\"\n    cfg.model.recompute_granularity = None\n", "\"none\"", "\"full\"" },
  { "    cfg.model.moe_token_dispatcher_type = \"alltoall\"\n    cfg.model.moe_flex_dispatcher_backend = \"hybridep\"\n",
    "\"alltoall\"", "hybridep" },
  { "    cfg.model.moe_token_dispatcher_type = \"alltoall\"\n    cfg.model.moe_flex_dispatcher_backend = \"hybridep\"\n"
    "    apply_flex_dispatcher_backend(cfg.model, cfg.model.moe_flex_dispatcher_backend)\n", "\"hybridep\"", "alltoall" },
  /* the function turns shared experts' overlap off with a backend, and changes nothing without one */
  { "    cfg.model.moe_flex_dispatcher_backend = \"hybridep\"\n    cfg.model.moe_shared_expert_overlap = True\n"
    "    apply_flex_dispatcher_backend(cfg.model, cfg.model.moe_flex_dispatcher_backend)\n", "\"hybridep\"", "\"experts\"" },
  { "    cfg.mixed_precision = \"bf16-with-mxfp8-mixed\"\n", "\"fp8_recipe\": \"mxfp8\"", NULL },
  { "    cfg.mixed_precision = fp16_mixed()\n", "\"precision\": \"fp16\"", "\"main_grads_dtype\": \"fp32\"" },
  { "    cfg.mixed_precision = \"fp16-mixed\"\n    cfg.mixed_precision.grad_reduce_in_fp32 = True\n", "\"precision\": \"fp16\"",
    "\"main_grads_dtype\": \"fp16\"" },
  { "    opt, cfg.scheduler = distributed_muon_with_cosine_annealing(max_lr=1e-4)\n    cfg.optimizer = opt\n", "\"muon\"", NULL },
  { "    cfg.optimizer, cfg.scheduler = distributed_fused_adam_with_cosine_annealing(max_lr=1e-4)\n", "\"gpus\": 16", "muon" },
  { "    cfg.model.bias_activation_fusion = True\n    cfg.model.apply_rope_fusion = True\n", "\"nemo-2026-08\"", NULL },
  { "    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)\n", "\"tp_comm_overlap\": true", NULL },
  { "    cfg.model.num_layers_in_first_pipeline_stage = 20\n", "20", NULL },
  { "    cfg.model.cuda_graph_impl = \"none\"\n    cfg.model.cuda_graph_scope = \"full_iteration\"\n", "\"gpus\": 16", "cuda_graph" },
  { "    cfg.model.cuda_graph_impl = \"transformer_engine\"\n    cfg.model.cuda_graph_scope = [\"attn\"]\n",
    "\"cuda_graph\": \"partial\"", NULL },
};

START_TEST(attributes_are_read)
{
  g_auto(GStrv) parts = g_strsplit(RECIPE("BODY"), "BODY", -1);
  g_autofree char *text = g_strjoinv(bodies[_i].body, parts);
  g_autoptr(Launch) l = read_text(text, NULL, 0);
  g_autoptr(Model) model = NULL;
  g_autoptr(Framework) framework = NULL;
  Plan plan;

  check_plan(l, &plan, &model, &framework);
  ck_assert_int_eq(plan.gpus, 16);
  ck_assert_str_eq(model->name, "qwen3-30b-a3b");
  ck_assert_msg(strstr(l->plan, bodies[_i].says) != NULL, "%s\n%s", bodies[_i].body, l->plan);
  ck_assert_msg(!bodies[_i].not || !strstr(l->plan, bodies[_i].not), "%s\n%s", bodies[_i].body, l->plan);
  ck_assert_uint_eq(l->unknown->len, 0);
  ck_assert(has_line(l->assumed, "gpus: 16: as the recipe's name has it"));
}
END_TEST

/* Megatron-FSDP, whose gradients no argument names: the model's own in all software since Core 0.17, whatever it is like. */
START_TEST(fsdp_gradients_are_the_models)
{
  static const struct { const char *framework, *says; } rows[] = {
    { "nemo-2026-08-library", "bf16" }, { "nemo-2026-06", "bf16" }, { "megatron-core-2026", "bf16" },
    { "megatron-core-dev-2026", "bf16" }, { "nemo-2026-04", NULL }, { "megatron-core", NULL },
  };
  const char *text = RECIPE("    cfg.ddp.use_megatron_fsdp = True\n");

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autoptr(Launch) l = launch_read(text, "x.py", &(LaunchOptions) { .framework = rows[i].framework }, NULL);
    ck_assert_ptr_nonnull(l);
    ck_assert_msg(rows[i].says ? strstr(l->plan, "\"main_grads_dtype\": \"bf16\"") != NULL
                               : !strstr(l->plan, "main_grads_dtype"), "%s: %s", rows[i].framework, l->plan);
    ck_assert_ptr_nonnull(strstr(l->plan, "\"zero_stage\": 3"));
  }
}
END_TEST

/* What cannot be read without running it is said, and so is what a call may change. */
START_TEST(what_is_not_read_is_said)
{
  static const struct {
    const char *body, *said;
  } cases[] = {
    { "    cfg.model.pipeline_model_parallel_layout = LAYOUT\n", "layout: LAYOUT: computed: as if nothing said it" },
    { "    cfg.model.recompute_num_layers = 2 if small else 4\n", "recompute_num_layers: 2 if small else 4: computed" },
    { "    cfg.train.micro_batch_size = int(n)\n", "train.micro_batch_size: int: computed" },
    { "    cfg.model.pipeline_model_parallel_layout = [[\"embedding\", \"decoder\"], [\"loss\"]]\n", "a list: equal stages" },
    { "    set_layout(cfg.model)\n", "run_16gpu_h100_config: calls set_layout: what that changes is not read" },
    { "    cfg.mixed_precision = own()\n", "mixed_precision: own: not known: simulated as bf16_mixed" },
    { "    cfg.model.apply_rope_fusion = True\n", "model.apply_rope_fusion: true: simulated as false" },
    { "    cfg.model.mtp_num_layers = 1\n", "model.mtp_num_layers: 1: simulated with the 0 of qwen3-30b-a3b" },
    { "    if small():\n        return None\n", "returns under a condition, too" },
    { "    if (small()):\n        cfg.model.tensor_model_parallel_size = 4\n    else:\n        cfg.model.tensor_model_parallel_size = 8\n",
      "run_16gpu_h100_config: sets cfg.model.tensor_model_parallel_size under a condition, or from what it was: not read" },
    { "    cfg.model.context_parallel_size *= 2\n    cfg.train.micro_batch_size //= 2\n",
      "sets cfg.model.context_parallel_size, cfg.train.micro_batch_size under a condition, or" },
    { "    cfg.mixed_precision.grad_reduce_in_fp32 = wide\n", "mixed_precision.grad_reduce_in_fp32: wide: neither true nor false: taken as true" },
    { "    cfg.optimizer.use_precision_aware_optimizer = precise()\n", "precise: neither true nor false: taken as false" },
    { "    cfg.optimizer = own_optimizer()\n", "optimizer: own_optimizer: not known: Adam is taken, with what is set of it" },
    { "    if x:\n        cfg.optimizer, cfg.scheduler = muon()\n", "sets cfg.optimizer under a condition" },
    { "    for n in (1, 2):\n        set_layout(cfg.model)\n    set_layout(cfg.model)\n", "calls set_layout: what that changes is not read" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_auto(GStrv) parts = g_strsplit(RECIPE("BODY"), "BODY", -1);
    g_autofree char *text = g_strjoinv(cases[i].body, parts);
    g_autoptr(Launch) l = read_text(text, NULL, 0);
    ck_assert_msg(has_line(l->assumed, cases[i].said), "%s\n%s", cases[i].said, (char *)l->assumed->pdata[0]);
    ck_assert(!has_line(l->assumed, "calls if")); /* a word of Python's own before brackets */
    for (guint k = 1; k < l->assumed->len; k++) /* once */
      ck_assert_str_ne(l->assumed->pdata[k], l->assumed->pdata[k - 1]);
  }
  /* what a base in the same file calls counts, and of names that the hub has and we do not the plan is read all the same */
  g_autoptr(Launch) l = read_text("def base_config():\n    cfg = _pretrain_common()\n    cfg.model = (\n        "
                                  "AutoBridge.from_hf_pretrained('a/b').get())\n    set_layout(cfg)\n"
                                  "    if x:\n        cfg.model.y = 2\n        return None\n    cfg.model.cuda_graph_impl = \"local\"\n    cfg.train.x = 1\n    return cfg\n"
                                  "def own_8gpu_config():\n    cfg = base_config()\n    cfg.model.expert_model_parallel_size = 8\n"
                                  "    return cfg\n", "own_8gpu_config", 0);
  ck_assert(has_line(l->assumed, "own_8gpu_config: calls set_layout"));
  ck_assert(has_line(l->assumed, "own_8gpu_config: sets cfg.model.y under a condition"));
  ck_assert(has_line(l->assumed, "own_8gpu_config: returns under a condition, too"));
  ck_assert(has_line(l->assumed, "model: a/b: not among the models of this program"));
  ck_assert_ptr_null(l->model);
  ck_assert_str_eq(l->unknown_model, "a/b");
  g_autoptr(Launch) none = read_text("def own_8gpu_config():\n    cfg = _pretrain_common()\n    cfg.model.cuda_graph_impl = \"local\"\n"
                                     "    cfg.train.x = 1\n    return cfg\n", NULL, 0);
  ck_assert(has_line(none->assumed, "model: not told (--model)") && !none->unknown_model);
  ck_assert(strstr(l->plan, "\"expert_model_parallel_size\": 8") && l->gpus == 8);
}
END_TEST

static void check_refused(const char *text, const char *config, const char *expected)
{
  g_autofree char *name = config ? g_strdup_printf("CONFIG=%s", config) : NULL;
  const char *const given[] = { name, NULL };
  g_autoptr(GError) error = NULL;

  ck_assert_ptr_null(launch_read(text, "x.py", &(LaunchOptions) { .given = given }, &error));
  ck_assert_str_eq(error->message, expected);
}

START_TEST(other_starts_are_refused)
{
  const char *set = "    cfg.model.a = 1\n    cfg.train.b = 1\n    return cfg\n";
  g_autofree char *elsewhere = g_strconcat("def run():\n    cfg = llama3_8b_pretrain_config()\n", set, NULL);
  g_autofree char *two = g_strconcat("def a_config():\n    cfg = _pretrain_common()\n", set, "def b():\n    cfg = a_config(1)\n", set,
                                     "def c():\n    cfg = make(1)\n", set, NULL);

  check_refused(elsewhere, NULL, "x.py: run: starts from llama3_8b_pretrain_config(), which is not in this file: expected "
                "_pretrain_common(), or a function of the same file that starts from it");
  check_refused(two, "c", "x.py: c: starts from make(), which is not read: expected one of a_config, b: give "
                "--script-args CONFIG=NAME");
  /* a hub's name in another encoding is a name, too */
  g_autofree char *latin = g_strconcat("def a():\n    cfg = _pretrain_common()\n    cfg.model = AutoBridge.from_hf_pretrained(\"m/\xe9\")\n",
                                       set, NULL);
  g_autoptr(Launch) l = read_text(latin, NULL, 8);
  ck_assert_str_eq(l->unknown_model, "m/\xe9");
  check_refused("from megatron.bridge.recipes import x\ndef main():\n    x()\n", NULL,
                "x.py: no recipe: expected functions that return what they set attributes of, from _pretrain_common() on");
}
END_TEST

/* Names that the file gives text or a number, and brackets around a value, are read through: of torchtitan's functions, too. */
START_TEST(constants_are_read)
{
  const char *text = "SEQ: int = 4096  # tokens\nTP = 4\nSIZE = '8B'\nOTHER = f(SIZE)\n"
                     "def run():\n    TP = 2\n    return Trainer.Config(model_spec=(model_registry(\n        SIZE)),\n"
                     "        training=T(max_context_length=SEQ, num_tokens_per_microbatch_per_dp_rank=(8192)),\n"
                     "        parallelism=P(tensor_parallel_degree=TP))\n";
  static const char *const given[] = { "MODULE=llama3", NULL };
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) l = launch_read(text, "x.py", &(LaunchOptions) { .gpus = 8, .given = given }, &error);

  ck_assert_msg(l != NULL, "%s", error ? error->message : "");
  ck_assert_msg(l->model && strstr(l->plan, "\"seq_length\": 4096") && strstr(l->plan, "\"micro_batch_size\": 2") &&
                strstr(l->plan, "\"tensor_model_parallel_size\": 2"), "%s", l->plan);
}
END_TEST

/* ---- changes ---- */

static char *exported(const char *text, Plan *plan)
{
  g_autoptr(Launch) l = read_text(text, NULL, 16);
  g_autoptr(Model) model = NULL;
  g_autoptr(Framework) framework = NULL;
  g_autoptr(GError) error = NULL;

  check_plan(l, plan, &model, &framework);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", plan->gpus);
  g_autofree char *out = export_plan(exporter_find("bridge"), model, cluster, plan, NULL, &error);
  ck_assert_msg(out != NULL, "%s", error ? error->message : "");
  return g_strdup(strstr(out, "\nmodel:"));
}

static const struct {
  const char *before, *after, *text; /* of YAML; what the changed function has */
} changes[] = {
  { "  tensor_model_parallel_size: 2\n", "  tensor_model_parallel_size: 4\n", "cfg.model.tensor_model_parallel_size = 4\n" },
  { "  sequence_parallel: true\n", "  sequence_parallel: false\n", "cfg.model.sequence_parallel = False\n" },
  { "  virtual_pipeline_model_parallel_size: null\n", "  virtual_pipeline_model_parallel_size: 2\n",
    "cfg.model.virtual_pipeline_model_parallel_size = 2\n" },
  { "  recompute_granularity: null\n", "  recompute_granularity: full\n", "cfg.model.recompute_granularity = \"full\"\n" },
  { "  recompute_modules: null\n", "  recompute_modules: [moe_act, layernorm]\n",
    "cfg.model.recompute_modules = [\"moe_act\", \"layernorm\"]\n" },
  { "  a: 1\n", "  a: 1\n  format:\n    _target_: torch.float32\n    _call_: false\n", "cfg.model.format = torch.float32\n" },
  { "  a: 1\n", "  a: 1\n", NULL },
};

START_TEST(changes_are_python)
{
  const char *text = RECIPE("");
  g_autofree char *before = g_strconcat("model:\n", changes[_i].before, NULL), *after = g_strconcat("model:\n", changes[_i].after, NULL);
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *changed = launch_change(text, "x.py", NULL, before, after, notes);

  ck_assert_uint_eq(notes->len, 0);
  if (!changes[_i].text)
    ck_assert_str_eq(changed, text);
  else
    ck_assert_msg(strstr(changed, changes[_i].text) && !strstr(text, changes[_i].text), "%s", changed);
}
END_TEST

/* A function changed to a plan says it, and back again what it said. */
START_TEST(changes_read_back)
{
  static const char *const others[] = {
    "    cfg.model.context_parallel_size = 2\n    cfg.model.cp_comm_type = \"p2p\"\n",
    "    cfg.model.recompute_granularity = \"full\"\n    cfg.model.recompute_method = \"block\"\n    cfg.model.recompute_num_layers = 3\n",
    "    cfg.model.pipeline_model_parallel_size = 4\n    cfg.model.virtual_pipeline_model_parallel_size = 3\n    cfg.train.micro_batch_size = 2\n",
    "    cfg.model.cuda_graph_impl = \"transformer_engine\"\n    cfg.model.cuda_graph_scope = [\"attn\"]\n",
    "    cfg.model.moe_token_dispatcher_type = \"flex\"\n    cfg.model.moe_flex_dispatcher_backend = \"hybridep\"\n",
    "    cfg.ddp.overlap_param_gather = False\n    cfg.train.global_batch_size = 128\n",
  };
  g_auto(GStrv) parts = g_strsplit(RECIPE("BODY"), "BODY", -1);
  g_autofree char *text = g_strjoinv("", parts), *other = g_strjoinv(others[_i], parts);
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
  Plan first, wanted, now;
  g_autofree char *before = exported(text, &first), *after = exported(other, &wanted);
  g_autofree char *changed = launch_change(text, "x.py", NULL, before, after, notes);
  g_autofree char *again = exported(changed, &now), *back = launch_change(changed, "x.py", NULL, again, before, notes);
  g_autofree char *once = exported(back, &now);

  ck_assert_str_ne(changed, text);
  ck_assert_str_eq(again, after);
  ck_assert_str_eq(once, before);
  ck_assert_uint_eq(notes->len, 0);
}
END_TEST

/* The function that makes a backend flex does so whatever dispatcher is named: for another the backend goes. */
START_TEST(backends_go)
{
  static const char backend[] = "    cfg.model.moe_token_dispatcher_type = \"alltoall\"\n"
                                "    cfg.model.moe_flex_dispatcher_backend = \"hybridep\"\n"
                                "    apply_flex_dispatcher_backend(cfg.model, cfg.model.moe_flex_dispatcher_backend)\n";
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
  Plan first, wanted, now;
  g_autofree char *before = exported(RECIPE("    cfg.model.moe_token_dispatcher_type = \"flex\"\n"
                                            "    cfg.model.moe_flex_dispatcher_backend = \"hybridep\"\n"), &first);
  g_autofree char *after = exported(RECIPE("    cfg.model.moe_token_dispatcher_type = \"alltoall\"\n"), &wanted);
  g_auto(GStrv) parts = g_strsplit(RECIPE("@"), "@", 2);
  g_autofree char *text = g_strjoinv(backend, parts);
  g_autofree char *changed = launch_change(text, "x.py", NULL, before, after, notes), *again = exported(changed, &now);

  ck_assert_int_eq(first.dispatch, DISPATCH_HYBRID);
  ck_assert_int_eq(now.dispatch, DISPATCH_ALL_TO_ALL);
  ck_assert_str_eq(again, after);
  ck_assert_ptr_nonnull(strstr(changed, "    cfg.model.moe_flex_dispatcher_backend = None\n"));
  ck_assert_uint_eq(notes->len, 0);
}
END_TEST

TEST_LOOPS("launch bridge", { attributes_are_read, G_N_ELEMENTS(bodies) }, { what_is_not_read_is_said }, { fsdp_gradients_are_the_models }, { constants_are_read }, { other_starts_are_refused },
           { changes_are_python, G_N_ELEMENTS(changes) }, { changes_read_back, 6 }, { backends_go })
