#include "search/search.h"

#include "base/error.h"
#include "search/space.h"

Fixed fixed_none(void)
{
  Fixed none;

  for (int id = 0; id < KEY_COUNT; id++)
    none.value[id] = -1;
  return none;
}

const Schedule *fixed_schedule(const Fixed *fixed)
{
  return fixed->value[KEY_SCHEDULE] >= 0 ? schedules[fixed->value[KEY_SCHEDULE]] : NULL;
}

static gboolean bad_fix(GError **error, const char *key, const char *value, const char *expected)
{
  return input_error(error, "%s: %s: expected %s", key, value, expected);
}

/* Not one of a key's names: "a, b or c". */
static gboolean bad_name(const PlanKey *key, const char *const *names, const char *value, GError **error)
{
  g_autoptr(GString) list = g_string_new(names[0]);

  for (int i = 1; names[i]; i++)
    g_string_append_printf(list, "%s%s", names[i + 1] ? ", " : " or ", names[i]);
  return bad_fix(error, key->shorter, value, list->str);
}

/* As rankings and JSON write switches; -1 for anything else. */
static int switched(const char *value)
{
  static const char *const names[] = { "off", "on", "false", "true", NULL };
  int found = names_find(names, value);

  return found < 0 ? -1 : found % 2;
}

static gboolean fix_number(const PlanKey *key, const char *value, Fixed *out, GError **error)
{
  gboolean is_switch = key->field.type == JSON_BOOL || (key->field.min == 0 && key->field.max == 1);
  int min = key->fix == FIX_COUNT ? 0 : (int)key->field.min, max = is_switch ? 1 : (int)key->field.max;
  gint64 number = is_switch ? switched(value) : -1;

  if (number < 0 && !g_ascii_string_to_signed(value, 10, min, max, &number, NULL)) {
    g_autofree char *expected = is_switch ? g_strdup("on or off (1 or 0)")
                                          : g_strdup_printf("an integer from %d to %d", min, max);
    return bad_fix(error, key->shorter, value, expected);
  }
  if (out->value[key->id] >= 0)
    return bad_fix(error, key->shorter, value, "each key once");
  out->value[key->id] = (int)number;
  return TRUE;
}

static gboolean fix_name(const PlanKey *key, const char *value, Fixed *out, GError **error)
{
  const char *const *names = key->choices ? key->choices : key->field.names;
  gboolean digit = key->fix == FIX_SWITCH && (g_str_equal(value, "0") || g_str_equal(value, "1"));

  out->value[key->id] = digit ? *value - '0' : names_find(names, value);
  return out->value[key->id] >= 0 || bad_name(key, names, value, error);
}

/* What stands behind a granularity's colon: layers or modules. Returns whether it has such. */
static gboolean read_scope(int recompute, const char *text, int *layers, int *modules)
{
  gint64 number = 0;
  gboolean any = g_str_equal(text, "any");

  if (recompute == RECOMPUTE_SELECTIVE) {
    *modules = any ? 0 : (int)recompute_modules_parse(text);
    return any || *modules > 0;
  }
  if (recompute != RECOMPUTE_FULL || !(any || g_ascii_string_to_signed(text, 10, 1, SPLIT_LAYERS_MAX, &number, NULL)))
    return FALSE;
  *layers = (int)number;
  return TRUE;
}

/* A granularity; "full:4" are 4 layers of each stage, "selective:mlp+layernorm" these modules, "full:any" and
 * "selective:any" some. */
static gboolean fix_recompute(const PlanKey *key, const char *value, Fixed *out, GError **error)
{
  g_auto(GStrv) parts = g_strsplit(value, ":", 2);
  int recompute = parts[0] ? names_find(recompute_names, parts[0]) : -1, layers = -1, modules = -1;

  if (recompute < 0 || (parts[1] && !read_scope(recompute, parts[1], &layers, &modules)))
    return bad_name(key, key->choices, value, error);
  out->value[KEY_RECOMPUTE] = recompute;
  out->value[KEY_RECOMPUTE_LAYERS] = layers;
  out->value[KEY_RECOMPUTE_MODULES] = modules;
  return TRUE;
}

static gboolean fix_graph(const PlanKey *key, const char *value, Fixed *out, GError **error)
{
  CudaGraph graph;
  guint modules;

  if (!recorded_parse(value, &graph, &modules))
    return bad_name(key, key->choices, value, error);
  out->value[KEY_GRAPH] = graph;
  out->value[KEY_GRAPH_MODULES] = modules ? (int)modules : -1;
  return TRUE;
}

static gboolean fix_schedule(const PlanKey *key, const char *value, Fixed *out, GError **error)
{
  const Schedule *schedule = schedule_find(value);

  out->value[KEY_SCHEDULE] = schedule ? schedule_index(schedule) : -1;
  if (schedule)
    return TRUE;
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  for (int i = 0; schedules[i]; i++)
    g_ptr_array_add(names, (char *)schedules[i]->name);
  g_ptr_array_add(names, NULL);
  g_autofree char *hint = names_hint((const char *const *)names->pdata, value);
  g_autofree char *expected = g_strdup_printf("%s: %s", key->choices[0], hint);
  return bad_fix(error, key->shorter, value, expected);
}

static gboolean fix_value(const PlanKey *key, const char *value, Fixed *out, GError **error)
{
  if (key->fix == FIX_NUMBER || key->fix == FIX_COUNT)
    return fix_number(key, value, out, error);
  if (key->fix == FIX_NAME || key->fix == FIX_SWITCH)
    return fix_name(key, value, out, error);
  return (key->id == KEY_SCHEDULE ? fix_schedule : key->id == KEY_GRAPH ? fix_graph : fix_recompute)(key, value, out, error);
}

/* The option that says a key of plans which is none of these; NULL where none does. */
static const char *option_of(const char *name)
{
  static const char *const options[][2] = {
    { "precision", "--precision" }, { "fp8_recipe", "--precision, as in fp8:mxfp8," }, { "framework", "--framework" },
    { "gpus", "--gpus" }, { "gbs", "--global-batch" }, { "global_batch_size", "--global-batch" }, { "seq", "--seq" },
    { "seq_length", "--seq" }, { "adapter", "--adapter" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(options); i++)
    if (g_str_equal(name, options[i][0]))
      return options[i][1];
  return NULL;
}

/* The name of a key where rankings have its value under another title, or other tools call it so; NULL where neither
 * does. */
static const char *titled(const char *name)
{
  static const char *const titles[][2] = { { "chunks", "vpp" }, { "micro", "mbs" }, { "fsdp", "zero" },
                                           { "tensor_parallel", "tp" }, { "pipeline_parallel", "pp" },
                                           { "data_parallel", "dp" }, { "context_parallel", "cp" },
                                           { "expert_parallel", "ep" } };

  for (gsize i = 0; i < G_N_ELEMENTS(titles); i++)
    if (g_str_equal(name, titles[i][0]))
      return titles[i][1];
  return NULL;
}

static gboolean fix_one(const char *name, const char *value, Fixed *out, GError **error)
{
  const char *names[2 * KEY_COUNT + 1] = { NULL };
  g_autoptr(GString) known = g_string_new("one of the keys ");
  const PlanKey *named = plan_key_named(name);
  const char *option = option_of(name);
  int n = 0;

  if (named && named->fix != FIX_NONE)
    return fix_value(named, value, out, error);
  if (option) {
    g_autofree char *expected = g_strdup_printf("the option %s to say it", option);
    return bad_fix(error, name, value, expected);
  }
  for (int id = KEY_OTHER + 1; id < KEY_COUNT; id++) {
    const PlanKey *key = plan_key_of(id);
    if (key->fix == FIX_NONE)
      continue;
    g_string_append_printf(known, "%s%s", n ? ", " : "", key->shorter);
    names[n++] = key->shorter;
    names[n++] = key->field.key;
  }
  g_autofree char *meant = titled(name) ? g_strdup_printf("; did you mean \"%s\"?", titled(name))
                                        : names_meant(names, name);
  g_string_append(known, meant);
  return bad_fix(error, name, value, known->str);
}

static gboolean parse_all(const char *text, Fixed *out, GError **error)
{
  g_auto(GStrv) parts = g_strsplit(text, ",", -1);

  if (!parts[0])
    return bad_fix(error, "\"\"", "no value", "KEY=VALUE, as in tp=8,zero=1");
  for (int i = 0; parts[i]; i++) {
    g_auto(GStrv) pair = g_strsplit(parts[i], "=", 2);
    if (g_strv_length(pair) != 2 || !*pair[1])
      return bad_fix(error, parts[i], "no value", "KEY=VALUE, as in tp=8,zero=1");
    if (!fix_one(g_strstrip(pair[0]), g_strstrip(pair[1]), out, error))
      return FALSE;
  }
  return TRUE;
}

void fixed_write(const Fixed *fixed, GString *text)
{
  for (int id = KEY_OTHER + 1; id < KEY_COUNT; id++)
    g_string_append_printf(text, "%s=%d ", plan_key_of(id)->field.key, fixed->value[id]);
}

gboolean fixed_parse(const char *option, const char *text, Fixed *fixed, GError **error)
{
  if (parse_all(text, fixed, error))
    return TRUE;
  g_prefix_error(error, "%s: ", option);
  return FALSE;
}

gboolean space_parse(const char *option, const char *text, guint *space, GError **error)
{
  static const char *const names[] = { "offload", "zero++", "states", "order", "context", NULL };
  g_auto(GStrv) parts = g_strsplit(text, ",", -1);

  for (int i = 0; parts[i]; i++) {
    int named = names_find(names, parts[i]);
    if (named < 0)
      return input_error(error, "%s: %s: expected some of offload, zero++, states, order, context", option, parts[i]);
    *space |= 1u << named;
  }
  return TRUE;
}

gboolean space_has_context(const SearchOptions *o, int seq, int cp)
{
  return cp == 1 || o->fixed.value[KEY_CP] >= 0 || o->space & SPACE_CONTEXT || seq / cp >= CONTEXT_TOKENS_MIN;
}

/* Keys of one number; walks set those that they choose again. */
Plan space_base(const SearchOptions *options)
{
  PlanFile file = { .plan = *options->base };

  for (int id = KEY_OTHER + 1; id < KEY_COUNT; id++) {
    const JsonField *field = &plan_key_of(id)->field;
    gboolean number = field->type == JSON_INT || field->type == JSON_BOOL || field->type == JSON_ENUM;
    if (number && options->fixed.value[id] >= 0)
      G_STRUCT_MEMBER(int, &file, field->offset) = options->fixed.value[id];
  }
  return file.plan;
}
