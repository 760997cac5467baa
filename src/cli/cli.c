#include "cli/cli.h"

#include "base/error.h"
#include "base/files.h"
#include "program/balance.h"

#include <stdio.h>

static gboolean print_version(const char *option, const char *value, gpointer data, GError **error)
{
  (void)option, (void)value, (void)data, (void)error;
  printf("%s %s\n", g_get_prgname(), TDP_VERSION);
  exit(0);
}

static const GOptionEntry common[] = {
  { "version", 0, G_OPTION_FLAG_NO_ARG, G_OPTION_ARG_CALLBACK, (gpointer)print_version,
      "Print the version and exit", NULL },
  G_OPTION_ENTRY_NULL,
};

gboolean cli_parse(int *argc, char ***argv, const GOptionEntry *entries, const char *summary, GError **error)
{
  g_autoptr(GOptionContext) context = g_option_context_new(NULL);

  g_option_context_set_summary(context, summary);
  g_option_context_add_main_entries(context, entries, NULL);
  g_option_context_add_main_entries(context, common, NULL);
  return g_option_context_parse(context, argc, argv, error);
}

Model *cli_load_model(const char *name, GError **error)
{
  g_autofree char *path = NULL;

  if (!name) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT,
                "--model: missing: expected a model file or name, as in --model gpt3");
    return NULL;
  }
  path = files_find(name, "models", error);
  return path ? model_load(path, error) : NULL;
}

Cluster *cli_load_cluster(const char *name, GError **error)
{
  g_autofree char *path = NULL;

  if (!name) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT,
                "--cluster: missing: expected a cluster file or name, as in --cluster dgx");
    return NULL;
  }
  path = files_find(name, "hardware", error);
  return path ? cluster_load(path, error) : NULL;
}

gboolean cli_load_plan(const char *name, const Model *model, Cluster *cluster, Plan *plan, Framework **framework,
                       char **path, GError **error)
{
  *path = files_find(name, "plans", error);
  if (!*path || !plan_load(*path, model, plan, framework, error))
    return FALSE;
  if (!cluster_resize(cluster, plan->gpus, error)) {
    g_prefix_error(error, "%s: gpus: ", *path);
    return FALSE;
  }
  if (!balance_plan(model, cluster, plan, error) || plan_check(plan, model, cluster, error) != RULE_NONE) {
    g_prefix_error(error, "%s: ", g_str_equal(*path, "-") ? "stdin" : *path);
    return FALSE;
  }
  return TRUE;
}

gboolean cli_check_count(const char *option, int *value, GError **error)
{
  if (*value == CLI_ABSENT) {
    *value = 0;
    return TRUE;
  }
  if (*value >= 1)
    return TRUE;
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: %d: expected an integer of at least 1", option, *value);
  return FALSE;
}

gboolean cli_precision(const char *name, DType *out, GError **error)
{
  const DType choices[] = { DTYPE_FP32, DTYPE_TF32, DTYPE_FP16, DTYPE_BF16, DTYPE_FP8, DTYPE_FP4 };

  for (gsize i = 0; i < G_N_ELEMENTS(choices); i++)
    if (g_str_equal(dtype_names[choices[i]], name)) {
      *out = choices[i];
      return TRUE;
    }
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "--precision: %s: expected fp32, tf32, fp16, bf16, fp8 or fp4", name);
  return FALSE;
}

int cli_fail(const char *program, GError *error)
{
  int code = tdp_error_exit_code(error);

  /* one line, whatever a file or an option held */
  for (char *c = error->message; *c; c++)
    if ((guchar)*c < 0x20)
      *c = ' ';
  fprintf(stderr, "%s: %s\n", program, error->message);
  g_error_free(error);
  return code;
}

int cli_finish(const char *program)
{
  if (fflush(stdout) == 0 && !ferror(stdout))
    return 0;
  fprintf(stderr, "%s: standard output: cannot be written\n", program);
  return 1;
}
