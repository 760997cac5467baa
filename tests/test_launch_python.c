/* torchtitan's Python configurations, changed: what is written reads back as the plan that was wanted. */
#include "main.h"

#include "base/files.h"
#include "export/export.h"
#include "fixture.h"
#include "import/launch.h"
#include "plan/nearest.h"

#include <string.h>

#define DRAWN_EACH 60

/* How functions are written: what the named one starts from, by what it is given. */
static const struct {
  const char *text;
  int ranks, heirs; /* that its degrees divide; functions that start from it */
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
    "        parallelism=ParallelismConfig(data_parallel_replicate_degree=n), metrics=Metrics(every=n))", 32, 0 },
  { "import disable_cuda_graphs\ndef run():\n    tp = 4\n    config = 1\n    t = TrainingConfig(seq_len=4096, local_batch_size=4)\n"
    "    p = ParallelismConfig(tensor_parallel_degree=tp)\n"
    "    return Trainer.Config(model_spec=SPEC, training=t, parallelism=p, other=tp)\n", 4, 0 },
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
  char *out = export_plan(exporter_find("torchtitan"), f->model, f->cluster, &plan, NULL, &error);
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
  g_autoptr(Framework) framework = framework_load("torchtitan", NULL);
  g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
  Plan plan;

  if (!fixture_draw_plan(rand, f->model, f->cluster, framework, &plan))
    return NULL;
  g_autofree Plan *near = plan_nearest(&plan, f->model, f->cluster, plan.framework, &nobody, NULL);
  if (!near || (near->tp > 1 && !near->sequence_parallel))
    return NULL;
  g_autofree char *text = export_plan(exporter_find("torchtitan"), f->model, f->cluster, near, NULL, NULL);
  gboolean divided = text && strstr(text, "expert_tensor_parallel_degree") &&
                     !strstr(text, "expert_tensor_parallel_degree = 1\n");
  return text && !strstr(text, "converters") && !divided ? g_steal_pointer(&text) : NULL;
}

/* As many lines of the old text are in the new one as nothing asked to change. */
static void check_round_trip(const File *f, const char *after)
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
}

START_TEST(changes_read_back)
{
  gsize file = (gsize)_i / DRAWN_EACH % FILES, m = (gsize)_i / DRAWN_EACH / FILES;
  g_autofree char *module = g_strdup_printf("MODULE=%s", models[m].module);
  const char *const given[] = { "CONFIG=run", module, NULL };
  g_auto(GStrv) parts = g_strsplit(files[file].text, "SPEC", -1);
  g_autofree char *text = g_strjoinv(models[m].spec, parts);
  g_autoptr(Model) model = fixture_known_model(models[m].model);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 16);
  File f = { text, model, cluster, { 0, NULL, given }, files[file].heirs };
  g_autofree char *after = wanted(&f, (guint)_i);

  f.options.gpus = cluster->devices;
  if (after && cluster->devices % files[file].ranks == 0)
    check_round_trip(&f, after);
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

START_TEST(what_cannot_be_written_is_said)
{
  const char *twice = DEF "    configuration = config = changed = 1\n    return Trainer.Config(a=1)\n";

  check_change(twice, TP(1), TP(2), twice, "run: parallelism.tensor_parallel_degree = 2: no place in the file: write it "
                                           "yourself");
  check_change(DEF "    return Trainer.Config()\n", "[model]\n", "[model]\nconverters = [\"quantize.linear.float8\"]\n",
               DEF "    return Trainer.Config()\n",
               "run: model_spec: converters [\"quantize.linear.float8\"]: no place in the file: write it yourself");
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

TEST_LOOPS("launch python", { changes_read_back, DRAWN_EACH * FILES * MODELS, TRUE }, { changes_stand_where_they_must },
           { what_cannot_be_written_is_said })
