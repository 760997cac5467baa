/* Plan files: reading with defaults, and writing, by the table of keys. */
#include "plan/keys.h"

#include <string.h>

#define KEYS_MAX 128

static gboolean stands_in(const PlanKey *key, const char *object)
{
  return g_strcmp0(key->object, object) == 0;
}

/* ---- reading ---- */

static const Schedule *unknown_schedule(const JsonDoc *doc, GError **error)
{
  GString *names = g_string_new(NULL);

  for (int i = 0; schedules[i]; i++)
    g_string_append_printf(names, "%s, ", schedules[i]->name);
  g_autofree char *known = g_string_free(names, FALSE);
  json_error(doc, json_get(json_root(doc), "pipeline_schedule"), error, "one of %sor the path of a schedule .csv",
             known);
  return NULL;
}

static const Schedule *resolve_schedule(const JsonDoc *doc, const char *name, int vpp, Framework *framework,
                                        GError **error)
{
  const Schedule *schedule = schedule_find(name ? name : vpp > 1 ? "interleaved" : "1f1b");

  if (schedule)
    return schedule;
  if (!g_str_has_suffix(name, ".csv"))
    return unknown_schedule(doc, error);
  framework->table = schedule_table_load(name, error);
  if (!framework->table)
    g_prefix_error(error, "%s: pipeline_schedule: ", json_name(doc));
  return framework->table ? &framework->table->schedule : NULL;
}

/* Chunks where the file says nothing: those of a schedule that has no choice. */
static int default_chunks(const Schedule *schedule, const Framework *framework)
{
  if (schedule->placement == PLACE_TABLE)
    return framework->table->chunks;
  return schedule->min_chunks == schedule->max_chunks ? schedule->min_chunks : 1;
}

/* gpus and data_parallel_size follow from each other; 0 = absent. */
static void resolve_degrees(Plan *p)
{
  gint64 others;

  if (__builtin_mul_overflow((gint64)p->tp * p->pp, p->cp, &others))
    others = G_MAXINT64;
  p->dp = p->dp > 0 ? p->dp : p->gpus > 0 ? (int)MAX(1, p->gpus / others) : 1;
  p->gpus = p->gpus > 0 ? p->gpus : others > G_MAXINT / p->dp ? G_MAXINT : (int)others * p->dp;
}

/* Turns the keys that the plan has the contrary of, as the file has them, and back. */
static void negate_members(const char *object, PlanFile *file)
{
  for (const PlanKey *key = plan_keys; key->field.key; key++)
    if (key->negated && stands_in(key, object))
      G_STRUCT_MEMBER(gboolean, file, key->field.offset) = !G_STRUCT_MEMBER(gboolean, file, key->field.offset);
}

/* The members of an object, all but those that are read by a function. */
static gboolean read_members(const JsonDoc *doc, const cJSON *node, const char *object, PlanFile *out, GError **error)
{
  JsonField fields[KEYS_MAX];
  gsize n = 0;

  negate_members(object, out);
  for (const PlanKey *key = plan_keys; key->field.key; key++)
    if (stands_in(key, object)) {
      g_assert(n < KEYS_MAX);
      fields[n++] = key->field;
    }
  gboolean ok = json_read(doc, node, fields, n, out, error);
  negate_members(object, out);
  return ok;
}

/* What is no single number or name. */
static gboolean read_values(const JsonDoc *doc, PlanFile *out, GError **error)
{
  for (const PlanKey *key = plan_keys; key->field.key; key++) {
    const cJSON *item = key->object ? NULL : json_get(json_root(doc), key->field.key);
    if (!item)
      continue;
    if (key->read && !key->read(doc, item, &out->plan, error))
      return FALSE;
    if (!plan_key_members(key) || (key->read && !cJSON_IsObject(item)))
      continue;
    item = json_get_object(doc, json_root(doc), key->field.key, TRUE, error);
    if (!item || !read_members(doc, item, key->field.key, out, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean check_method(const JsonDoc *doc, GError **error)
{
  const cJSON *method = json_get(json_root(doc), "recompute_method");

  return !method || json_get(json_root(doc), "recompute_num_layers") ||
         json_error(doc, method, error, "recompute_num_layers beside it");
}

/* Degrees and batch of 0 are absent: they follow from the others. */
static gboolean read_file(const JsonDoc *doc, Framework *framework, PlanFile *f, GError **error)
{
  Plan *p = &f->plan;
  int batch = p->global_batch;

  p->gpus = p->dp = p->global_batch = p->vpp = 0;
  if (!read_members(doc, json_root(doc), NULL, f, error))
    return FALSE;
  resolve_degrees(p);
  p->global_batch = p->global_batch ? p->global_batch : MAX(batch, p->dp);
  p->micro_group = p->micro_group == p->pp ? 0 : p->micro_group;
  p->etp = p->etp == p->tp ? 0 : p->etp;
  plan_set_format(p, f->precision);
  const Schedule *schedule = resolve_schedule(doc, f->schedule, p->vpp, framework, error);
  if (!schedule)
    return FALSE;
  plan_set_schedule(p, schedule, p->vpp ? p->vpp : default_chunks(schedule, framework));
  if (!read_values(doc, f, error) || !check_method(doc, error))
    return FALSE;
  if (p->sharding.secondary == 1)
    p->sharding.secondary = 0; /* DeepSpeed's way to say none */
  return TRUE;
}

gboolean plan_parse(const char *text, gsize length, const char *name, const Model *model, Plan *out,
                    Framework **framework, GError **error)
{
  g_autoptr(JsonDoc) doc = json_parse(text, length, name, error);
  const cJSON *software = doc ? json_get(json_root(doc), "framework") : NULL;
  gboolean named = cJSON_IsString(software) && *software->valuestring;
  g_autoptr(Framework) loaded = doc ? framework_load(named ? software->valuestring : FRAMEWORK_USUAL, error) : NULL;

  if (doc && !loaded) {
    gboolean said = error && g_str_has_prefix((*error)->message, "framework: ");
    g_prefix_error(error, "%s: %s", json_name(doc), said ? "" : "framework: ");
  }
  if (!loaded)
    return FALSE;
  PlanFile f = { .plan = plan_default(model, loaded), .precision = DTYPE_BF16 };
  gboolean ok = read_file(doc, loaded, &f, error);
  g_free(f.schedule);
  g_free(f.framework);
  *out = f.plan;
  if (ok)
    *framework = g_steal_pointer(&loaded);
  return ok;
}

/* ---- writing ---- */

PlanFile plan_as_file(const Plan *p)
{
  return (PlanFile) { *p, (char *)p->schedule->name, p->framework->name, plan_format(p) };
}

Plan plan_given(const Model *model, const Plan *p)
{
  PlanFile from = plan_as_file(p), to = { .plan = plan_default(model, p->framework) };

  for (const PlanKey *key = plan_keys; key->field.key; key++) {
    gpointer own = G_STRUCT_MEMBER_P(&to, key->field.offset), theirs = G_STRUCT_MEMBER_P(&from, key->field.offset);
    if (key->given)
      memcpy(own, theirs, key->field.type == JSON_REAL ? sizeof(double) : sizeof(int));
  }
  to.plan.adapter = p->adapter;
  plan_set_format(&to.plan, to.precision);
  return to.plan;
}

/* What models and frameworks give is always written. */
static gboolean is_written(const PlanKey *key, const Plan *p, gboolean all)
{
  if (!all && key->matters)
    return key->matters(p);
  return all || key->always || !plan_key_is_usual(key, p);
}

static void write_value(const PlanKey *key, const PlanFile *file, JsonWriter *w)
{
  const JsonField *field = &key->field;
  gconstpointer slot = G_STRUCT_MEMBER_P(file, field->offset);

  if (field->type == JSON_REAL && !key->whole)
    json_put_real(w, field->key, *(const double *)slot);
  else if (field->type == JSON_REAL)
    json_put_int(w, field->key, (gint64)*(const double *)slot);
  else if (field->type == JSON_BOOL)
    json_put_bool(w, field->key, *(const gboolean *)slot != key->negated);
  else if (field->type == JSON_INT)
    json_put_int(w, field->key, *(const int *)slot);
  else
    json_put_string(w, field->key, field->names ? field->names[*(const int *)slot] : *(char *const *)slot);
}

/* The keys of an object that say something; nothing where none does. */
static void write_members(const PlanKey *owner, const PlanFile *file, gboolean all, JsonWriter *w)
{
  gboolean open = FALSE;

  for (const PlanKey *key = plan_key_members(owner); stands_in(key, owner->field.key); key++) {
    if (!is_written(key, &file->plan, all))
      continue;
    if (!open)
      json_open(w, owner->field.key, '{');
    open = TRUE;
    write_value(key, file, w);
  }
  if (open)
    json_close(w, '}');
}

static void write_plan(const Plan *p, JsonWriter *w, const char *name, gboolean all)
{
  const PlanFile file = plan_as_file(p);

  json_open(w, name, '{');
  for (const PlanKey *key = plan_keys; key->field.key; key++)
    if (key->object || (key->write && key->write(p, w)))
      continue;
    else if (plan_key_members(key))
      write_members(key, &file, all, w);
    else if (key->field.type != JSON_ANY && is_written(key, p, all))
      write_value(key, &file, w);
  json_close(w, '}');
}

void plan_write(const Plan *p, JsonWriter *w, const char *name)
{
  write_plan(p, w, name, FALSE);
}

void plan_write_all(const Plan *p, JsonWriter *w, const char *name)
{
  write_plan(p, w, name, TRUE);
}
