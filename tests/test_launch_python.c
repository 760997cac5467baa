/* torchtitan's Python configurations, changed: what is written reads back as the plan that was wanted. */
#include "main.h"

#include "base/files.h"
#include "export/export.h"
#include "fixture.h"
#include "import/launch.h"
#include "plan/nearest.h"

#include <string.h>

#define DRAWN_EACH 60
#define CHANGED_EACH 8 /* at least: not every drawn plan is one that torchtitan's Python can be told */

/* How functions are written: what the named one starts from, by what it is given. */
static const struct {
  const char *text;
  int ranks, heirs; /* that its degrees divide; functions that start from it */
  gboolean elsewhere; /* another function names the model, and how tokens reach its experts */
} files[] = {
  { "def run() -> Trainer.Config:\n    return Trainer.Config(model_spec=SPEC)\n", 1, 0 },
  { "from torchtitan.distributed.activation_checkpoint import (\n    FullAC,\n    SelectiveAC,\n)\n\n"
    "def run() -> Trainer.Config:\n    \"\"\"def run(): return\"\"\"\n    spec = SPEC\n    return Trainer.Config(\n"
    "        model_spec=spec,\n        training=TrainingConfig(\n"
    "            num_tokens_per_microbatch_per_dp_rank=2 * 4096,  # two\n            max_context_length=4096,\n"
    "            steps=10,\n        ),\n        parallelism=ParallelismConfig(tensor_parallel_degree=2,\n"
    "            pipeline_parallel_degree=1),\n        activation_checkpoint=FullAC.Config(),\n    )  # behind it\n\n"
    "def other() -> Trainer.Config:\n    config = run()\n    config.training.steps = 20\n    return config\n", 2, 1 },
  { "def run():\n    config = base()\n    config.parallelism.tensor_parallel_degree = 4\n"
    "    config.parallelism.pipeline_parallel_degree = 2\n    config.parallelism.num_pp_microbatches = 4\n"
    "    config.training.num_tokens_per_train_step = 64 * 4096\n    return config\n"
    "def base():\n    n = 2\n    return Trainer.Config(model_spec=SPEC, training=TrainingConfig(max_context_length=4096,\n"
    "        num_tokens_per_microbatch_per_dp_rank=4096), activation_checkpoint=None,\n"
    "        parallelism=ParallelismConfig(data_parallel_replicate_degree=n), metrics=Metrics(every=n))", 32, 0, TRUE },
  { "import disable_cuda_graphs\ndef run():\n    tp = 4\n    config = 1\n    t = TrainingConfig(seq_len=4096, local_batch_size=4)\n"
    "    p = ParallelismConfig(tensor_parallel_degree=tp)\n"
    "    return Trainer.Config(model_spec=SPEC, training=t, parallelism=p, other=tp)\n", 4, 0 },
  { "def run():\n    p = ParallelismConfig(tensor_parallel_degree=2, pipeline_parallel_degree=2,\n"
    "        pipeline_parallel_schedule=\"Interleaved1F1B\", pipeline_parallel_layers_per_stage=8,\n"
    "        pipeline_parallel_first_stage_less_layers=0, pipeline_parallel_last_stage_less_layers=0,\n"
    "        expert_tensor_parallel_degree=2, enable_async_tensor_parallel=True)\n"
    "    return Trainer.Config(model_spec=SPEC, training=T(local_batch_size=8), compile=C(enable=True), parallelism=p)\n", 4, 0 },
};

static const struct {
  const char *spec, *model, *module;
} models[] = { { "model_registry(\"8B\")", "llama-3.1-8b", "llama3" },
               { "model_registry(\"30B-A3B\")", "qwen3-30b-a3b", "qwen3" } };

#define FILES G_N_ELEMENTS(files)
#define MODELS G_N_ELEMENTS(models)

static void pass_over(gpointer data, const char *key, const char *before, const char *after, const char *reason)
{
  (void)data, (void)key, (void)before, (void)after, (void)reason;
}

typedef struct {
  char *text;
  const Model *model;
  Cluster *cluster; /* drawn with the plan */
  LaunchOptions options;
  int heirs;
  gboolean elsewhere;
} File;

/* What torchtitan's exporter makes of the plan that a text tells. */
static char *exported(const File *f, const char *text)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Framework) framework = NULL;
  g_autoptr(Launch) l = launch_read(text, "x.py", &f->options, &error);
  Plan plan;

  ck_assert_msg(l != NULL, "%s\n%s", error ? error->message : "", text);
  ck_assert(l->editable && l->whole);
  ck_assert_msg(plan_parse(l->plan, strlen(l->plan), "x.py", f->model, &plan, &framework, &error), "%s\n%s",
                error ? error->message : "", text);
  char *out = export_plan(exporter_find("torchtitan")->later, f->model, f->cluster, &plan, NULL, &error);
  ck_assert_msg(out != NULL, "%s\n%s", error ? error->message : "", text);
  return out;
}

/* Without what stands in notes at the top. */
static char *settings_of(const char *text)
{
  return g_strdup(strstr(text, "[model]"));
}

/* A plan that torchtitan's Python can be told: no product formats, which stand in model_spec, nor experts divided. */
static char *wanted(const File *f, guint seed)
{
  const PlanListener nobody = { pass_over, NULL };
  g_autoptr(Framework) framework = framework_load(seed % 2 ? "torchtitan-2026-05" : "torchtitan", NULL);
  g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
  Plan plan;

  if (!fixture_draw_plan(rand, f->model, f->cluster, framework, &plan))
    return NULL;
  g_autofree Plan *near = plan_nearest(&plan, f->model, f->cluster, plan.framework, &nobody, NULL);
  if (!near)
    return NULL;
  g_autofree char *text = export_plan(exporter_find("torchtitan")->later, f->model, f->cluster, near, NULL, NULL);
  gboolean divided = text && strstr(text, "expert_tensor_parallel_degree") &&
                     !strstr(text, "expert_tensor_parallel_degree = 1\n");
  gboolean placed = text && (!f->elsewhere || !strstr(text, "comm_backend"));
  return placed && !strstr(text, "converters") && !divided ? g_steal_pointer(&text) : NULL;
}

/* A changed text says what was wanted; the same change again is none; and changed back it says what it did. FALSE where
 * the text said it already. */
static gboolean check_round_trip(const File *f, const char *after)
{
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *before = exported(f, f->text);
  g_autofree char *changed = launch_change(f->text, "x.py", f->options.given, before, after, notes);
  g_autofree char *again = exported(f, changed), *expected = settings_of(after);

  test_text(settings_of(again), expected);
  for (guint i = 0; i < notes->len; i++)
    ck_assert_msg(g_str_equal(notes->pdata[i], "other starts from run, and changes with it") ? f->heirs :
                  g_str_has_prefix(notes->pdata[i], "training.disable_cuda_graphs: True where torchtitan has it"),
                  "%s\n%s", (char *)notes->pdata[i], changed);
  /* the same change again is none */
  g_autoptr(GPtrArray) none = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *same = launch_change(changed, "x.py", f->options.given, again, again, none);
  ck_assert_str_eq(same, changed);
  ck_assert_uint_eq(none->len, 0);
  /* and back again it is the plan that it was */
  g_autofree char *back = launch_change(changed, "x.py", f->options.given, again, before, none);
  g_autofree char *first = exported(f, back), *old = settings_of(before);
  test_text(settings_of(first), old);
  return !g_str_equal(changed, f->text);
}

START_TEST(changes_read_back)
{
  gsize file = (gsize)_i % FILES, m = (gsize)_i / FILES;
  g_autofree char *module = g_strdup_printf("MODULE=%s", models[m].module);
  const char *const given[] = { "CONFIG=run", module, NULL };
  g_auto(GStrv) parts = g_strsplit(files[file].text, "SPEC", -1);
  g_autofree char *text = g_strjoinv(models[m].spec, parts);
  g_autoptr(Model) model = fixture_known_model(models[m].model);
  int stride = test_stride(), changed = 0;

  for (int k = 0; k < DRAWN_EACH; k += stride) {
    g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 16);
    File f = { text, model, cluster, { 0, NULL, given }, files[file].heirs, files[file].elsewhere };
    g_autofree char *after = wanted(&f, (guint)(_i * DRAWN_EACH + k));
    f.options.gpus = cluster->devices;
    if (after && cluster->devices % files[file].ranks == 0)
      changed += check_round_trip(&f, after);
  }
  ck_assert_msg(stride > 1 || changed >= CHANGED_EACH, "%d of %d drawn plans changed\n%s", changed, DRAWN_EACH, text);
}
END_TEST

/* ---- how a file is written ---- */

static void check_change(const char *text, const char *before, const char *after, const char *expected, const char *noted)
{
  static const char *const given[] = { "CONFIG=run", NULL };
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *changed = launch_change(text, "x.py", given, before, after, notes);

  ck_assert_str_eq(changed, expected);
  g_ptr_array_add(notes, NULL);
  test_text(g_strjoinv("; ", (char **)notes->pdata), noted);
}

#define TP(n) "[parallelism]\ntensor_parallel_degree = " #n "\n"
#define AC(mode) "[activation_checkpoint]\nmode = \"" #mode "\"\n"
#define PP(n) "[training]\nlocal_batch_size = 1\n[parallelism]\npipeline_parallel_degree = " #n "\n"
#define SHARD(n) "[parallelism]\ndata_parallel_shard_degree = " #n "\n"
#define DEF "def run():\n"
#define CONFIG(arguments) DEF "    return Trainer.Config(" arguments ")\n"
#define AC_IMPORT "from torchtitan.distributed.activation_checkpoint import "
#define LIST "[[\"tok_embeddings\", \"layers.0\"], [\"layers.1\", \"norm\", \"lm_head\"]]"
#define STAGES(n, how) PP(n) how
#define EXPERTS(n, tp) "[parallelism]\nexpert_parallel_degree = " #n "\nexpert_tensor_parallel_degree = " #tp "\n"
#define WHOLE "enable_sequence_parallel = false\n"
#define BACKEND(name) "[parallelism]\nexpert_parallel_comm_backend = \"" #name "\"\n"
#define ASYNC TP(2) "enable_async_tensor_parallel = true\n"
#define BATCH(local, micro) "[training]\nseq_len = 2048\nlocal_batch_size = " #local "\n[parallelism]\n" \
                            "pipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = " #micro "\n"

START_TEST(changes_stand_where_they_must)
{
  /* where the value stands */
  check_change(DEF "    return Trainer.Config(parallelism=P(tensor_parallel_degree = 2, x=2))\n", TP(2), TP(4),
               DEF "    return Trainer.Config(parallelism=P(tensor_parallel_degree = 4, x=2))\n", "");
  /* in what it starts from, and so in another: before it returns */
  check_change("def a():\n    return Trainer.Config(parallelism=P(tensor_parallel_degree=2))\n" DEF "    c = a()\n    return c\n",
               TP(2), TP(4), "def a():\n    return Trainer.Config(parallelism=P(tensor_parallel_degree=2))\n" DEF
               "    c = a()\n    c.parallelism.tensor_parallel_degree = 4\n    return c\n", "");
  /* who starts from it is named; who starts from the same is not */
  check_change("def a():\n    return Trainer.Config()\n" DEF "    c = a()\n    c.parallelism.tensor_parallel_degree = 2\n"
               "    return c\ndef heir():\n    c = run()\n    return c\ndef last():\n    c = heir()\n    return c\n"
               "def beside():\n    return a()\n", TP(2), TP(4), "def a():\n    return Trainer.Config()\n" DEF
               "    c = a()\n    c.parallelism.tensor_parallel_degree = 4\n    return c\ndef heir():\n    c = run()\n"
               "    return c\ndef last():\n    c = heir()\n    return c\ndef beside():\n    return a()\n",
               "heir starts from run, and changes with it; last starts from run, and changes with it");
  /* ranks that are left over stay so */
  check_change(DEF "    return Trainer.Config(parallelism=P(data_parallel_shard_degree=-1))\n", SHARD(8), SHARD(4),
               DEF "    return Trainer.Config(parallelism=P(data_parallel_shard_degree=-1))\n", "");
  check_change(DEF "    return Trainer.Config(parallelism=P(data_parallel_shard_degree=8))\n", SHARD(8), SHARD(4),
               DEF "    return Trainer.Config(parallelism=P(data_parallel_shard_degree=4))\n", "");
  /* a variable may be used where nothing is read */
  check_change(DEF "    tensor_parallel_degree = 2\n    steps(tensor_parallel_degree)\n    c = Trainer.Config(parallelism=P("
               "tensor_parallel_degree=tensor_parallel_degree))\n    return c  # it\n", TP(2), TP(4),
               DEF "    tensor_parallel_degree = 2\n    steps(tensor_parallel_degree)\n    c = Trainer.Config(parallelism=P("
               "tensor_parallel_degree=tensor_parallel_degree))\n    c.parallelism.tensor_parallel_degree = 4\n"
               "    return c  # it\n", "");
  /* a name that is taken is not taken again */
  check_change(DEF "  config = 1\n  return Trainer.Config(\n    a=config,\n  )", TP(1), TP(2), DEF
               "  config = 1\n  configuration = Trainer.Config(\n    a=config,\n  )\n"
               "  configuration.parallelism.tensor_parallel_degree = 2\n  return configuration", "");
  /* all of a call, and what it needs */
  check_change("import x\nfrom torchtitan.trainer import Trainer\n" DEF
               "    return Trainer.Config(activation_checkpoint=MemoryBudgetAC.Config(\n        memory_budget=0.5), a=1)\n",
               AC(none), AC(full),
               "import x\nfrom torchtitan.distributed.activation_checkpoint import FullAC\n"
               "from torchtitan.trainer import Trainer\n" DEF "    return Trainer.Config(activation_checkpoint=FullAC.Config(), "
               "a=1)\n", "");
}
END_TEST

START_TEST(what_a_plan_has_no_more_is_dropped)
{
  const char *layers = "pipeline_parallel_layers_per_stage = 8\n", *list = "module_fqns_per_model_part = " LIST "\n";
  g_autofree char *two = g_strconcat(STAGES(2, ""), list, NULL), *four = g_strconcat(STAGES(4, ""), layers, NULL);
  g_autofree char *two_layers = g_strconcat(STAGES(2, ""), layers, NULL);

  check_change(CONFIG("parallelism=P(pipeline_parallel_degree=2, module_fqns_per_model_part=" LIST ")"), two, four,
               DEF "    config = Trainer.Config(parallelism=P(pipeline_parallel_degree=4, module_fqns_per_model_part=None))\n"
               "    config.parallelism.pipeline_parallel_layers_per_stage = 8\n    return config\n", "");
  check_change(CONFIG("parallelism=P(pipeline_parallel_degree=2, module_fqns_per_model_part=" LIST ")"), two, two_layers,
               DEF "    config = Trainer.Config(parallelism=P(pipeline_parallel_degree=2, module_fqns_per_model_part=None))\n"
               "    config.parallelism.pipeline_parallel_layers_per_stage = 8\n    return config\n", "");
  /* the other way round */
  check_change(CONFIG("parallelism=P(pipeline_parallel_degree=2, pipeline_parallel_layers_per_stage=8)"), two_layers, two,
               DEF "    config = Trainer.Config(parallelism=P(pipeline_parallel_degree=2, "
               "pipeline_parallel_layers_per_stage=None))\n"
               "    config.parallelism.module_fqns_per_model_part = " LIST "\n    return config\n", "");
  /* one that did nothing without stages would with them */
  check_change(DEF "    c = Trainer.Config(parallelism=P(module_fqns_per_model_part=" LIST "))\n"
               "    c.training.disable_cuda_graphs = True\n    return c\n", STAGES(1, ""), four,
               DEF "    c = Trainer.Config(parallelism=P(module_fqns_per_model_part=None))\n"
               "    c.training.disable_cuda_graphs = True\n    c.parallelism.pipeline_parallel_degree = 4\n"
               "    c.parallelism.pipeline_parallel_layers_per_stage = 8\n    return c\n", "");
  /* but stays where the stages do */
  check_change(CONFIG("parallelism=P(tensor_parallel_degree=2, module_fqns_per_model_part=" LIST ")"), TP(2), TP(4),
               CONFIG("parallelism=P(tensor_parallel_degree=4, module_fqns_per_model_part=" LIST ")"), "");
  /* without stages nothing of them is left */
  check_change(CONFIG("parallelism=P(pipeline_parallel_degree=2, pipeline_parallel_schedule=\"GPipe\", "
                      "pipeline_parallel_first_stage_less_layers=0, pipeline_parallel_last_stage_less_layers=0)"),
               STAGES(2, "pipeline_parallel_schedule = \"GPipe\"\npipeline_parallel_first_stage_less_layers = 0\n"
                         "pipeline_parallel_last_stage_less_layers = 0\n"), STAGES(1, ""),
               CONFIG("parallelism=P(pipeline_parallel_degree=1, pipeline_parallel_schedule=\"1F1B\", "
                      "pipeline_parallel_first_stage_less_layers=1, pipeline_parallel_last_stage_less_layers=1)"), "");
  check_change(CONFIG("parallelism=P(fsdp_reshard_after_forward=\"always\")"),
               "[parallelism]\nfsdp_reshard_after_forward = \"always\"\n", "[parallelism]\n",
               CONFIG("parallelism=P(fsdp_reshard_after_forward=\"default\")"), "");
  /* where it has no place */
  const char *none = "def a():\n    return Trainer.Config(parallelism=P(fsdp_reshard_after_forward=\"always\"))\n"
                     DEF "    config = configuration = changed = 1\n    return a()\n";
  check_change(none, "[parallelism]\nfsdp_reshard_after_forward = \"always\"\n", "[parallelism]\n", none,
               "run: parallelism.fsdp_reshard_after_forward = \"default\": no place in the file: write it yourself");
}
END_TEST

START_TEST(names_are_those_of_the_function)
{
  /* experts divided: no newer function has that, but who says it is told */
  check_change(CONFIG("parallelism=P(expert_tensor_parallel_degree=2)"), EXPERTS(2, 2), EXPERTS(2, 1),
               CONFIG("parallelism=P(expert_tensor_parallel_degree=1)"), "");
  check_change(CONFIG("parallelism=P(expert_tensor_parallel_degree=2)"), EXPERTS(2, 2),
               "[parallelism]\nexpert_parallel_degree = 2\n", CONFIG("parallelism=P(expert_tensor_parallel_degree=1)"), "");
  check_change(CONFIG("parallelism=P(expert_parallel_degree=2)"), EXPERTS(2, 2), EXPERTS(4, 1),
               CONFIG("parallelism=P(expert_parallel_degree=4)"), "");
  /* where asynchronous products stand: at one place, at the other, at both, at none */
  check_change(CONFIG("parallelism=P(enable_async_tensor_parallel=True)"), ASYNC, TP(2),
               CONFIG("parallelism=P(enable_async_tensor_parallel=False)"), "");
  check_change(CONFIG("parallelism=P(enable_async_tensor_parallel=False), compile=C(enable=True)"), TP(2), ASYNC,
               CONFIG("parallelism=P(enable_async_tensor_parallel=True), compile=C(enable=True)"), "");
  check_change(CONFIG("compile=C(enable_async_tensor_parallel=True)"), ASYNC, TP(2),
               CONFIG("compile=C(enable_async_tensor_parallel=False)"), "");
  check_change(CONFIG("parallelism=P(enable_async_tensor_parallel=True), compile=C(enable_async_tensor_parallel=True)"),
               ASYNC, TP(2),
               CONFIG("parallelism=P(enable_async_tensor_parallel=False), compile=C(enable_async_tensor_parallel=False)"), "");
  check_change(DEF "    c = Trainer.Config(compile=C(enable=True))\n    return c\n", TP(2), ASYNC,
               DEF "    c = Trainer.Config(compile=C(enable=True))\n"
               "    c.compile.enable_async_tensor_parallel = True\n    return c\n", "");
  /* rows that are not divided: only where that is another than torchtitan's own */
  check_change(CONFIG("parallelism=P(tensor_parallel_degree=2)"), TP(2), TP(2) WHOLE,
               DEF "    config = Trainer.Config(parallelism=P(tensor_parallel_degree=2))\n"
               "    config.parallelism.enable_sequence_parallel = False\n    return config\n", "");
  check_change(CONFIG("parallelism=P(enable_sequence_parallel=False)"), TP(2) WHOLE, TP(2),
               CONFIG("parallelism=P(enable_sequence_parallel=True)"), "");
  /* how experts' ranks exchange tokens is an argument of the model, which no assignment changes */
  check_change(CONFIG("model_spec=m(\"16B\", moe_comm_backend=\"deepep\")"), BACKEND(deepep), BACKEND(hybridep),
               CONFIG("model_spec=m(\"16B\", moe_comm_backend=\"hybridep\")"), "");
  check_change(CONFIG("model_spec=m(\"16B\", moe_comm_backend=\"deepep\")"), BACKEND(deepep), "[parallelism]\n",
               CONFIG("model_spec=m(\"16B\", moe_comm_backend=\"standard\")"), "");
  check_change(DEF "    spec = m(\n        \"16B\",  # small\n    )\n    return Trainer.Config(model_spec=spec)\n", "[parallelism]\n",
               BACKEND(hybridep), DEF "    spec = m(\n        \"16B\", moe_comm_backend=\"hybridep\",  # small\n    )\n"
               "    return Trainer.Config(model_spec=spec)\n", "");
  const char *base = "def a():\n    return Trainer.Config(model_spec=m(\"16B\"))\n" DEF "    c = a()\n    return c\n";
  check_change(base, "[parallelism]\n", BACKEND(hybridep), base,
               "run: model_spec.moe_comm_backend = \"hybridep\": no place in the file: write it yourself");
  /* sequences or tokens */
  check_change(CONFIG("training=T(local_batch_size=8)"), BATCH(8, 1), BATCH(4, 1), CONFIG("training=T(local_batch_size=4)"), "");
  check_change(CONFIG("parallelism=P(pipeline_parallel_microbatch_size=1)"), BATCH(8, 1), BATCH(8, 2),
               CONFIG("parallelism=P(pipeline_parallel_microbatch_size=2)"), "");
  check_change(CONFIG("training=T(global_batch_size=8)"), BATCH(8, 1) "[training]\nglobal_batch_size = 8\n",
               BATCH(8, 1) "[training]\nglobal_batch_size = 16\n", CONFIG("training=T(global_batch_size=16)"), "");
  check_change(DEF "    c = Trainer.Config(training=T(local_batch_size=None))\n    return c\n", BATCH(8, 1), BATCH(4, 1),
               DEF "    c = Trainer.Config(training=T(local_batch_size=None))\n"
               "    c.parallelism.num_pp_microbatches = 4\n    return c\n", "");
}
END_TEST

/* What counts sequences is read as that, with TOML's defaults. */
START_TEST(sequences_are_read)
{
  static const struct {
    const char *arguments, *plan;
  } cases[] = {
    { "", "\"global_batch_size\": 64, \"micro_batch_size\": 8, \"seq_length\": 2048" },
    { ", training=T(local_batch_size=4)", "\"global_batch_size\": 32, \"micro_batch_size\": 4, \"seq_length\": 2048" },
    { ", training=T(global_batch_size=16)", "\"global_batch_size\": 16, \"micro_batch_size\": 8, \"seq_length\": 2048" },
    { ", parallelism=P(pipeline_parallel_degree=2, pipeline_parallel_microbatch_size=2)",
      "\"global_batch_size\": 32, \"micro_batch_size\": 2, \"seq_length\": 2048" },
    { ", training=T(num_tokens_per_microbatch_per_dp_rank=8192, max_context_length=4096, local_batch_size=None)",
      "\"global_batch_size\": 16, \"micro_batch_size\": 2, \"seq_length\": 4096" },
  };
  static const char *const given[] = { "CONFIG=run", "MODULE=llama3", NULL };
  const LaunchOptions options = { 8, NULL, given };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autofree char *text = g_strdup_printf(CONFIG("model_spec=model_registry(\"8B\")%s"), cases[i].arguments);
    g_autoptr(Launch) l = launch_read(text, "x.py", &options, &error);
    ck_assert_msg(l != NULL, "%s\n%s", error ? error->message : "", text);
    g_auto(GStrv) lines = g_regex_split_simple(",\\s+", l->plan, 0, 0);
    g_autofree char *plan = g_strjoinv(", ", lines);
    ck_assert_msg(strstr(plan, cases[i].plan) != NULL, "%s\n%s", text, plan);
    for (guint k = 0; k < l->unknown->len; k++)
      ck_abort_msg("%s\n%s", text, (char *)l->unknown->pdata[k]);
  }
}
END_TEST

START_TEST(classes_are_imported_once)
{
  static const struct {
    const char *before;
    gboolean there;
  } cases[] = {
    { AC_IMPORT "FullAC\n", TRUE },
    { AC_IMPORT "FullAC  # what is made again\n", TRUE },
    { AC_IMPORT "NoAC, FullAC, SelectiveAC as Some\n", TRUE },
    { AC_IMPORT "(  # both (of them)\n    SelectiveAC,  # FullAC\n    FullAC,\n)\n", TRUE },
    { AC_IMPORT "SelectiveAC, \\\n    FullAC\n", TRUE },
    { AC_IMPORT "FullAC as FullAC\n", TRUE },
    { AC_IMPORT "FullAC as Full\n", FALSE },
    { AC_IMPORT "(\n    FullAC as Full,\n)\n", FALSE },
    { AC_IMPORT "SelectiveAC  # FullAC\n", FALSE },
    { AC_IMPORT "(\n    SelectiveAC,  # FullAC\n)\n", FALSE },
    { AC_IMPORT "FullACs\n", FALSE },
    { "from torchtitan.FullAC import x\n", FALSE },
    { "# from x import FullAC\n", FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strconcat(cases[i].before, CONFIG("activation_checkpoint=None"), NULL);
    g_autofree char *expected = g_strconcat(*cases[i].before == '#' ? cases[i].before : "",
                                            cases[i].there ? "" : AC_IMPORT "FullAC\n",
                                            *cases[i].before == '#' ? "" : cases[i].before,
                                            CONFIG("activation_checkpoint=FullAC.Config()"), NULL);
    check_change(text, AC(none), AC(full), expected, "");
  }
  /* none without its use */
  const char *twice = DEF "    configuration = config = changed = 1\n    return Trainer.Config(a=1)\n";
  check_change(twice, AC(none), AC(full), twice,
               "run: activation_checkpoint = FullAC.Config(): no place in the file: write it yourself");
}
END_TEST

/* A class of one's own, as torchtitan's Kimi models have it, and an optimizer that is not Adam's. */
START_TEST(own_classes_are_configurations)
{
  const char *text = "from torchtitan.trainer import Trainer\n"
                     "def kimi() -> Trainer.Config:\n"
                     "    return _KimiTrainerConfig(\n"
                     "        model_spec=model_registry(\"Kimi-K2.5\"),\n"
                     "        optimizer=_dist_muon_optimizer(lr=2e-4),\n"
                     "        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=8192, max_context_length=4096),\n"
                     "        parallelism=ParallelismConfig(expert_parallel_degree=8),\n"
                     "    )\n";
  const char *usual = "def llama() -> Trainer.Config:\n    return Trainer.Config(model_spec=model_registry(\"8B\"),\n"
                      "        optimizer=OptimizersContainer.Config(lr=8e-4))\n";
  const char *elsewhere = "from torchtitan.models.llama3.config_registry import llama3_8b\n"
                          "def graph() -> Trainer.Config:\n    return to_graph_trainer_config(llama3_8b(), registry)\n";
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) l = launch_read(text, "x.py", &(LaunchOptions) { 64 }, &error);

  ck_assert_msg(l != NULL, "%s", error ? error->message : "");
  ck_assert(strstr(l->plan, "\"expert_model_parallel_size\": 8") && strstr(l->plan, "\"micro_batch_size\": 2"));
  ck_assert(g_ptr_array_find_with_equal_func(l->assumed, "optimizer: _dist_muon_optimizer: simulated as AdamW",
                                             g_str_equal, NULL));
  g_autoptr(Launch) adam = launch_read(usual, "llama3/x.py", &(LaunchOptions) { 8 }, NULL);
  for (guint i = 0; i < adam->assumed->len; i++)
    ck_assert_ptr_null(strstr(adam->assumed->pdata[i], "optimizer"));
  ck_assert_ptr_null(launch_read(elsewhere, "y.py", &(LaunchOptions) { 64 }, &error));
  ck_assert_str_eq(error->message, "y.py: no configuration: expected functions that return Trainer.Config(...) themselves");
}
END_TEST

/* How experts' ranks exchange tokens: a key of TOML, the model's in Python; the framework is the first that has it. */
START_TEST(exchanges_are_read)
{
  static const struct { const char *backend, *own, *framework; } rows[] = {
    { "standard", NULL, "\"framework\": \"torchtitan\"" },
    { "deepep", "\"moe_token_dispatcher_type\": \"flex\"", "\"framework\": \"torchtitan-2025-11\"" },
    { "hybridep", "\"moe_token_dispatcher_type\": \"hybridep\"", "\"framework\": \"torchtitan-2026-05\"" },
    { "minimal_async_ep", NULL, "\"framework\": \"torchtitan\"" },
  };
  g_autofree char *toml = g_strdup_printf("[model]\nname = \"deepseek_v3\"\nflavor = \"16B\"\n[training]\n"
                                          "local_batch_size = 1\n[parallelism]\nexpert_parallel_degree = 8\n"
                                          "expert_parallel_comm_backend = \"%s\"\n", rows[_i].backend);
  g_autofree char *python = g_strdup_printf("def deepseek_v3_16b() -> Trainer.Config:\n    return Trainer.Config(\n"
                                            "        model_spec=model_registry(\"16B\", moe_comm_backend=\"%s\"),\n"
                                            "        parallelism=ParallelismConfig(expert_parallel_degree=8))\n",
                                            rows[_i].backend);
  const char *const texts[] = { toml, python };

  for (int i = 0; i < 2; i++) {
    const LaunchOptions options = { 64 };
    g_autoptr(Launch) l = launch_read(texts[i], i ? "deepseek_v3/c.py" : "x.toml", &options, NULL);
    ck_assert_ptr_nonnull(l);
    ck_assert_msg(strstr(l->plan, rows[_i].framework) != NULL, "%s", l->plan);
    ck_assert(rows[_i].own ? strstr(l->plan, rows[_i].own) != NULL : !strstr(l->plan, "moe_token_dispatcher_type"));
    ck_assert_int_eq(l->assumed && g_ptr_array_find_with_equal_func(l->assumed, "expert_parallel_comm_backend: "
                     "minimal_async_ep: simulated as standard", g_str_equal, NULL), _i == 3);
  }
}
END_TEST

/* Rows are divided where the file does not say otherwise, and where experts stand on ranks of their own. */
START_TEST(rows_are_read)
{
  static const struct { const char *parallelism; gboolean divided, said; const char *framework; } rows[] = {
    { "tensor_parallel_degree=4", TRUE, FALSE, "torchtitan" },
    { "tensor_parallel_degree=4, enable_sequence_parallel=True", TRUE, FALSE, "torchtitan" },
    { "tensor_parallel_degree=4, enable_sequence_parallel=False", FALSE, FALSE, "torchtitan-2026-05" },
    { "tensor_parallel_degree=1, enable_sequence_parallel=False", FALSE, FALSE, "torchtitan" },
    { "tensor_parallel_degree=4, expert_parallel_degree=8, enable_sequence_parallel=False", TRUE, TRUE, "torchtitan" },
  };
  static const char *const given[] = { "MODULE=qwen3", NULL };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autoptr(GError) error = NULL;
    g_autofree char *text = g_strdup_printf(CONFIG("model_spec=model_registry(\"30B-A3B\"), parallelism=P(%s)"),
                                            rows[i].parallelism);
    g_autofree char *framework = g_strdup_printf("\"framework\": \"%s\"", rows[i].framework);
    g_autoptr(Launch) l = launch_read(text, "x.py", &(LaunchOptions) { .gpus = 64, .given = given }, &error);
    ck_assert_msg(l != NULL, "%s", error ? error->message : "");
    ck_assert_msg(strstr(l->plan, framework) && !!strstr(l->plan, "\"sequence_parallel\": true") == rows[i].divided,
                  "%s: %s", rows[i].parallelism, l->plan);
    gboolean said = FALSE;
    for (guint k = 0; k < l->assumed->len; k++)
      said |= g_str_has_prefix(l->assumed->pdata[k], "enable_sequence_parallel: false: simulated as true");
    ck_assert_int_eq(said, rows[i].said);
    ck_assert_uint_eq(l->unknown->len, 0);
    ck_assert(l->not_simulated->len == 0 || !strstr(l->not_simulated->pdata[0], "sequence_parallel"));
  }
}
END_TEST

/* Nothing behind the first return is run; one that a condition leads to is none that is read, and this is said, but of a
 * function inside. */
START_TEST(returns_end_functions)
{
  static const struct { const char *text; int tp; gboolean said; } cases[] = {
    { "    c = Trainer.Config(model_spec=model_registry(\"8B\"), parallelism=P(tensor_parallel_degree=2))\n    return c\n"
      "    c.parallelism.tensor_parallel_degree = 4\n    return c\n", 2, FALSE },
    { "    c = Trainer.Config(model_spec=model_registry(\"8B\"), parallelism=P(tensor_parallel_degree=2))\n"
      "    if small():\n        return c\n    c.parallelism.tensor_parallel_degree = 4\n    return c\n", 4, TRUE },
    { "    def inner():\n        return 1\n    if small():\n        returned = 1\n"
      "    return Trainer.Config(model_spec=model_registry(\"8B\"), parallelism=P(tensor_parallel_degree=8))\n", 8, FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strconcat(DEF, cases[i].text, NULL);
    g_autofree char *tp = g_strdup_printf("\"tensor_model_parallel_size\": %d,", cases[i].tp);
    const char *const given[] = { "CONFIG=run", "MODULE=llama3", NULL };
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launch_read(text, "x.py", &(LaunchOptions) { .gpus = 8, .given = given }, &error);
    gboolean said = FALSE;
    ck_assert_msg(l && strstr(l->plan, tp), "%s: %s", text, l ? l->plan : error->message);
    for (guint k = 0; k < l->assumed->len; k++)
      said |= g_str_equal(l->assumed->pdata[k], "run: returns under a condition, too: the last one, under none, is read alone");
    ck_assert_msg(said == cases[i].said, "%s", text);
    for (guint k = 0; k < l->unknown->len; k++)
      ck_assert_msg(!strstr(l->unknown->pdata[k], "returns"), "%s", (char *)l->unknown->pdata[k]);
  }
}
END_TEST

/* Lines that end as DOS has them are read alike, and those that are added end so, too: the same text but for that. */
START_TEST(lines_end_alike)
{
  static const struct { const char *name, *text, *before, *after; } cases[] = {
    { "x.py", DEF "    return Trainer.Config(parallelism=P(tensor_parallel_degree=1))\n", PP(1), PP(2) },
    { "x.py", DEF "    c = Trainer.Config(training=T(disable_cuda_graphs=False))\n    return c\n", PP(1), PP(2) },
    { "x.py", CONFIG("activation_checkpoint=None"), AC(none), AC(full) },
    { "x.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\ntensor_parallel_degree = 2\n", TP(2),
      TP(2) "expert_parallel_degree = 2\n" },
    { "x.json", "{\n  \"train_batch_size\": 8,\n  \"zero_optimization\": {\n    \"stage\": 2\n  }\n}\n",
      "{ \"zero_optimization\": { \"stage\": 2 } }", "{ \"zero_optimization\": { \"stage\": 3, \"overlap_comm\": true } }" },
  };
  static const char *const given[] = { "CONFIG=run", NULL };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_auto(GStrv) parts = g_strsplit(cases[i].text, "\n", -1);
    g_autofree char *dos = g_strjoinv("\r\n", parts);
    g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
    g_autofree char *one = launch_change(cases[i].text, cases[i].name, given, cases[i].before, cases[i].after, notes);
    g_autofree char *other = launch_change(dos, cases[i].name, given, cases[i].before, cases[i].after, notes);
    g_auto(GStrv) lines = g_strsplit(one, "\n", -1);
    g_autofree char *expected = g_strjoinv("\r\n", lines);
    ck_assert_str_ne(one, cases[i].text);
    ck_assert_str_eq(other, expected);
  }
}
END_TEST

START_TEST(what_cannot_be_written_is_said)
{
  const char *twice = DEF "    configuration = config = changed = 1\n    return Trainer.Config(a=1)\n";

  check_change(twice, TP(1), TP(2), twice, "run: parallelism.tensor_parallel_degree = 2: no place in the file: write it "
                                           "yourself");
  check_change(DEF "    return Trainer.Config()\n", "[model]\n", "[model]\nconverters = [\"quantize.linear.float8\"]\n",
               DEF "    return Trainer.Config()\n",
               "run: model_spec: converters Float8LinearConverter: no place in the file: write it yourself");
  check_change(DEF "    return Trainer.Config()\n", "[model]\n", "[model]\nconverters = [\"quantize.linear.mx\"]\n",
               DEF "    return Trainer.Config()\n",
               "run: model_spec: converters MXFP8LinearConverter: no place in the file: write it yourself");
  check_change(DEF "    return Trainer.Config()\n", "[model]\n", "[model]\nconverters = [\"quantize.linear.nvfp4\"]\n",
               DEF "    return Trainer.Config()\n",
               "run: model_spec: converters NVFP4LinearConverter: no place in the file: write it yourself");
  check_change(DEF "    return Trainer.Config()\n", "[model]\nconverters = [\"quantize.linear.mx\"]\n", "[model]\n",
               DEF "    return Trainer.Config()\n",
               "run: model_spec: converters none: no place in the file: write it yourself");
  /* of a file that knows no graphs nobody can say whether it has them */
  check_change(DEF "    c = Trainer.Config()\n    return c\n", PP(1), PP(2),
               DEF "    c = Trainer.Config()\n    c.parallelism.pipeline_parallel_degree = 2\n    return c\n",
               "training.disable_cuda_graphs: True where torchtitan has it: it records no steps with "
               "parallelism.pipeline_parallel_degree above 1");
  check_change(DEF "    c = Trainer.Config()\n    c.training.disable_cuda_graphs = False\n    return c\n", PP(1), PP(2),
               DEF "    c = Trainer.Config()\n    c.training.disable_cuda_graphs = True\n"
               "    c.parallelism.pipeline_parallel_degree = 2\n    return c\n", "");
  /* torchtitan would refuse stages while it makes the configuration, before graphs are left */
  check_change(DEF "    c = Trainer.Config(parallelism=P(pipeline_parallel_degree=1), training=T(disable_cuda_graphs=False))\n"
               "    return c\n", PP(1), PP(2),
               DEF "    c = Trainer.Config(parallelism=P(pipeline_parallel_degree=1), training=T(disable_cuda_graphs=True))\n"
               "    c.parallelism.pipeline_parallel_degree = 2\n    return c\n", "");
}
END_TEST

TEST_LOOPS("launch python", { rows_are_read }, { changes_read_back, FILES * MODELS, FALSE }, { changes_stand_where_they_must },
           { own_classes_are_configurations }, { exchanges_are_read, 4 }, { returns_end_functions }, { lines_end_alike },
           { what_a_plan_has_no_more_is_dropped }, { names_are_those_of_the_function }, { sequences_are_read },
           { classes_are_imported_once }, { what_cannot_be_written_is_said })
