#include "cli/cli.h"
#include "cli/launch_file.h"

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "cli/say.h"
#include "plan/keys.h"
#include "search/balanced.h"

#include <cJSON.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void cli_keep_memory(void)
{
  memory_keep(256 << 20, 128 << 10);
}

static gboolean print_version(const char *option, const char *value, gpointer data, GError **error)
{
  (void)option, (void)value, (void)data, (void)error;
  printf("%s %s\n", g_get_prgname(), TDP_VERSION);
  exit(cli_finish(g_get_prgname()));
}

/* GLib's own would end with 0 whatever became of what it printed. */
static gboolean print_help(const char *option, const char *value, gpointer data, GError **error)
{
  (void)option, (void)value, (void)error;
  char *text = g_option_context_get_help(data, TRUE, NULL);

  say("%s", text);
  g_free(text);
  exit(cli_finish(g_get_prgname()));
}

static const GOptionEntry common[] = {
  { "version", 0, G_OPTION_FLAG_NO_ARG, G_OPTION_ARG_CALLBACK, (gpointer)print_version,
      "Print the version and exit", NULL },
  G_OPTION_ENTRY_NULL,
};

static const GOptionEntry *entry_of(const GOptionEntry *entries, const char *name, gsize length)
{
  for (; entries->long_name; entries++)
    if (strlen(entries->long_name) == length && strncmp(entries->long_name, name, length) == 0)
      return entries;
  return NULL;
}

/* What an option of that name has here, which no spelling tells; NULL if nothing. */
static const char *other_word(const char *name)
{
  static const char *const words[][2] = {
    { "nodes", "gpus" }, { "num-nodes", "gpus" }, { "nnodes", "gpus" }, { "world-size", "gpus" },
    { "sequence-length", "seq" }, { "context-length", "seq" }, { "max-seq-len", "seq" },
    { "batch-size", "global-batch" },
  };
  g_autofree char *dashes = g_strdelimit(g_strdup(name), "_", '-');

  for (gsize i = 0; i < G_N_ELEMENTS(words); i++)
    if (g_str_equal(dashes, words[i][0]))
      return words[i][1];
  return NULL;
}

/* The option to take in place of one that is not known, "--gpus" or "--fix tp=...", newly allocated; NULL if none. */
static char *option_meant(const GOptionEntry *entries, const char *name)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  const char *word = other_word(name);
  const PlanKey *key = plan_key_named(name);

  if (word && entry_of(entries, word, strlen(word)))
    return g_strdup_printf("--%s", word);
  if (key && key->fix != FIX_NONE && entry_of(entries, "fix", strlen("fix")))
    return g_strdup_printf("--fix %s=...", key->shorter);
  for (; entries->long_name; entries++)
    if (*entries->long_name)
      g_ptr_array_add(names, (gpointer)entries->long_name);
  g_ptr_array_add(names, NULL);
  const char *nearest = names_nearest((const char *const *)names->pdata, name);
  return nearest && names_near(nearest, name) ? g_strdup_printf("--%s", nearest) : NULL;
}

static void suggest_option(const GOptionEntry *entries, GError **error)
{
  const char *unknown = error && *error ? strstr((*error)->message, "--") : NULL;

  if (!unknown || !g_error_matches(*error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION))
    return;
  g_autofree char *meant = option_meant(entries, unknown + 2);
  char *message = meant ? g_strdup_printf("%s: did you mean %s?", unknown, meant)
                        : g_strdup_printf("%s: no such option, --help lists all", unknown);
  g_free((*error)->message);
  (*error)->message = message;
}

/* Of "--name", "--name=value" or "-n"; NULL if it is no option. */
static const GOptionEntry *entry_in(const GOptionEntry *entries, const char *word)
{
  if (g_str_has_prefix(word, "--"))
    return entry_of(entries, word + 2, strcspn(word + 2, "="));
  for (; word[0] == '-' && word[1] && !word[2] && entries->long_name; entries++)
    if (entries->short_name == word[1])
      return entries;
  return NULL;
}

static gboolean is_option(const GOptionEntry *entries, const char *word)
{
  return entry_in(entries, word) || entry_in(common, word) || g_str_equal(word, "--help") || g_str_equal(word, "-h");
}

/* What GLib says of a value that is none is not in our words, and does not tell what was expected. */
static gboolean check_value(const GOptionEntry *entry, const char *value, GError **error)
{
  gboolean number = entry->arg == G_OPTION_ARG_INT || entry->arg == G_OPTION_ARG_DOUBLE;
  char *end = (char *)value;
  const char *expected = NULL;

  if (!value || (!*value && (number || entry->arg == G_OPTION_ARG_FILENAME)))
    return input_error(error, "--%s: %s: expected %s", entry->long_name, value ? "\"\"" : "missing",
                       number ? "a number" : !value ? "a value, --help says which" : entry->arg_description);
  if (entry->arg == G_OPTION_ARG_INT) {
    gint64 n = g_ascii_strtoll(value, &end, 0);
    expected = *end ? "an integer" : n != (int)n ? "an integer from -2147483648 to 2147483647" : NULL;
  } else if (entry->arg == G_OPTION_ARG_DOUBLE) {
    g_ascii_strtod(value, &end);
    expected = *end ? "a number" : NULL;
  }
  return !expected || input_error(error, "--%s: %s: expected %s", entry->long_name, value, expected);
}

/* GLib passes over a value behind a switch, so that --exact=no would be --exact, and takes the next option as the value
 * of one that has none, so that --csv --rows would write a file of that name. */
static gboolean check_values(char **argv, const GOptionEntry *entries, GError **error)
{
  for (int i = 1; argv[i] && strcmp(argv[i], "--") != 0; i++) {
    const GOptionEntry *entry = entry_in(entries, argv[i]);
    const char *value = strchr(argv[i], '='), *next = argv[i + 1];
    if (entry && value && entry->arg == G_OPTION_ARG_NONE)
      return input_error(error, "--%s: %s: expected no value", entry->long_name, value + 1);
    gboolean words = entry && g_str_equal(entry->long_name, "script-args"); /* options of a script */
    if (entry && !value && !words && entry->arg_description && next && is_option(entries, next))
      return input_error(error, "--%s: %s: expected %s", entry->long_name, next, entry->arg_description);
    if (entry && entry->arg_description && !check_value(entry, value ? value + 1 : next, error))
      return FALSE;
    i += entry && entry->arg_description && !value;
  }
  return TRUE;
}

/* Whether an option may stand twice, as behind an alias that has it: several, or how long and on what an answer is
 * worked out and how much of it is shown. */
static gboolean may_repeat(const GOptionEntry *entry)
{
  static const char *const means[] = { "threads", "top", "time-limit", "seconds", "meet", NULL };

  return entry->arg == G_OPTION_ARG_NONE || entry->arg == G_OPTION_ARG_CALLBACK ||
         entry->arg == G_OPTION_ARG_STRING_ARRAY || entry->arg == G_OPTION_ARG_FILENAME_ARRAY ||
         g_strv_contains(means, entry->long_name);
}

/* GLib takes the last of several, so that of two clusters one would be planned for without a word. */
static gboolean check_once(char **argv, const GOptionEntry *entries, GError **error)
{
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);

  for (int i = 1; argv[i] && strcmp(argv[i], "--") != 0; i++) {
    const GOptionEntry *entry = entry_in(entries, argv[i]);
    const char *equals = strchr(argv[i], '='), *value = equals ? equals + 1 : argv[i + 1];
    if (!entry || may_repeat(entry))
      continue;
    const char *first = g_hash_table_lookup(seen, entry);
    gboolean differs = first && value && !g_str_equal(first, value);
    if (differs && g_strcmp0(entry->arg_description, "LIST") == 0)
      return input_error(error, "--%s: %s: expected one list, as --%s %s,%s", entry->long_name, value,
                         entry->long_name, first, value);
    if (differs)
      return input_error(error, "--%s: %s: expected once, it is %s already", entry->long_name, value, first);
    g_hash_table_insert(seen, (gpointer)entry, (gpointer)value);
    i += !equals && value;
  }
  return TRUE;
}

gboolean cli_parse(int *argc, char ***argv, const GOptionEntry *entries, const char *summary, GError **error)
{
  const GOptionEntry help[] = {
    { "help", 'h', G_OPTION_FLAG_NO_ARG, G_OPTION_ARG_CALLBACK, (gpointer)print_help, "Show help options", NULL },
    G_OPTION_ENTRY_NULL,
  };
  cJSON_Hooks memory = { g_malloc, g_free }; /* ends where there is none: a text that cannot be read is another error */
  g_autoptr(GOptionContext) context = g_option_context_new(NULL);
  GOptionGroup *all = g_option_group_new(NULL, NULL, NULL, context, NULL);

  cJSON_InitHooks(&memory);
  setlocale(LC_CTYPE, "C.UTF-8"); /* options are UTF-8, whatever the locale */
  g_option_context_set_help_enabled(context, FALSE);
  g_option_context_set_summary(context, summary);
  g_option_context_set_main_group(context, all);
  g_option_group_add_entries(all, help);
  g_option_group_add_entries(all, entries);
  g_option_group_add_entries(all, common);
  if (!check_values(*argv, entries, error) || !check_once(*argv, entries, error))
    return FALSE;
  if (g_option_context_parse(context, argc, argv, error))
    return TRUE;
  suggest_option(entries, error);
  return FALSE;
}

/* A bare name is looked up in the working directory first. */
void cli_note_shadow(const char *name, const char *folder)
{
  g_autofree char *ours = files_shadowed(name, folder);

  if (ours)
    g_printerr("%s: note: %s: the file of that name in this folder is taken, not %s\n", g_get_prgname(), name, ours);
}

static const LaunchOptions nothing = { 0 };

Model *cli_load_model(const char *name, GError **error)
{
  g_autofree char *path = NULL;

  if (!name) {
    input_error(error, "--model: missing: expected a model file or name, as in --model gpt3");
    return NULL;
  }
  g_autoptr(Launch) launch = NULL;
  cli_note_shadow(name, "models");
  path = files_find(name, "models", error);
  if (!path || !launch_file(path, "models", &nothing, &launch, error))
    return NULL;
  return launch ? launch_model(launch, path, error) : model_load(path, error);
}

void cli_say_notes(const char *name, const GPtrArray *notes)
{
  for (guint i = 0; i < notes->len; i++)
    g_printerr("%s: note: %s%s%s\n", g_get_prgname(), name ? name : "", name ? ": " : "",
               (const char *)notes->pdata[i]);
}

Cluster *cli_load_cluster(const char *name, GError **error)
{
  if (!name) {
    input_error(error, "--cluster: missing: expected a cluster file or name, as in --cluster dgx");
    return NULL;
  }
  cli_note_shadow(name, "hardware");
  return cluster_load(name, error);
}

gboolean cli_limit_power(Cluster *c, double watts, GError **error)
{
  if (watts <= 0)
    return TRUE;
  if (cluster_can_limit_power(c, watts)) {
    cluster_limit_power(c, watts);
    return TRUE;
  }
  if (c->n_types > 0 || cluster_power_w(c) <= 0)
    input_error(error, "--power-limit: expected a cluster of alike nodes whose devices have power_w");
  else
    input_error(error, "--power-limit: %g: expected %g to %g W of the device", watts,
                POWER_SHARE_LEAST * cluster_rated_power_w(c), cluster_rated_power_w(c));
  return FALSE;
}

gboolean cli_fit_plan(const char *name, const Model *model, Cluster *cluster, Plan *plan, GError **error)
{
  if (!cluster_resize(cluster, plan->gpus, error)) {
    g_prefix_error(error, "%s: gpus: ", name);
    return FALSE;
  }
  if (balance_plan(model, cluster, plan, error) && plan_check(plan, model, cluster, error) == RULE_NONE)
    return TRUE;
  g_prefix_error(error, "%s: ", name);
  return FALSE;
}

gboolean cli_check_count(const char *option, int *value, GError **error)
{
  if (*value == CLI_ABSENT) {
    *value = 0;
    return TRUE;
  }
  if (*value >= 1)
    return TRUE;
  return input_error(error, "%s: %d: expected an integer of at least 1", option, *value);
}

/* Powers of a thousand, or of 1024, that letters behind a number stand for; B: billions of tokens. */
static int power_of(char letter)
{
  static const char *const letters[] = { "", "kK", "mM", "gGbB", "tT" };

  for (int i = 1; i < (int)G_N_ELEMENTS(letters); i++)
    if (letter && strchr(letters[i], letter))
      return i;
  return 0;
}

/* "8k", "1.5M" or "300e9": FALSE where it is none. */
static gboolean read_scaled(const char *text, double kilo, double *out)
{
  char *end = NULL;
  double value = g_ascii_strtod(text, &end);
  int power = end == text ? 0 : power_of(*end);

  *out = value * pow(kilo, power);
  return end != text && end[power > 0] == '\0' && isfinite(*out);
}

gboolean cli_positive(const char *option, const char *text, double *out, GError **error)
{
  *out = 0;
  if (!text)
    return TRUE;
  gboolean is_number = read_scaled(text, 1000, out);
  return (is_number && *out > 0) || input_error(error, "%s: %s: expected a number above 0%s", option, text,
                                                is_number ? "" : ", which may end in K, M, G, B or T");
}

gboolean cli_tokens(const char *option, const char *text, double *out, GError **error)
{
  if (!cli_positive(option, text, out, error))
    return FALSE;
  if (*out <= CLI_TOKENS_MAX)
    return TRUE;
  return input_error(error, "%s: %s: expected at most %gT tokens", option, text, CLI_TOKENS_MAX / 1e12);
}

gboolean cli_read_count(const char *option, const char *text, int kilo, int *out, GError **error)
{
  double value;

  if (!text)
    return TRUE;
  if (!read_scaled(text, kilo, &value) || value != floor(value) || fabs(value) > G_MAXINT || strpbrk(text, "eE"))
    return input_error(error, "%s: %s: expected an integer from 1 to %d, as in 8 or 8k (%d)", option,
                       *text ? text : "\"\"", G_MAXINT, 8 * kilo);
  *out = (int)value;
  if (power_of(text[strlen(text) - 1]))
    g_printerr("%s: note: %s %s is %d\n", g_get_prgname(), option, text, *out);
  return TRUE;
}

static gboolean all_support(const Cluster *cluster, DType dtype)
{
  for (int i = 0; i < cluster->n_types; i++)
    if (cluster->types[i]->device.peak_flops_per_s[dtype] <= 0)
      return FALSE;
  return cluster->device.peak_flops_per_s[dtype] > 0;
}

DType cli_best_precision(const Cluster *cluster)
{
  if (all_support(cluster, DTYPE_BF16))
    return DTYPE_BF16;
  return all_support(cluster, DTYPE_FP16) ? DTYPE_FP16 : DTYPE_FP32;
}

gboolean cli_precision(const char *text, DType *out, Fp8Recipe *recipe, GError **error)
{
  const DType choices[] = { DTYPE_FP32, DTYPE_TF32, DTYPE_FP16, DTYPE_BF16, DTYPE_FP8, DTYPE_FP4 };
  g_autofree char *small = g_ascii_strdown(text, -1);
  g_auto(GStrv) words = g_strsplit(small, ":", 2);
  int scales = words[0] && words[1] ? names_find(fp8_recipe_names, words[1]) : FP8_NONE;

  *recipe = FP8_NONE;
  if (words[0] && words[1] && (!g_str_equal(words[0], "fp8") || scales <= FP8_NONE || scales == FP8_NVFP4)) {
    g_autofree char *names = fp8_recipes_text(~0u);
    return input_error(error, "--precision: %s: expected fp8:NAME with %s", text, names);
  }
  for (gsize i = 0; words[0] && i < G_N_ELEMENTS(choices); i++)
    if (g_str_equal(dtype_names[choices[i]], words[0])) {
      *out = choices[i];
      *recipe = (Fp8Recipe)scales;
      return TRUE;
    }
  return input_error(error, "--precision: %s: expected fp32, tf32, fp16, bf16, fp8 or fp4", text);
}

gboolean cli_adapter(const char *text, const Model *model, Adapter *out, GError **error)
{
  g_autofree char *expected = text ? adapter_parse(text, out) : NULL;

  if (text && !expected)
    expected = adapter_refusal(out, model);
  if (expected)
    input_error(error, "--adapter: %s: expected %s", text, expected);
  return !expected;
}

gboolean cli_share(const char *option, const char *text, double *out, GError **error)
{
  char *end = NULL;

  *out = text ? g_ascii_strtod(text, &end) : -1;
  gboolean percent = text && end != text && *end == '%';
  if (percent)
    *out /= 100;
  if (!text || (end != text && end[percent] == '\0' && *out >= 0 && *out < 1))
    return TRUE;
  return input_error(error, "%s: %s: expected a share from 0 to below 1, or percent", option, text);
}

int cli_fail(const char *program, GError *error)
{
  int code = tdp_error_exit_code(error);

  /* one line that no terminal obeys, whatever a file or an option held; in one piece beside those of other ranks */
  g_autofree char *message = g_utf8_make_valid(error->message, -1);
  g_autoptr(GString) line = g_string_new(program);
  g_string_append(line, ": ");
  for (const char *c = message; *c; c = g_utf8_next_char(c)) {
    gunichar letter = g_utf8_get_char(c);
    g_string_append_unichar(line, g_unichar_iscntrl(letter) ? ' ' : letter);
  }
  g_string_append_c(line, '\n');
  fputs(line->str, stderr);
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
