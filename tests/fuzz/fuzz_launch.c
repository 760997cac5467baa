/*
 * Runs as other tools are told them: scripts of bash, command lines, logs, YAML, TOML, JSON. Model and plan that come of
 * one are read by their own readers, and the text is changed in two arguments.
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

#define SETTINGS "[training]\nglobal_batch_size = 64\nseq_len = 8192\nlocal_batch_size = "

static void change(const char *text, const char *const *given, gboolean whole)
{
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
  const char *before = whole ? SETTINGS "2\n" : "--tensor-model-parallel-size 2 --micro-batch-size 1";
  const char *after = whole ? SETTINGS "4\n[parallelism]\npipeline_parallel_degree = 2\n[activation_checkpoint]\nmode = "
                              "\"full\"\n"
                            : "--tensor-model-parallel-size 4 --recompute-granularity full";
  g_autofree char *changed = launch_change(text, "input", given, before, after, notes);

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
  const LaunchOptions options = { .given = size % 2 ? given : NULL };
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
    change(text, options.given, launch->whole);
  return 0;
}
