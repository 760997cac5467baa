/* torchtitan's Python functions of 2026 (torchtitan/models/NAME/config_registry.py). */
#include "import/config_torchtitan.h"
#include "model/torchtitan.h"

#include <string.h>

#define BACKEND PARALLEL "expert_parallel_comm_backend" /* in TOML; here of the model */
#define OWN_BACKEND "model_spec.moe_comm_backend"
#define TOKENS "training.num_tokens_per_train_step"
#define TOKENS_EACH "training.num_tokens_per_microbatch_per_dp_rank"
#define CONTEXT_LENGTH "training.max_context_length"

/* Whether it is a function that returns Trainer.Config, or a class of one's own for it. */
static gboolean is_configuration(const Settings *s, const Setting *one)
{
  (void)s;
  return !strchr(one->path, '.') &&
         (g_str_has_suffix(one->value, "Trainer.Config") || g_str_has_suffix(one->value, "TrainerConfig"));
}

static gboolean recognises_python(const Settings *s)
{
  for (guint i = 0; i < s->list->len; i++)
    if (is_configuration(s, s->list->pdata[i]))
      return TRUE;
  return FALSE;
}

/* torchtitan's own name of the model, which the path of its file has: that of a model of its flavor. */
static char *find_module(ConfigReading *r, const char *function, const char *flavor)
{
  const char *asked = launch_variable(r->given, "MODULE");
  g_autofree char *folder = g_path_get_dirname(r->to.file), *module = g_path_get_basename(folder);
  g_autofree char *first = g_strndup(function, strcspn(function, "_"));

  return g_strdup(asked ? asked : torchtitan_flavor(module, flavor) ? module : first);
}

static void add_setting(Settings *s, const char *path, char *value)
{
  settings_add(s, path, value, 0, 0); /* it stands nowhere: the file is not changed */
}

static const char *const counted[] = { "training.seq_len", "training.local_batch_size",
                                       PARALLEL "pipeline_parallel_microbatch_size", "training.global_batch_size" };

/* Whether a function counts sequences, as TOML does: else it counts tokens. */
static gboolean counts_sequences(const ConfigReading *r, const char *function)
{
  for (gsize i = 0; i < G_N_ELEMENTS(counted); i++) {
    g_autofree char *path = g_strdup_printf("%s.%s", function, counted[i]);
    const Setting *one = settings_find(r->from, path);
    if (one && !g_str_equal(one->value, "None"))
      return TRUE;
  }
  return FALSE;
}

/* Whether a function is of the generation that counts tokens: what says neither may be of any. */
static gboolean counts_tokens(const Settings *own)
{
  static const char *const names[] = { TOKENS_EACH, TOKENS, CONTEXT_LENGTH, PARALLEL "num_pp_microbatches" };
  gboolean any = FALSE;

  for (gsize i = 0; i < G_N_ELEMENTS(names); i++)
    any |= settings_last(own, names[i]) != NULL;
  return any;
}

/* Counts of tokens, as the sequences that TOML has. */
static void add_sequences(ConfigReading *r, const Settings *own, Settings *out)
{
  int seq = 2048, tokens = 16384, whole = -1, parts = 1;
  GError **error = r->to.failed ? NULL : r->to.error;

  r->to.failed |= !settings_int(own, r->to.file, CONTEXT_LENGTH, &seq, error) ||
                  !settings_int(own, r->to.file, TOKENS_EACH, &tokens, error) ||
                  !settings_int(own, r->to.file, TOKENS, &whole, error) ||
                  !settings_int(own, r->to.file, PARALLEL "num_pp_microbatches", &parts, error);
  if (r->to.failed)
    return;
  if (seq < 1 || tokens < seq || parts < 1 || (gint64)tokens / MAX(1, seq) * parts > G_MAXINT) {
    launch_fail(&r->to, TOKENS_EACH ": %d: expected whole sequences of " CONTEXT_LENGTH " %d", tokens, seq);
    return;
  }
  if (settings_find(own, TOKENS_EACH) &&
      !settings_true(own, "training.disable_cuda_graphs", FALSE))
    launch_assume(&r->to, "training.disable_cuda_graphs: False: simulated as if it were True: torchtitan's recorded steps are "
                  "not simulated");
  const Setting *stages = settings_last(own, PARALLEL "pipeline_parallel_degree");
  if (!stages || g_ascii_strtoll(stages->value, NULL, 10) <= 1)
    parts = 1; /* as torchtitan has it */
  add_setting(out, "training.seq_len", g_strdup_printf("%d", seq));
  if (stages && g_ascii_strtoll(stages->value, NULL, 10) > 1)
    add_setting(out, PARALLEL "pipeline_parallel_microbatch_size", g_strdup_printf("%d", tokens / seq));
  add_setting(out, "training.local_batch_size", g_strdup_printf("%d", tokens / seq * parts));
  if (whole > 0)
    add_setting(out, "training.global_batch_size", g_strdup_printf("%d", MAX(1, whole / seq)));
}

/* Says a setting by another name, and no more by its own. */
static void take_setting(const Settings *own, const Setting *one, Settings *out, const char *path, const char *value)
{
  settings_find(own, one->path);
  add_setting(out, path, g_strdup(value));
}

/* Whether others stand below its path: it is a call of no more than these. */
static gboolean has_below(const Settings *s, const Setting *one)
{
  gsize length = strlen(one->path);

  for (guint i = 0; i < s->list->len; i++) {
    const char *path = ((const Setting *)s->list->pdata[i])->path;
    if (strncmp(path, one->path, length) == 0 && path[length] == '.')
      return TRUE;
  }
  return FALSE;
}

static const char *const modes[][2] = { { "FullAC", "full" }, { "SelectiveAC", "selective" }, { "None", "none" } };

static const char *const kinds[][2] = { { "Float8LinearConverter", "quantize.linear.float8" },
                                        { "MXFP8LinearConverter", "quantize.linear.mx" },
                                        { "NVFP4LinearConverter", "quantize.linear.nvfp4" },
                                        { "Float8GroupedExpertsConverter", "quantize.grouped_mm.float8" },
                                        { "MXFP8GroupedExpertsConverter", "quantize.grouped_mm.mx" } };

/* The kind whose call an argument stands in. */
static gsize kind_around(const char *converters, const char *argument)
{
  const char *last = NULL;
  gsize kind = 0;

  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++) {
    const char *call = g_strrstr_len(converters, argument - converters, kinds[i][0]);
    if (call && (!last || call > last)) {
      last = call;
      kind = i;
    }
  }
  return kind;
}

/* A list of nothing but words in quotes; NULL: it is another expression. */
static char *literal_list(const char *text)
{
  g_autoptr(GRegex) list = g_regex_new("^\\[\\s*(?:(?:\"[^\"]*\"|'[^']*')\\s*(?:,\\s*|(?=\\])))*\\](?=\\s*[,)])", 0, 0, NULL);
  g_autoptr(GMatchInfo) match = NULL;

  return g_regex_match(list, text, 0, &match) ? g_match_info_fetch(match, 0) : NULL;
}

/* What the call of each converter leaves out, where it is written there; and that what it is told to take is not read where
 * that may be a part of the blocks: names of some, or what a function gives. */
static void take_filters(ConfigReading *r, const char *converters, Settings *out)
{
  static const char filter[] = "filter_", only[] = "fqns=";

  for (const char *at = strstr(converters, only); at; at = strstr(at + 1, only)) {
    gboolean left = at - converters >= (gssize)strlen(filter) && g_str_has_prefix(at - strlen(filter), filter);
    const char *kind = kinds[kind_around(converters, at)][1];
    g_autofree char *names = literal_list(at + strlen(only)), *path = g_strconcat(kind, ".filter_fqns", NULL);
    if (left && names && !strstr(kind, "nvfp4"))
      add_setting(out, path, g_steal_pointer(&names));
    else if (left || !names || strstr(names, "layers."))
      launch_assume(&r->to, "model_spec: converters: %sfqns: simulated as if products of all blocks were cast",
                    left ? filter : "");
  }
}

/* Names that TOML has for what Python calls. */
static void add_called(const Settings *own, const char *function, ConfigReading *r, Settings *out)
{
  const Setting *ac = settings_last(own, "activation_checkpoint");
  const Setting *spec = settings_last(own, "model_spec.converters"), *optimizer = settings_last(own, "optimizer");
  const Setting *exchange = settings_last(own, OWN_BACKEND);
  const Setting *loss = settings_last(own, "loss");
  const char *flavor = settings_text(own, "model_spec.0");

  if (loss)
    take_setting(own, loss, out, "loss", loss->value);
  add_setting(out, "model.name", find_module(r, function, flavor));
  add_setting(out, "model.flavor", g_strdup(flavor));
  for (gsize i = 0; i < G_N_ELEMENTS(modes); i++)
    if (ac && g_str_has_prefix(ac->value, modes[i][0]))
      take_setting(own, ac, out, "activation_checkpoint.mode", modes[i][1]);
  add_setting(out, "activation_checkpoint.selective_ac_option", g_strdup("op")); /* no other is left */
  if (spec)
    take_filters(r, spec->value, out);
  g_autoptr(GString) called = g_string_new(NULL);
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    if (spec && strstr(spec->value, kinds[i][0]))
      g_string_append_printf(called, "%s ", kinds[i][1]);
  if (called->len > 0)
    take_setting(own, spec, out, "model.converters", called->str);
  if (spec && strstr(spec->value, kinds[0][0])) /* it has no other scales left */
    add_setting(out, "quantize.linear.float8.recipe_name", g_strdup("rowwise"));
  if (exchange)
    take_setting(own, exchange, out, BACKEND, exchange->value);
  if (optimizer && !strstr(optimizer->value, "adam") && !g_str_has_suffix(optimizer->value, ".Config")) /* its name says it */
    take_setting(own, optimizer, out, "optimizer.name", optimizer->value);
  if (settings_true(own, "compile.enable_async_tensor_parallel", FALSE))
    add_setting(out, PARALLEL "enable_async_tensor_parallel", g_strdup("true"));
}

/* The settings of one function, by the names that TOML has for them. */
static Settings *choose_function(ConfigReading *r)
{
  const char *function = config_function(r, is_configuration);
  g_autoptr(Settings) own = function ? config_function_settings(r, function) : NULL;

  if (!function)
    return NULL;
  Settings *out = settings_new();
  if (!counts_sequences(r, function)) {
    if (counts_tokens(own))
      add_setting(out, FOLDED, g_strdup("true"));
    add_sequences(r, own, out);
  }
  add_called(own, function, r, out);
  for (guint i = 0; i < own->list->len; i++) {
    const Setting *one = own->list->pdata[i];
    if (!one->read && !g_str_equal(one->value, "None") && !has_below(own, one))
      add_setting(out, one->path, g_strdup(one->value));
  }
  return out;
}

/* ---- changes ---- */

typedef struct {
  ConfigReading *reading;
  const char *function;
  char *text; /* so far */
  const Settings *before, *after; /* as TOML says them */
  GPtrArray *notes;
} Changing;

static const char *own_text(const Changing *c, const char *path)
{
  g_autofree char *whole = g_strdup_printf("%s.%s", c->function, path);
  return settings_text(c->reading->from, whole);
}

/* One setting, `value` as it is read, unless that is what the function says already; FALSE where it finds no place. */
static gboolean set(Changing *c, const char *path, const char *raw, const char *value, SettingsPythonPlace place)
{
  if (g_str_equal(own_text(c, path), value))
    return TRUE;
  char *next = settings_python_set(c->text, c->function, path, raw, value, place);
  if (!next) {
    g_autofree char *change = g_strdup_printf("%s: %s = %s", c->function, path, raw);
    config_note(c->notes, change);
    return FALSE;
  }
  g_free(c->text);
  c->text = next;
  return TRUE;
}

static void set_truth(Changing *c, const char *path, gboolean value)
{
  const char *raw = value ? "True" : "False";

  if (value || *own_text(c, path))
    set(c, path, raw, raw, PYTHON_IN_PLACE);
}

/* "2 * 8192" */
static void set_tokens(Changing *c, const char *path, int sequences, int length)
{
  g_autofree char *raw = g_strdup_printf("%d * %d", sequences, length);
  g_autofree char *value = g_strdup_printf("%" G_GINT64_FORMAT, (gint64)sequences * length);

  set(c, path, raw, value, PYTHON_IN_PLACE);
}

static int number(const Settings *s, const char *path, int usual)
{
  int value = usual;

  settings_int(s, "", path, &value, NULL);
  return value;
}

static gboolean differs(const Changing *c, const char *path)
{
  return !g_str_equal(settings_text(c->before, path), settings_text(c->after, path));
}

typedef struct {
  int seq, micro, parts, whole, ranks;
} Batch;

static Batch batch_of(const Settings *s)
{
  Batch b = { .seq = number(s, "training.seq_len", 2048), .whole = number(s, "training.global_batch_size", -1) };
  int local = number(s, "training.local_batch_size", 8), stages = number(s, PARALLEL "pipeline_parallel_degree", 1);

  b.micro = MAX(1, stages > 1 ? number(s, PARALLEL "pipeline_parallel_microbatch_size", 1) : local);
  b.parts = local / b.micro;
  b.ranks = number(s, PARALLEL "data_parallel_replicate_degree", 1) * number(s, PARALLEL "data_parallel_shard_degree", 1);
  return b;
}

/* Sequences, as TOML counts them. */
static void change_sequences(Changing *c, gboolean whole)
{
  for (gsize i = 0; i < G_N_ELEMENTS(counted); i++) {
    const char *value = settings_text(c->after, counted[i]);
    if (*value && (differs(c, counted[i]) || (whole && g_str_has_suffix(counted[i], "global_batch_size"))))
      set(c, counted[i], value, value, PYTHON_IN_PLACE);
  }
}

static void change_tokens(Changing *c, const Batch *was, const Batch *is, gboolean whole)
{
  g_autofree char *seq = g_strdup_printf("%d", is->seq), *parts = g_strdup_printf("%d", is->parts);

  if (is->seq != was->seq)
    set(c, CONTEXT_LENGTH, seq, seq, PYTHON_IN_PLACE);
  if (is->micro != was->micro || is->seq != was->seq)
    set_tokens(c, TOKENS_EACH, is->micro, is->seq);
  if (is->parts != was->parts)
    set(c, PARALLEL "num_pp_microbatches", parts, parts, PYTHON_IN_PLACE);
  if (whole)
    set_tokens(c, TOKENS, is->whole, is->seq);
}

/* The whole batch is said where the function says it, or it is another than its parts make. */
static void change_batch(Changing *c)
{
  const Batch was = batch_of(c->before), is = batch_of(c->after);
  gboolean sequences = counts_sequences(c->reading, c->function);
  gboolean told = *own_text(c, sequences ? "training.global_batch_size" : TOKENS) != '\0';
  gboolean other = told ? is.whole != was.whole || is.seq != was.seq : is.whole != is.micro * is.parts * is.ranks;

  if (sequences)
    change_sequences(c, other && is.whole > 0);
  else
    change_tokens(c, &was, &is, other && is.whole > 0);
}

/* Whether a file imports a class by its own name. */
static gboolean imports(const char *text, const char *name)
{
  g_autoptr(GRegex) comment = g_regex_new("#[^\n]*", G_REGEX_RAW, 0, NULL);
  g_autofree char *code = g_regex_replace_literal(comment, text, -1, 0, "", 0, NULL);
  g_autofree char *pattern = g_strdup_printf("^from\\b[^(\n]*\\bimport\\b([^()\n\\\\]|\\\\\r?\n)*(\\([^)]*)?"
                                             "\\b%s\\b(?!\\s+as\\s+(?!%s\\b))", name, name);

  return g_regex_match_simple(pattern, code, G_REGEX_RAW | G_REGEX_MULTILINE, 0);
}

/* A class that the file does not import is imported. */
static void import_name(Changing *c, const char *name)
{
  g_autofree char *line = g_strdup_printf("from torchtitan.distributed.activation_checkpoint import %s\n", name);
  const GRegexCompileFlags lines = G_REGEX_RAW | G_REGEX_MULTILINE;
  g_autoptr(GRegex) first = g_regex_new("^(from torchtitan|import torchtitan|def |class |@)", lines, 0, NULL);
  g_autoptr(GMatchInfo) match = NULL;
  int at = 0;

  if (imports(c->text, name))
    return;
  if (g_regex_match(first, c->text, 0, &match))
    g_match_info_fetch_pos(match, 0, &at, NULL);
  GString *text = g_string_new(c->text);
  g_string_insert(text, at, line);
  g_free(c->text);
  c->text = g_string_free(text, FALSE);
}

static void change_recomputation(Changing *c)
{
  const char *mode = settings_text(c->after, "activation_checkpoint.mode");

  for (gsize i = 0; i < G_N_ELEMENTS(modes); i++) {
    if (!g_str_equal(modes[i][1], mode))
      continue;
    gboolean class = !g_str_equal(mode, "none");
    g_autofree char *value = g_strdup_printf("%s%s", modes[i][0], class ? ".Config" : "");
    g_autofree char *raw = g_strdup_printf("%s%s", value, class ? "()" : "");
    if (set(c, "activation_checkpoint", raw, value, PYTHON_IN_PLACE) && class)
      import_name(c, modes[i][0]);
  }
}

/* torchtitan refuses to record its steps beside stages, and beside most ways to exchange tokens. */
static void leave_graphs(Changing *c)
{
  static const char *const degrees[] = { PARALLEL "pipeline_parallel_degree", PARALLEL "expert_parallel_degree" };
  const char *path = "training.disable_cuda_graphs";

  for (gsize i = 0; i < G_N_ELEMENTS(degrees); i++) {
    if (number(c->before, degrees[i], 1) > 1 || number(c->after, degrees[i], 1) <= 1)
      continue;
    if (strstr(c->text, "disable_cuda_graphs")) /* older versions have no such key */
      set_truth(c, path, TRUE);
    else
      g_ptr_array_add(c->notes, g_strdup_printf("%s: True where torchtitan has it: it records no steps with %s above 1",
                                                path, degrees[i]));
    return;
  }
}

/* What only some plans say, as torchtitan has it by itself. */
static const struct {
  const char *path, *raw, *value;
} usual[] = {
  { PARALLEL "module_fqns_per_model_part", "None", "None" },
  { PARALLEL "pipeline_parallel_layers_per_stage", "None", "None" },
  { PARALLEL "pipeline_parallel_first_stage_less_layers", "1", "1" },
  { PARALLEL "pipeline_parallel_last_stage_less_layers", "1", "1" },
  { PARALLEL "pipeline_parallel_schedule", "\"1F1B\"", "1F1B" },
  { PARALLEL "pipeline_parallel_microbatch_size", "1", "1" },
  { PARALLEL "fsdp_reshard_after_forward", "\"default\"", "default" },
  { PARALLEL "expert_tensor_parallel_degree", "1", "1" },
};

/* What the plan had and has no more; with other stages also what stood there unused. */
static void drop_parallelism(Changing *c)
{
  gboolean stages = differs(c, PARALLEL "pipeline_parallel_degree");

  for (gsize i = 0; i < G_N_ELEMENTS(usual); i++) {
    const char *path = usual[i].path;
    if (*own_text(c, path) && !*settings_text(c->after, path) && (stages || differs(c, path)))
      set(c, path, usual[i].raw, usual[i].value, PYTHON_IN_PLACE);
  }
}

/* What the function leaves to torchtitan is said too where stages change: its defaults go by them. */
static void change_parallelism(Changing *c)
{
  for (guint i = 0; i < c->after->list->len; i++) {
    const Setting *one = c->after->list->pdata[i];
    const char *path = one->path, *own = own_text(c, path);
    gboolean shard = g_str_equal(path, PARALLEL "data_parallel_shard_degree") && (!*own || g_str_equal(own, "-1"));
    gboolean implied = torchtitan_implied(c->before, c->after, path);
    gboolean late = g_str_equal(path, PARALLEL "pipeline_parallel_degree") ||
                    g_str_equal(path, PARALLEL "expert_parallel_degree"); /* checked beside what is assigned later */
    gboolean quoted = one->end - one->first == (int)strlen(one->value) + 2;
    g_auto(GStrv) parts = g_strsplit(one->value, "\"output\"", -1); /* its name in the TOML's time */
    g_autofree char *value = g_strjoinv("\"lm_head\"", parts);
    g_autofree char *raw = g_strdup_printf(quoted ? "\"%s\"" : "%s", value);
    if (!g_str_has_prefix(path, PARALLEL) || shard || (!differs(c, path) && !implied) ||
        g_str_equal(path, PARALLEL "pipeline_parallel_microbatch_size") ||
        g_str_equal(path, PARALLEL "enable_async_tensor_parallel") || g_str_equal(path, BACKEND) ||
        g_str_equal(path, ROWS) ||
        (g_str_equal(path, PARALLEL "expert_tensor_parallel_degree") && !*own && g_str_equal(one->value, "1")))
      continue;
    set(c, path, raw, value, late && number(c->before, path, 1) <= 1 ? PYTHON_LATE : PYTHON_IN_PLACE);
  }
}

/* Other functions that say something else than before. */
static void name_heirs(const Changing *c)
{
  g_autoptr(Settings) now = settings_python(c->text);
  g_autoptr(GHashTable) named = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);

  for (guint i = 0; i < now->list->len; i++) {
    const Setting *one = now->list->pdata[i];
    g_autofree char *function = g_strndup(one->path, strcspn(one->path, "."));
    if (g_str_equal(function, c->function) || g_str_equal(settings_text(c->reading->from, one->path), one->value) ||
        !g_hash_table_add(named, g_strdup(function)))
      continue;
    g_ptr_array_add(c->notes, g_strdup_printf("%s starts from %s, and changes with it", function, c->function));
  }
}

static void change_formats(Changing *c)
{
  const char *path = "training.mixed_precision_param", *format = settings_text(c->after, path);
  g_autofree char *raw = g_strdup_printf("\"%s\"", format);

  if (differs(c, path))
    set(c, path, raw, format, PYTHON_IN_PLACE);
  if (differs(c, "model.converters")) {
    const char *asked = settings_text(c->after, "model.converters"), *converter = "none";
    for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
      if (strstr(asked, kinds[i][1]))
        converter = kinds[i][0];
    g_autofree char *what = g_strdup_printf("%s: model_spec: converters %s", c->function, converter);
    config_note(c->notes, what);
  }
}

/* Of all keys of its section the one truth that newer files alone have. */
static void change_rows(Changing *c)
{
  const char *raw = settings_true(c->after, ROWS, TRUE) ? "True" : "False";

  if (differs(c, ROWS))
    set(c, ROWS, raw, raw, PYTHON_IN_PLACE);
}

static void change_exchange(Changing *c)
{
  const char *backend = settings_text(c->after, BACKEND), *named = *backend ? backend : "standard";
  g_autofree char *raw = g_strdup_printf("\"%s\"", named);

  if (differs(c, BACKEND) && (*backend || *own_text(c, OWN_BACKEND)))
    set(c, OWN_BACKEND, raw, named, PYTHON_IN_CALL);
}

static void change_overlap(Changing *c)
{
  const char *path = PARALLEL "enable_async_tensor_parallel", *now = "compile.enable_async_tensor_parallel";
  gboolean async = settings_true(c->after, path, FALSE), old = *own_text(c, path) != '\0';

  if (!differs(c, path))
    return;
  if (async) /* torchtitan asks for it */
    set_truth(c, "compile.enable", TRUE);
  if (old)
    set_truth(c, path, async);
  if (!old || *own_text(c, now))
    set_truth(c, now, async);
}

static void change(ConfigReading *r, char **text, const char *before, const char *after, GPtrArray *notes)
{
  g_autoptr(Settings) was = settings_toml(before), is = settings_toml(after);
  Changing c = { r, config_function(r, is_configuration), *text, was, is, notes };

  if (!c.function)
    return;
  leave_graphs(&c);
  drop_parallelism(&c);
  change_parallelism(&c);
  change_rows(&c);
  change_batch(&c);
  if (differs(&c, "activation_checkpoint.mode"))
    change_recomputation(&c);
  change_overlap(&c);
  change_exchange(&c);
  change_formats(&c);
  if (differs(&c, "training.enable_cpu_offload"))
    set_truth(&c, "training.enable_cpu_offload", settings_true(is, "training.enable_cpu_offload", FALSE));
  name_heirs(&c);
  *text = c.text;
}

const ConfigTool config_torchtitan_python = {
  .tool = "torchtitan",
  .title = "torchtitan Python configuration",
  .parse = settings_python,
  .recognises = recognises_python,
  .chosen = choose_function,
  .read = torchtitan_read,
  .groups = torchtitan_groups,
  .change = change,
  .line = "def ",
  .later = TRUE,
};
