#include "import/launch.h"

#include "base/error.h"
#include "import/case_row.h"
#include "import/config_launch.h"
#include "import/launch_parts.h"
#include "import/megatron_flags.h"
#include "import/megatron_launch.h"
#include "import/shell_parts.h"

#include <fnmatch.h>
#include <string.h>

#define ARGUMENTS_MIN 3 /* of a model or plan, that a command is one of */

static GPtrArray *lines_new(void)
{
  return g_ptr_array_new_with_free_func(g_free);
}

Launch *launch_new(void)
{
  Launch *l = g_new0(Launch, 1);

  l->tool = "megatron";
  l->ignored = lines_new();
  l->not_simulated = lines_new();
  l->unknown = lines_new();
  l->assumed = lines_new();
  l->options = lines_new();
  return l;
}

gboolean launch_fail(LaunchReading *r, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  g_autofree char *text = g_strdup_vprintf(format, args);
  va_end(args);
  if (!r->failed)
    input_error(r->error, "%s: %s", r->file, text);
  r->failed = TRUE;
  return FALSE;
}

/* Takes the line, which is said once. */
static void add_assumed(Launch *out, const char *option, char *line)
{
  if (g_ptr_array_find_with_equal_func(out->assumed, line, g_str_equal, NULL)) {
    g_free(line);
    return;
  }
  g_ptr_array_add(out->assumed, line);
  g_ptr_array_add(out->options, g_strdup(option));
}

void launch_assume(LaunchReading *r, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  add_assumed(r->out, NULL, g_strdup_vprintf(format, args));
  va_end(args);
}

void launch_assume_open(LaunchReading *r, const char *option, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  add_assumed(r->out, option, g_strdup_vprintf(format, args));
  va_end(args);
}

void launch_assume_gpus(LaunchReading *r, int gpus)
{
  r->out->gpus_open = TRUE;
  launch_assume_open(r, "--gpus", "gpus: %d: the file does not say how many it runs on", gpus);
}

void launch_free(Launch *l)
{
  g_free(l->model);
  g_free(l->unknown_model);
  g_free(l->plan);
  g_ptr_array_unref(l->ignored);
  g_ptr_array_unref(l->not_simulated);
  g_ptr_array_unref(l->unknown);
  g_ptr_array_unref(l->assumed);
  g_ptr_array_unref(l->options);
  g_free(l);
}

/* ---- what a scheduler would tell the script ---- */

/* Bytes: a comment may be in any encoding. */
static GRegex *pattern_new(const char *pattern)
{
  return g_regex_new(pattern, G_REGEX_RAW | G_REGEX_MULTILINE, 0, NULL);
}

/* The value of "#SBATCH --nodes=24" or "#SBATCH -N 24", 0 if there is none. */
static int sbatch(const char *text, const char *pattern)
{
  g_autoptr(GRegex) regex = pattern_new(pattern);
  g_autoptr(GMatchInfo) match = NULL;

  if (!g_regex_match(regex, text, 0, &match))
    return 0;
  g_autofree char *number = g_match_info_fetch(match, 1);
  return (int)CLAMP(g_ascii_strtoll(number, NULL, 10), 0, 1000000);
}

typedef struct {
  int nodes, node_gpus, tasks; /* 0 = not told */
} Allocation;

static Allocation allocation_of(const char *text)
{
  Allocation a = { 0 };

  a.nodes = sbatch(text, "^#SBATCH\\s(?:.*\\s)?(?:--nodes[= ]|-N\\s*)(\\d+)");
  a.node_gpus = sbatch(text, "^#SBATCH\\s(?:.*\\s)?(?:--gres[= ]gpu:(?:\\w+:)?|--gpus-per-node[= ](?:\\w+:)?)(\\d+)");
  a.tasks = sbatch(text, "^#SBATCH\\s(?:.*\\s)?--n?tasks-per-node[= ](\\d+)");
  return a;
}

ShellScript *launch_script(const char *text, const char *name, const char *const *asked)
{
  Allocation a = allocation_of(text);
  g_autofree char *folder = strchr(name, '/') ? g_path_get_dirname(name) : g_strdup(".");
  g_autoptr(GPtrArray) given = lines_new();

  if (a.nodes) {
    g_ptr_array_add(given, g_strdup_printf("SLURM_NNODES=%d", a.nodes));
    g_ptr_array_add(given, g_strdup_printf("SLURM_JOB_NUM_NODES=%d", a.nodes));
  }
  if (a.node_gpus) {
    g_ptr_array_add(given, g_strdup_printf("SLURM_GPUS_ON_NODE=%d", a.node_gpus));
    g_ptr_array_add(given, g_strdup_printf("SLURM_GPUS_PER_NODE=%d", a.node_gpus));
  }
  for (int i = 0; asked && asked[i]; i++)
    g_ptr_array_add(given, g_strdup(asked[i]));
  g_ptr_array_add(given, NULL);
  return shell_read(text, folder, (const char *const *)given->pdata);
}

char **launch_given(const char *words, GError **error)
{
  g_autoptr(GStrvBuilder) given = g_strv_builder_new();
  g_autoptr(GError) reason = NULL;
  g_auto(GStrv) list = NULL;
  int n = 0, arguments = 0;

  if (!g_shell_parse_argv(words, &n, &list, &reason) &&
      !g_error_matches(reason, G_SHELL_ERROR, G_SHELL_ERROR_EMPTY_STRING)) {
    input_error(error, "%s: expected words as a shell takes them, as in \"SIZE=8B 4 1e-5\"", words);
    return NULL;
  }
  for (int i = 0; i < n; i++) {
    gsize length = shell_name_length(list[i]);
    if (arguments == 0 && length > 0 && list[i][length] == '=') {
      g_strv_builder_add(given, list[i]);
    } else {
      g_autofree char *numbered = g_strdup_printf("%d=%s", ++arguments, list[i]);
      g_strv_builder_add(given, numbered);
    }
  }
  return g_strv_builder_end(given);
}

/* ---- the command that trains ---- */

static int megatron_arguments(const Arguments *a)
{
  static const char *const telling[] = { "num_layers", "encoder_num_layers", "hidden_size", "num_attention_heads",
                                         "micro_batch_size", "global_batch_size", "tensor_model_parallel_size",
                                         "pipeline_model_parallel_size", "seq_length" };
  int n = 0;

  for (gsize i = 0; i < G_N_ELEMENTS(telling); i++)
    for (guint j = 0; j < a->arguments->len; j++)
      if (g_str_equal(((Argument *)a->arguments->pdata[j])->name, telling[i])) {
        n++;
        break;
      }
  return n;
}

Arguments *launch_command(const ShellScript *script)
{
  g_autoptr(Arguments) best = NULL;
  int most = ARGUMENTS_MIN;

  for (guint i = 0; i < script->commands->len; i++) {
    g_autoptr(Arguments) a = arguments_of_command(script->commands->pdata[i]);
    int n = megatron_arguments(a);
    if (g_str_equal(a->command, "echo") || n < most)
      continue;
    most = n;
    g_clear_pointer(&best, arguments_free);
    best = g_steal_pointer(&a);
  }
  return g_steal_pointer(&best);
}

/* A number of the launcher, under any of its names; 0 = not told. */
static int launcher_int(const Arguments *a, const char *const *names)
{
  for (int i = 0; names[i]; i++) {
    int value = 0;
    if (argument_int(a->launcher, "", names[i], &value, NULL) && value > 0)
      return value;
  }
  return 0;
}

/* Ranks that the launch line starts, 0 = not told. */
static int world_of(const Arguments *a, const char *text)
{
  static const char *const per_node[] = { "nproc_per_node", "num_gpus", "gpus_per_node", "ntasks_per_node", NULL };
  static const char *const nodes[] = { "nnodes", "num_nodes", "nodes", "N", NULL };
  static const char *const all[] = { "np", "n", "ntasks", NULL };
  Allocation slurm = allocation_of(text);
  int each = launcher_int(a, per_node), count = launcher_int(a, nodes), ranks = 0;

  argument_int(a->arguments, "", "world_size", &ranks, NULL);
  if (ranks || a->listed)
    return ranks;
  ranks = launcher_int(a, all);
  gboolean torch = each || count || strstr(a->command, "deepspeed");
  if (!each)
    each = slurm.node_gpus ? slurm.node_gpus : torch ? 0 : slurm.tasks;
  if (!count)
    count = slurm.nodes ? slurm.nodes : each ? 1 : 0;
  if (ranks && !torch)
    return ranks;
  gint64 world = (gint64)each * count;
  return world <= 10000000 ? (int)world : 0;
}

/* DeepSpeed's configuration where the script writes it, NULL if it does not. */
static const char *settings_of(const Arguments *a, const ShellScript *script)
{
  const Argument *config = argument_find(a->arguments, "deepspeed_config");
  g_autofree char *name = config ? argument_text(config) : NULL;

  return name && script ? g_hash_table_lookup(script->files, name) : NULL;
}

/* ---- logs ---- */

static void read_measured(const char *text, Launch *out)
{
  g_autoptr(GRegex) step = pattern_new("elapsed time per iteration \\(ms\\): *([0-9.]+)");
  g_autoptr(GRegex) memory = pattern_new("max allocated: *([0-9.]+)");
  g_autoptr(GArray) seconds = g_array_new(FALSE, FALSE, sizeof(double));
  g_autoptr(GMatchInfo) steps = NULL;
  g_autoptr(GMatchInfo) peaks = NULL;

  g_regex_match(step, text, 0, &steps);
  for (; g_match_info_matches(steps); g_match_info_next(steps, NULL)) {
    g_autofree char *ms = g_match_info_fetch(steps, 1);
    double s = g_ascii_strtod(ms, NULL) / 1e3;
    if (s > 0)
      g_array_append_val(seconds, s);
  }
  g_regex_match(memory, text, 0, &peaks);
  for (; g_match_info_matches(peaks); g_match_info_next(peaks, NULL)) {
    g_autofree char *mb = g_match_info_fetch(peaks, 1);
    out->measured_bytes = MAX(out->measured_bytes, g_ascii_strtod(mb, NULL) * 1024 * 1024);
  }
  if (seconds->len > 1)
    g_array_remove_index(seconds, 0); /* warms up */
  out->measured_s = seconds->len ? case_row_median(seconds) : 0;
}

/* ---- all of it ---- */

static gboolean is_log(const char *text)
{
  return strstr(text, "num_layers ....") || strstr(text, "hidden_size ....");
}

gboolean launch_recognises(const char *text)
{
  const char *first = text + strspn(text, " \t\r\n");

  if (config_tool_of(text))
    return TRUE;
  return *first != '{' && (is_log(text) || strstr(text, "--num-layers") || strstr(text, "--hidden-size") ||
                           strstr(text, "--num_layers") || strstr(text, "--hidden_size"));
}

static const SettingGroup *group_of(const SettingGroup *groups, const char *name)
{
  for (; groups->about; groups++)
    for (int i = 0; groups->patterns[i]; i++) {
      gboolean not = groups->patterns[i][0] == '!';
      if (fnmatch(groups->patterns[i] + not, name, 0) != 0)
        continue;
      if (!not)
        return groups;
      break;
    }
  return NULL;
}

void launch_name_groups(const SettingGroup *groups, const GPtrArray *names, char *(*spelled)(const char *name),
                        Launch *out)
{
  for (const SettingGroup *g = groups;; g++) {
    const SettingGroup *wanted = g->about ? g : NULL;
    g_autoptr(GString) line = g_string_new(NULL);
    g_autoptr(GHashTable) said = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < names->len; i++) {
      const char *name = names->pdata[i];
      if (group_of(groups, name) != wanted)
        continue;
      char *shown = spelled ? spelled(name) : g_strdup(name);
      if (g_hash_table_add(said, shown))
        g_string_append_printf(line, "%s%s", line->len ? ", " : "", shown);
    }
    if (line->len > 0)
      g_ptr_array_add(!wanted ? out->unknown : wanted->matters ? out->not_simulated : out->ignored,
                      g_strdup_printf("%s%s%s", wanted ? wanted->about : "", wanted ? ": " : "", line->str));
    if (!wanted)
      return;
  }
}

/* What is left when model and plan have looked up their arguments. */
void megatron_name_others(const Arguments *a, char *(*spelled)(const char *name), Launch *out)
{
  g_autoptr(GPtrArray) unread = g_ptr_array_new();

  for (guint i = 0; i < a->arguments->len; i++)
    if (!((Argument *)a->arguments->pdata[i])->read)
      g_ptr_array_add(unread, ((Argument *)a->arguments->pdata[i])->name);
  if (!a->listed)
    launch_name_groups(megatron_flag_groups, unread, spelled, out);
  else if (unread->len > 0)
    g_ptr_array_add(out->ignored, g_strdup_printf("%u other arguments of the list", unread->len));
}

static void name_unread(const ShellScript *script, const Arguments *a, const char *const *given, Launch *out)
{
  for (guint i = 0; script && given && i < script->idle->len; i++)
    if (g_strv_contains(given, script->idle->pdata[i]))
      add_assumed(out, NULL, g_strdup_printf("--script-args: %s: nothing in the script asks for it",
                                             (const char *)script->idle->pdata[i]));
  for (guint i = 0; i < a->open->len; i++)
    add_assumed(out, "--script-args", g_strdup_printf("%s: nothing in the script says it: no arguments",
                                                      (const char *)a->open->pdata[i]));
  for (guint i = 0; script && i < script->unread->len; i++)
    add_assumed(out, NULL, g_strdup(script->unread->pdata[i]));
}

/* A branch may have been taken, or none, for want of an argument. */
static void say_asked(const ShellScript *script, GError *error)
{
  if (!script || !script->asks || strstr(error->message, ARGUMENTS_SAY))
    return;
  char *message = g_strdup_printf("%s; the script takes arguments: " ARGUMENTS_SAY, error->message);
  g_free(error->message);
  error->message = message;
}

Launch *launch_read(const char *text, const char *name, const LaunchOptions *options, GError **error)
{
  const ConfigTool *tool = config_tool_of(text);

  if (tool)
    return config_read(tool, text, name, options, error);
  g_autofree char *yaml = megatron_yaml_script(text);
  gboolean log = !yaml && is_log(text);
  g_autoptr(ShellScript) script = log ? NULL : launch_script(yaml ? yaml : text, name, options->given);
  g_autoptr(Arguments) a = log ? arguments_of_log(text) : launch_command(script);
  g_autoptr(Launch) out = launch_new();
  g_autoptr(GError) first = NULL;
  Reading r = { .from = a, .framework = options->framework, .gpus = options->gpus, .asked = options->gpus > 0,
                .to = { .file = name, .out = out, .error = &first } };

  if (!a) {
    gboolean torchtitan = strstr(text, "from torchtitan") != NULL;
    gboolean bridge = !torchtitan && strstr(text, "from megatron.bridge") != NULL;
    input_error(error, torchtitan
                ? "%s: no configuration: expected functions that return Trainer.Config(...) themselves"
                : bridge
                ? "%s: no recipe: expected functions that return what they set attributes of, from _pretrain_common() on"
                : "%s: no command with the arguments of a model: expected a script, a command line or a log of "
                "Megatron-LM", name);
    return NULL;
  }
  if (options->gpus <= 0)
    r.gpus = world_of(a, text);
  r.settings = settings_of(a, script);
  out->title = yaml ? "Megatron-LM arguments" : log ? "Megatron-LM log" : "Megatron-LM script";
  out->editable = !log && !yaml;
  out->named = yaml != NULL;
  gboolean trains = megatron_program(&r);
  out->model = trains ? megatron_model(&r) : NULL;
  if (!out->model || !megatron_plan(&r)) {
    if (trains && !out->model)
      say_asked(script, first);
    g_propagate_error(error, g_steal_pointer(&first));
    return NULL;
  }
  read_measured(text, out);
  megatron_name_others(a, argument_flag, out);
  name_unread(script, a, options->given, out);
  return g_steal_pointer(&out);
}
