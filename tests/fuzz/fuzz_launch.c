/*
 * Runs as other tools are told them: scripts of bash, command lines, logs, YAML, TOML, JSON. Model and plan that come
 * of one are read by their own readers, and the text is changed in two arguments.
 */
#include "fuzz.h"

#include "import/launch.h"
#include "import/shell.h"
#include "plan/plan.h"

#include <string.h>

enum { LENGTH_MOST = 1 << 14 };

static void read_plan(const Launch *launch, const Model *model)
{
  GError *error = NULL;
  Framework *framework = NULL;
  Plan plan;

  fuzz_judge(plan_parse(launch->plan, strlen(launch->plan), "plan", model, &plan, &framework, &error), &error);
  framework_free(framework);
}

static void read_files(const Launch *launch)
{
  GError *error = NULL;
  g_autoptr(Model) model = launch->model ? model_parse(launch->model, strlen(launch->model), "model", &error) : NULL;

  if (launch->model)
    fuzz_judge(model != NULL, &error);
  if (model && launch->plan)
    read_plan(launch, model);
}

/* Of tools two command lines, or files; others have the first row, or the second where a launch is `whole`. */
static const struct {
  const char *tool, *before, *after;
} changes[] = {
  { NULL, "--tensor-model-parallel-size 2 --micro-batch-size 1",
    "--tensor-model-parallel-size 4 --recompute-granularity full" },
  { "torchtitan", "[training]\nglobal_batch_size = 64\nseq_len = 8192\nlocal_batch_size = 2\n",
    "[training]\nglobal_batch_size = 64\nseq_len = 8192\nlocal_batch_size = 4\n[parallelism]\n"
    "pipeline_parallel_degree = 2\n[activation_checkpoint]\nmode = \"full\"\n" },
  { "accelerate", "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\nfsdp_config:\n  fsdp_version: 2\n",
    "distributed_type: FSDP\nmixed_precision: fp16\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n"
    "  fsdp_activation_checkpointing: true\nparallelism_config:\n  parallelism_config_tp_size: 2\n" },
  { "deepspeed",
    "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": {\"stage\": 2}}",
    "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, \"zero_optimization\": {\"stage\": 3, "
    "\"offload_optimizer\": {\"device\": \"cpu\"}}}" },
};

static void change(const char *text, const char *const *given, const Launch *launch)
{
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
  gsize i = G_N_ELEMENTS(changes) - 1;

  while (i > 0 && !g_str_equal(changes[i].tool, launch->tool))
    i--;
  i = i == 0 && launch->whole ? 1 : i;
  g_autofree char *changed = launch_change(text, "input", given, changes[i].before, changes[i].after, notes);

  g_assert(changed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  GError *error = NULL;

  if (size > LENGTH_MOST)
    return 0;
  fuzz_serve(data, size, NULL);
  g_autofree char *text = fuzz_text(data, size);
  static const char *const given[] = { "TP=2", "CONFIG=llama3_8b", "1=4", "2=--bf16 $1", "3=", NULL };
  LaunchOptions options = { .given = size % 2 ? given : NULL };
  if (size % 3 == 0)
    options = (LaunchOptions) { .given = options.given, .gpus = 16, .seq = 2048, .hidden = 4096, .batch = 256 };
  g_autoptr(ShellScript) script = shell_read(text, NULL, options.given);
  g_assert(script);
  if (!launch_recognises(text))
    return 0;
  g_autoptr(Launch) launch = launch_read(text, "input", &options, &error);
  fuzz_judge(launch != NULL, &error);
  if (!launch)
    return 0;
  read_files(launch);
  if (launch->editable)
    change(text, options.given, launch);
  return 0;
}
