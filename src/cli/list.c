#include "cli/list.h"

#include "base/error.h"
#include "base/files.h"
#include "base/units.h"
#include "cli/say.h"
#include "export/export.h"
#include "plan/keys.h"
#include "report/answer.h"

#include <math.h>

#define LIST_COLUMNS_MAX 7

typedef struct {
  const char *name;
  int n;
  AnswerColumn columns[LIST_COLUMNS_MAX];
  void (*fill)(Answer *answer);
} List;

static char *data_file(const char *folder, const char *name)
{
  g_autofree char *below = g_strdup_printf("%s/%s.json", folder, name);
  return files_data_path(below);
}

static void fill_models(Answer *a)
{
  g_auto(GStrv) names = files_names("models");

  for (int i = 0; names[i]; i++) {
    g_autofree char *path = data_file("models", names[i]);
    g_autoptr(Model) m = model_load(path, NULL);
    if (!m)
      continue;
    g_autofree char *params = format_count(m->params), *active = format_count(m->active_params);
    answer_add_text(a, names[i]);
    answer_add(a, m->params);
    answer_add_text(a, params);
    answer_add(a, m->active_params);
    answer_add_text(a, m->active_params < m->params ? active : "");
    answer_add(a, m->blocks);
    answer_add(a, m->seq);
  }
}

static void fill_clusters(Answer *a)
{
  g_auto(GStrv) names = files_names("hardware");

  for (int i = 0; names[i]; i++) {
    g_autofree char *path = data_file("hardware", names[i]);
    g_autoptr(Cluster) c = cluster_load(path, NULL);
    if (!c)
      continue;
    answer_add_text(a, names[i]);
    answer_add(a, c->devices);
    answer_add(a, c->n_types > 0 ? NAN : c->devices_per_node);
    answer_add_text(a, c->n_types > 0 ? "several" : c->device.name);
  }
}

/* What a string of a file says, "" where there is none. */
static const char *text_of(const JsonDoc *doc, const char *key)
{
  const cJSON *item = doc ? json_get(json_root(doc), key) : NULL;
  return cJSON_IsString(item) ? item->valuestring : "";
}

/* Of each file of a folder what one string says. */
static void fill_files(Answer *a, const char *folder, const char *key)
{
  g_auto(GStrv) names = files_names(folder);

  for (int i = 0; names[i]; i++) {
    g_autofree char *path = data_file(folder, names[i]);
    g_autoptr(JsonDoc) doc = json_load(path, NULL);
    answer_add_text(a, names[i]);
    answer_add_text(a, text_of(doc, key));
  }
}

static void fill_gpus(Answer *a)
{
  fill_files(a, "hardware/gpus", "arch");
}

static void fill_links(Answer *a)
{
  fill_files(a, "hardware/links", "kind");
}

/* Of each file of a folder what one number says, and one string unless that is NULL. */
static void fill_numbers(Answer *a, const char *folder, const char *number, const char *text)
{
  g_auto(GStrv) names = files_names(folder);

  for (int i = 0; names[i]; i++) {
    g_autofree char *path = data_file(folder, names[i]);
    g_autoptr(JsonDoc) doc = json_load(path, NULL);
    const cJSON *item = doc ? json_get(json_root(doc), number) : NULL;
    answer_add_text(a, names[i]);
    answer_add(a, cJSON_IsNumber(item) ? item->valuedouble : NAN);
    if (text)
      answer_add_text(a, text_of(doc, text));
  }
}

static void fill_operations(Answer *a)
{
  fill_numbers(a, "hardware/operations", "failure_gpu_hours", NULL);
}

static void fill_plans(Answer *a)
{
  fill_files(a, "plans", "framework");
}

static void fill_servers(Answer *a)
{
  fill_numbers(a, "hardware/servers", "devices_per_node", "gpu");
}

static void fill_frameworks(Answer *a)
{
  fill_files(a, "plans/frameworks", "description");
}

/* Frameworks that run a schedule, "a, b"; a few, and how many more. */
static char *runners(const Schedule *schedule, const GPtrArray *frameworks)
{
  GString *text = g_string_new(NULL);
  int found = 0;

  for (guint i = 0; i < frameworks->len; i++) {
    const Framework *f = frameworks->pdata[i];
    if (framework_runs(f, schedule) && found++ < 4)
      g_string_append_printf(text, "%s%s", text->len ? ", " : "", f->name);
  }
  if (found > 4)
    g_string_append_printf(text, " and %d more", found - 4);
  return g_string_free(text, FALSE);
}

static void fill_schedules(Answer *a)
{
  g_auto(GStrv) names = files_names("plans/frameworks");
  g_autoptr(GPtrArray) frameworks = g_ptr_array_new_with_free_func((GDestroyNotify)framework_free);

  for (int i = 0; names[i]; i++) {
    Framework *f = framework_load(names[i], NULL);
    if (f)
      g_ptr_array_add(frameworks, f);
  }
  for (int i = 0; schedules[i]; i++) {
    g_autofree char *who = runners(schedules[i], frameworks);
    answer_add_text(a, schedules[i]->name);
    answer_add_text(a, who);
  }
}

static void fill_exports(Answer *a)
{
  for (int i = 0; exporter_at(i); i++) {
    const Exporter *e = exporter_at(i);
    answer_add_text(a, e->name);
    answer_add_text(a, e->target);
    answer_add_text(a, e->extension);
  }
}

static void fill_keys(Answer *a)
{
  for (const PlanKey *key = plan_keys; key->field.key; key++) {
    g_autofree char *path = key->object ? g_strdup_printf("%s.%s", key->object, key->field.key) : NULL;
    answer_add_text(a, path ? path : key->field.key);
    answer_add_text(a, key->shorter ? key->shorter : "");
    answer_add_text(a, key->unit ? key->unit : "");
    answer_add_text(a, key->meaning ? key->meaning : "");
  }
}

static void fill_kinds(Answer *a)
{
  g_auto(GStrv) kinds = model_kinds();

  for (int i = 0; kinds[i]; i++)
    answer_add_text(a, kinds[i]);
}

#define NAME { "name", "<name", CELL_TEXT }

static const List lists[] = {
  { "models", 7, { NAME, { "parameters", NULL, CELL_INT }, { NULL, "parameters", CELL_TEXT },
                   { "active_parameters", NULL, CELL_INT }, { NULL, "active", CELL_TEXT },
                   { "layers", "layers", CELL_INT }, { "seq", "sequence", CELL_INT } }, fill_models },
  { "kinds", 1, { NAME }, fill_kinds },
  { "clusters", 4, { NAME, { "devices", "GPUs", CELL_INT }, { "devices_per_node", "a node", CELL_INT },
                     { "gpu", "<GPU", CELL_TEXT } }, fill_clusters },
  { "servers", 3, { NAME, { "devices_per_node", "GPUs", CELL_INT }, { "gpu", "<GPU", CELL_TEXT } }, fill_servers },
  { "gpus", 2, { NAME, { "arch", "<architecture", CELL_TEXT } }, fill_gpus },
  { "links", 2, { NAME, { "kind", "<kind", CELL_TEXT } }, fill_links },
  { "operations", 2, { NAME, { "failure_gpu_hours", "GPU-hours a failure", CELL_INT } }, fill_operations },
  { "plans", 2, { NAME, { "framework", "<framework", CELL_TEXT } }, fill_plans },
  { "frameworks", 2, { NAME, { "description", "<what it is", CELL_TEXT } }, fill_frameworks },
  { "schedules", 2, { NAME, { "frameworks", "<run by", CELL_TEXT } }, fill_schedules },
  { "exports", 3, { NAME, { "target", "<what reads it", CELL_TEXT }, { "extension", "<file", CELL_TEXT } }, fill_exports },
  { "keys", 4, { NAME, { "short", "<short", CELL_TEXT }, { "unit", "<counts", CELL_TEXT },
                 { "meaning", "<what it is", CELL_TEXT } }, fill_keys },
};

static const List *find(const char *what, GError **error)
{
  const char *names[G_N_ELEMENTS(lists) + 1] = { NULL };

  for (gsize i = 0; i < G_N_ELEMENTS(lists); i++) {
    names[i] = lists[i].name;
    if (g_str_equal(lists[i].name, what))
      return &lists[i];
  }
  g_autofree char *hint = names_hint(names, what);
  input_error(error, "--list: %s: expected a list: %s", what, hint);
  return NULL;
}

gboolean list_print(const char *what, gboolean json, GError **error)
{
  const List *list = find(what, error);

  if (!list)
    return FALSE;
  g_autoptr(Answer) a = answer_new(list->columns, list->n);
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;
  list->fill(a);
  if (json) {
    json_writer_init(&w, text);
    json_open(&w, NULL, '{');
    json_put_string(&w, "schema", "tdp-plan-list-1");
    answer_write(a, &w, list->name);
    json_close(&w, '}');
    g_string_append_c(text, '\n');
  } else {
    g_autofree char *table = answer_text(a);
    g_string_append(text, table);
  }
  say_or_print(json, text->str);
  return TRUE;
}
