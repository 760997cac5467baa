#include "cli/launch_file.h"

#include "base/error.h"
#include "base/files.h"

#include <string.h>

gboolean launch_text(const char *text, gsize length, const char *path, const LaunchOptions *options, Launch **out,
                     GError **error)
{
  gboolean braced = strchr("{[", text[strspn(text, " \t\r\n")]) != NULL;
  gboolean started = options->given && options->given[0]; /* the arguments may be there alone */

  *out = NULL;
  if (strlen(text) != length)
    return TRUE;
  if (launch_recognises(text) || (started && !braced)) {
    *out = launch_read(text, path, options, error);
    return *out != NULL;
  }
  if (braced)
    return TRUE;
  return input_error(error, "%s: expected a JSON file, a script or log with arguments of "
                     "Megatron-LM, or settings of nanotron, torchtitan, DeepSpeed or Megatron-Bridge", path);
}

gboolean launch_file(const char *name, const char *folder, const LaunchOptions *options, Launch **out, GError **error)
{
  gsize length;
  g_autofree char *path = strcmp(name, "-") == 0 ? NULL : files_find(name, folder, NULL);
  gboolean file = path && g_file_test(path, G_FILE_TEST_IS_REGULAR);
  g_autofree char *text = file ? files_read(path, &length, NULL) : NULL;

  *out = NULL;
  return !text || launch_text(text, length, path, options, out, error);
}

Model *launch_model(const Launch *launch, const char *name, GError **error)
{
  if (launch->model)
    return model_parse(launch->model, strlen(launch->model), name, error);
  input_error(error, "%s: model: %s%s: expected its file or name beside it, as in --model gpt3", name,
              launch->unknown_model ? launch->unknown_model : "not told",
              launch->unknown_model ? " is none that is known here" : "");
  return NULL;
}

gboolean launch_plan(const Launch *launch, const char *path, const Model *model, Plan *plan, Framework **framework,
                     GError **error)
{
  return launch ? plan_parse(launch->plan, strlen(launch->plan), path, model, plan, framework, error)
                : plan_load(path, model, plan, framework, error);
}
