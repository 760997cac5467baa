#include "cli/launch_file.h"

#include "base/error.h"
#include "base/files.h"
#include "cli/cli.h"

#include <string.h>

/* A file of settings that a script is started with, or that YAML of axolotl, LLaMA-Factory and their like names; NULL
 * if there is none. Newly allocated. */
static char *named_file(const char *text)
{
  g_autoptr(GRegex) regex = g_regex_new("(?:--deepspeed(?:_config)?|--config[_-]file|^\\s*deepspeed:)[\\s=]+[\"']?"
                                        "([^\\s\"'#][^\\s\"']*\\.(?:json|ya?ml))\\b", G_REGEX_MULTILINE, 0, NULL);
  g_autoptr(GMatchInfo) match = NULL;

  gboolean names = g_utf8_validate(text, -1, NULL) && g_regex_match(regex, text, 0, &match);
  return names ? g_match_info_fetch(match, 1) : NULL;
}

/* The launch in the text of a file, whose path is for messages. */
static gboolean launch_text(const char *text, gsize length, const char *path, const LaunchOptions *options, Launch **out,
                            GError **error)
{
  const char *begin = text + (g_str_has_prefix(text, "\xEF\xBB\xBF") ? 3 : 0);
  gboolean braced = strchr("{[", begin[strspn(begin, " \t\r\n")]) != NULL;
  gboolean started = options->given && options->given[0]; /* the arguments may be there alone */

  *out = NULL;
  if (strlen(text) != length)
    return TRUE;
  if (begin > text && !braced)
    return input_error(error, "%s: a byte order mark: expected none", path);
  if (launch_recognises(text) || (started && !braced)) {
    *out = launch_read(text, path, options, error);
    return *out != NULL;
  }
  if (braced)
    return TRUE;
  g_autofree char *named = named_file(text);
  if (named)
    return input_error(error, "%s: expected the file of DeepSpeed or accelerate that it names, %s: the plan stands "
                       "there", path, named);
  return input_error(error, "%s: expected a JSON file, a script or log with arguments of Megatron-LM, or settings of "
                     "nanotron, torchtitan, DeepSpeed, accelerate, OLMo, litgpt, Primus, NeMo 1, "
                     "KempnerForge or Megatron-Bridge", path);
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

/* What is told of a run beside a file that says it, or that cannot be told. */
static gboolean check_asked(const TrainingFile *file, const LaunchOptions *asked, GError **error)
{
  const Launch *l = file->launch;
  gboolean script = l && (l->named || (l->editable && !l->whole));

  if (asked->given && asked->given[0] && !script)
    return input_error(error, "--script-args: expected without %s, which is no script", file->path);
  return TRUE;
}

gboolean training_file_read(TrainingFile *file, const char *name, Model *model, const LaunchOptions *asked,
                            GError **error)
{
  LaunchOptions options = *asked;

  *file = (TrainingFile) { .model = model };
  cli_note_shadow(name, "plans");
  g_autofree char *path = files_find(name, "plans", error);
  file->text = path ? files_read(path, &file->length, error) : NULL;
  file->path = g_strdup(g_strcmp0(path, "-") == 0 ? "stdin" : path);
  if (!file->text)
    return FALSE;
  options.hidden = model ? model->hidden : 0;
  if (!launch_text(file->text, file->length, file->path, &options, &file->launch, error) ||
      !check_asked(file, asked, error))
    return FALSE;
  if (!file->model)
    file->model = file->launch ? launch_model(file->launch, file->path, error) : cli_load_model(NULL, error);
  return file->model != NULL;
}

void training_file_clear(TrainingFile *file)
{
  g_free(file->path);
  g_free(file->text);
  g_clear_pointer(&file->launch, launch_free);
  g_clear_pointer(&file->model, model_free);
}

gboolean training_file_plan(const TrainingFile *file, const Model *model, Plan *plan, Framework **framework,
                            GError **error)
{
  const Launch *l = file->launch;

  return l ? plan_parse(l->plan, strlen(l->plan), file->path, model, plan, framework, error)
           : plan_parse(file->text, file->length, file->path, model, plan, framework, error);
}

gboolean training_file_told(const TrainingFile *file, const LaunchOptions *asked, const Plan *plan, GError **error)
{
  const struct { const char *option; int asked, said; } told[] = {
    { "--gpus", asked->gpus, plan->gpus }, { "--seq", asked->seq, plan->seq },
    { "--global-batch", asked->batch, plan->global_batch } };

  for (gsize i = 0; i < G_N_ELEMENTS(told); i++)
    if (told[i].asked > 0 && told[i].asked != told[i].said)
      return input_error(error, "%s: %d: expected the %d that %s says", told[i].option, told[i].asked, told[i].said,
                         file->path);
  return TRUE;
}

/* `options`: what tells a line's contents (Launch), of which the program has those in `has`. */
static void note_lines(GPtrArray *notes, const char *path, const char *title, const GPtrArray *lines,
                       const GPtrArray *options, const char *const *has)
{
  for (guint i = 0; i < lines->len; i++) {
    const char *option = options ? options->pdata[i] : NULL;
    gboolean there = option && has && g_strv_contains(has, option);
    g_autofree char *answer = there ? g_strdup_printf(" (%s)", option) : g_strdup("");
    g_ptr_array_add(notes, g_strdup_printf("%s: %s%s%s", path, title, (const char *)lines->pdata[i], answer));
  }
}

/* What another tool's file leaves open, and what of it is not simulated. */
static void note_launch(const Launch *launch, const char *path, const char *const *has, GPtrArray *notes)
{
  note_lines(notes, path, "taken for granted: ", launch->assumed, launch->options, has);
  note_lines(notes, path, "not known, and left alone: ", launch->unknown, NULL, NULL);
  note_lines(notes, path, "not simulated, though time or memory may feel it: ", launch->not_simulated, NULL, NULL);
}

gboolean training_file_load(const TrainingFile *file, const Model *model, const char *adapter, Cluster *cluster,
                            Plan *plan, Framework **framework, const char *const *has, GPtrArray *notes,
                            GError **error)
{
  if (!training_file_plan(file, model, plan, framework, error))
    return FALSE;
  if (file->launch)
    note_launch(file->launch, file->path, has, notes);
  return cli_adapter(adapter, model, &plan->adapter, error) &&
         cli_fit_plan(file->path, model, cluster, plan, error);
}

gboolean cli_load_training(const TrainingNames *names, Model **model, Cluster **cluster, Plan *plan,
                           Framework **framework, char **path, GPtrArray *notes, GError **error)
{
  const LaunchOptions nothing = { 0 };
  g_auto(TrainingFile) file = { 0 };
  Model *named = names->model ? cli_load_model(names->model, error) : NULL;

  if ((names->model && !named) || !training_file_read(&file, names->plan, named, &nothing, error))
    return FALSE;
  *path = g_strdup(file.path);
  *model = g_steal_pointer(&file.model);
  *cluster = cli_load_cluster(names->cluster, error);
  return *cluster && training_file_load(&file, *model, NULL, *cluster, plan, framework, NULL, notes, error);
}
