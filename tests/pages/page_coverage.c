/*
 * docs/coverage.md: every technique with its plan keys, cost formula, rule,
 * search dimension, test, example plan, and the frameworks that can run it,
 * from tests/coverage.json. Each entry there is an object:
 *
 *   group      heads a table from here on; `technique` names the row
 *   keys       plan keys
 *   formula    "FILE SYMBOL": the file of src/ that holds the symbol
 *   rule       a name of plan_rule_names
 *   search     KEY=VALUE as --fix takes it, or a name in src/search
 *   test       "FILE SYMBOL" of tests/
 *   plan, model, cluster   an example of plans/, what it is for
 *   with       object of plan keys that the example takes besides; it must have every one of `keys`
 *   only       the framework that is the technique itself; else each is tried
 *   why        object from a cell's name to the reason why it is empty; "*" for all the others
 *
 * What can be checked is: keys are known, files hold the symbols, rules have the
 * name, --fix takes the dimension, the example is legal. Frameworks are found by
 * checking the example with each file of plans/frameworks/. Exit 1 if a check
 * fails or a cell is empty without a reason.
 *
 * Behind the tables: the tools of src/export/export.c, and what of the examples each is told.
 */
#include "base/error.h"
#include "base/files.h"
#include "export/export.h"
#include "plan/plan.h"
#include "search/balanced.h"
#include "search/search.h"

#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <string.h>

enum { EXPORTERS_MOST = 32, GROUPS_MOST = 32 };

/* Of a group's examples how many each tool is told. */
typedef struct {
  const char *name;
  int examples, told[EXPORTERS_MOST];
} Group;

typedef struct {
  JsonDoc *doc;
  const Exporter *exporters[EXPORTERS_MOST];
  Group groups[GROUPS_MOST];
  int n_exporters, n_groups;
  GPtrArray *frameworks; /* char *, names in order */
  Model *small;          /* for reading plans that have no model of their own */
  GString *page;
  int rows, faults;
} Coverage;

static const char *text_of(const cJSON *entry, const char *key)
{
  const cJSON *item = json_get(entry, key);
  return cJSON_IsString(item) ? item->valuestring : NULL;
}

static void fault(Coverage *c, const cJSON *entry, const char *format, ...) G_GNUC_PRINTF(3, 4);

static void fault(Coverage *c, const cJSON *entry, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  g_autofree char *message = g_strdup_vprintf(format, args);
  va_end(args);
  fprintf(stderr, "coverage: %s: %s\n", text_of(entry, "technique"), message);
  c->faults++;
}

/* An empty cell's reason. */
static char *reason(Coverage *c, const cJSON *entry, const char *cell)
{
  const cJSON *why = json_get(entry, "why");
  const char *text = text_of(why, cell) ? text_of(why, cell) : text_of(why, "*");

  if (!text)
    fault(c, entry, "%s: empty without a reason", cell);
  return g_strdup_printf("– (%s)", text ? text : "?");
}

/* "zero_optimization.reduce_bucket_size" is a key of an object. */
static gboolean key_is_known(const Coverage *c, const char *key)
{
  g_auto(GStrv) parts = g_strsplit(key, ".", 2);
  g_autofree char *text = g_strdup_printf(parts[1] ? "{\"%s\": {\"%s\": null}}" : "{\"%s\": null}", parts[0], parts[1]);
  Framework *framework = NULL;
  Plan plan;
  gboolean known = plan_parse(text, strlen(text), "key", c->small, &plan, &framework, NULL);

  g_clear_pointer(&framework, framework_free);
  return known;
}

static char *keys_cell(Coverage *c, const cJSON *entry)
{
  g_autoptr(GString) text = g_string_new(NULL);
  const cJSON *key;

  cJSON_ArrayForEach(key, json_get(entry, "keys")) {
    if (!key_is_known(c, key->valuestring))
      fault(c, entry, "keys: %s: no such plan key", key->valuestring);
    g_string_append_printf(text, "%s`%s`", text->len ? ", " : "", key->valuestring);
  }
  return text->len ? g_strdup(text->str) : reason(c, entry, "keys");
}

/* "FILE SYMBOL": the file must hold the symbol. */
static char *place_cell(Coverage *c, const cJSON *entry, const char *cell)
{
  const char *place = text_of(entry, cell);
  gsize length;

  if (!place)
    return reason(c, entry, cell);
  g_auto(GStrv) parts = g_strsplit(place, " ", 2);
  g_autofree char *path = files_data_path(parts[0]), *text = files_read(path, &length, NULL);
  if (!text || !parts[1] || !strstr(text, parts[1]))
    fault(c, entry, "%s: %s: expected a file that holds the symbol", cell, place);
  return g_strdup_printf("`%s` %s", parts[0], parts[1] ? parts[1] : "");
}

static char *rule_cell(Coverage *c, const cJSON *entry)
{
  const char *rule = text_of(entry, "rule");

  if (!rule)
    return reason(c, entry, "rule");
  if (names_find(plan_rule_names, rule) < 0)
    fault(c, entry, "rule: %s: expected a name of plan_rule_names", rule);
  return g_strdup(rule);
}

static char *search_cell(Coverage *c, const cJSON *entry)
{
  const char *search = text_of(entry, "search");
  Fixed fixed = fixed_none();
  GError *error = NULL;

  if (!search)
    return reason(c, entry, "search");
  if (!fixed_parse("search", search, &fixed, &error)) {
    fault(c, entry, "%s", error->message);
    g_error_free(error);
  }
  return g_strdup_printf("`--fix %s`", search);
}

/* ---- the example, and who runs it ---- */

typedef struct {
  Model *model;
  Cluster *cluster;
  char *path;
  cJSON *plan;
} Example;

static gboolean plan_read(Example *e, const cJSON *with, GError **error)
{
  gsize length;
  g_autofree char *text = files_read(e->path, &length, error);
  const cJSON *item;

  e->plan = text ? cJSON_Parse(text) : NULL;
  cJSON_ArrayForEach(item, with) {
    cJSON_DeleteItemFromObjectCaseSensitive(e->plan, item->string);
    cJSON_AddItemToObject(e->plan, item->string, cJSON_Duplicate(item, TRUE));
  }
  return e->plan != NULL;
}

static gboolean example_init(Example *e, const cJSON *entry, GError **error)
{
  g_autofree char *model = files_find(text_of(entry, "model") ? text_of(entry, "model") : "", "models", error);
  const char *named = text_of(entry, "cluster");
  g_autofree char *cluster = model ? files_find(named ? named : "", "hardware", error) : NULL;

  e->path = cluster ? files_find(text_of(entry, "plan"), "plans", error) : NULL;
  return e->path && (e->model = model_load(model, error)) && (e->cluster = cluster_load(cluster, error)) &&
         plan_read(e, json_get(entry, "with"), error);
}

static void example_clear(Example *e)
{
  g_clear_pointer(&e->model, model_free);
  g_clear_pointer(&e->cluster, cluster_free);
  g_clear_pointer(&e->plan, cJSON_Delete);
  g_free(e->path);
}

/* The example under another framework, NULL = its own; the caller frees `loaded`. */
static gboolean example_plan(const Example *e, const char *framework, Plan *plan, Framework **loaded, GError **error)
{
  cJSON *root = cJSON_Duplicate(e->plan, TRUE);

  if (framework) {
    cJSON_DeleteItemFromObjectCaseSensitive(root, "framework");
    cJSON_AddStringToObject(root, "framework", framework);
  }
  char *printed = cJSON_PrintUnformatted(root);
  gboolean ok = plan_parse(printed, strlen(printed), e->path, e->model, plan, loaded, error) &&
                cluster_resize(e->cluster, plan->gpus, error) && balance_plan(e->model, e->cluster, plan, error) &&
                plan_check(plan, e->model, e->cluster, error) == RULE_NONE &&
                (!framework || plan->pp == 1 || framework_runs(*loaded, plan->schedule));
  cJSON_free(printed);
  cJSON_Delete(root);
  return ok;
}

static gboolean example_is_legal(const Example *e, const char *framework, GError **error)
{
  g_autoptr(Framework) loaded = NULL;
  Plan plan;

  return example_plan(e, framework, &plan, &loaded, error);
}

/* Whether a tool's file says all of the example's plan under a framework (NULL = its own), and of its model where the entry
 * is about models: it has no keys. */
static gboolean is_told(const Example *e, const cJSON *entry, const Exporter *exporter, const char *framework)
{
  g_autoptr(Framework) loaded = NULL;
  g_autoptr(GPtrArray) losses = g_ptr_array_new_with_free_func(g_free);
  Plan plan;

  if (!example_plan(e, framework, &plan, &loaded, NULL))
    return FALSE;
  g_autofree char *text = export_plan(exporter, e->model, e->cluster, &plan, losses, NULL);
  for (guint i = 0; i < losses->len; i++)
    if (!json_get(entry, "keys") || !g_str_has_prefix(losses->pdata[i], "model: "))
      return FALSE;
  return text != NULL;
}

static void count_exports(Coverage *c, const cJSON *entry, const Example *e)
{
  Group *g = &c->groups[c->n_groups - 1];

  g->examples++;
  for (int i = 0; i < c->n_exporters; i++) {
    const Exporter *x = c->exporters[i];
    g->told[i] += is_told(e, entry, x, NULL) || (x->framework && is_told(e, entry, x, x->framework));
  }
}

static void check_keys(Coverage *c, const cJSON *entry, const Example *e)
{
  const cJSON *key;

  cJSON_ArrayForEach(key, json_get(entry, "keys")) {
    g_auto(GStrv) parts = g_strsplit(key->valuestring, ".", 2);
    const cJSON *item = json_get(e->plan, parts[0]);
    if (parts[1] && item)
      item = json_get(item, parts[1]);
    if (!item)
      fault(c, entry, "plan: %s: expected the key %s in it", text_of(entry, "plan"), key->valuestring);
  }
}

static char *plan_cell(const cJSON *entry)
{
  const cJSON *with = json_get(entry, "with");
  g_autoptr(GString) text = g_string_new(NULL);

  g_string_printf(text, "`plans/%s.json`", text_of(entry, "plan"));
  if (with) {
    char *printed = cJSON_PrintUnformatted(with);
    g_string_append_printf(text, " with `%s`", printed);
    cJSON_free(printed);
  }
  return g_strdup(text->str);
}

static char *runs_cell(Coverage *c, const cJSON *entry, const Example *e)
{
  g_autoptr(GString) text = g_string_new(NULL);
  const char *only = text_of(entry, "only");
  guint n = 0;

  if (only && !example_is_legal(e, only, NULL))
    fault(c, entry, "only: %s: the example is not legal", only);
  if (only)
    return g_strdup(only);
  for (guint i = 0; i < c->frameworks->len; i++) {
    const char *name = g_ptr_array_index(c->frameworks, i);
    if (!example_is_legal(e, name, NULL))
      continue;
    n++;
    g_string_append_printf(text, "%s%s", text->len ? ", " : "", name);
  }
  if (n == c->frameworks->len)
    return g_strdup("all");
  return n ? g_strdup(text->str) : reason(c, entry, "runs");
}

static void example_cells(Coverage *c, const cJSON *entry, char **plan, char **runs)
{
  Example e = { 0 };
  GError *error = NULL;

  if (!text_of(entry, "plan")) {
    *plan = reason(c, entry, "plan");
    *runs = reason(c, entry, "runs");
    return;
  }
  if (!example_init(&e, entry, &error) || !example_is_legal(&e, NULL, &error)) {
    fault(c, entry, "plan: %s", error->message);
    g_error_free(error);
  }
  if (e.plan)
    check_keys(c, entry, &e);
  if (e.plan)
    count_exports(c, entry, &e);
  *plan = plan_cell(entry);
  *runs = e.plan ? runs_cell(c, entry, &e) : g_strdup("");
  example_clear(&e);
}

static void add_cells(Coverage *c, const cJSON *entry)
{
  const cJSON *why = json_get(entry, "why");

  if (text_of(why, "*") && !text_of(entry, "test")) {
    g_string_append_printf(c->page, "| %s | %s | – | – | – | – | – | – |\n", text_of(entry, "technique"),
                           text_of(why, "*"));
    return;
  }
  g_autofree char *keys = keys_cell(c, entry), *formula = place_cell(c, entry, "formula"), *rule = rule_cell(c, entry);
  g_autofree char *search = search_cell(c, entry), *test = place_cell(c, entry, "test");
  g_autofree char *plan = NULL, *runs = NULL;

  example_cells(c, entry, &plan, &runs);
  g_string_append_printf(c->page, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", text_of(entry, "technique"), keys,
                         formula, rule, search, test, plan, runs);
}

static void add_row(Coverage *c, const cJSON *entry)
{
  if (text_of(entry, "group")) {
    g_assert(c->n_groups < GROUPS_MOST);
    c->groups[c->n_groups++] = (Group) { .name = text_of(entry, "group") };
    g_string_append_printf(c->page, "\n## %s\n\n| technique | keys | formula | rule | search | test | example | "
                                    "frameworks |\n"
                           "|---|---|---|---|---|---|---|---|\n", text_of(entry, "group"));
  }
  add_cells(c, entry);
  c->rows++;
}

static int by_name(gconstpointer a, gconstpointer b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Generations in one row would hide who can: the current one of each engine. */
static GPtrArray *frameworks_now(void)
{
  static const char *const old[] = { "-20", "compile", "eager", NULL };
  GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *path = files_data_path("plans/frameworks");
  g_autoptr(GDir) folder = g_dir_open(path, 0, NULL);
  const char *file;

  while (folder && (file = g_dir_read_name(folder))) {
    gboolean dated = !g_str_has_suffix(file, ".json");
    for (int i = 0; old[i]; i++)
      dated = dated || strstr(file, old[i]);
    if (!dated)
      g_ptr_array_add(names, g_strndup(file, strlen(file) - strlen(".json")));
  }
  g_ptr_array_sort(names, by_name);
  return names;
}

/* ---- exports ---- */

static void find_exporters(Coverage *c)
{
  g_autofree char *all = exporter_list();
  g_auto(GStrv) names = g_strsplit(all, ", ", -1);

  for (; names[c->n_exporters]; c->n_exporters++) {
    g_assert(c->n_exporters < EXPORTERS_MOST);
    c->exporters[c->n_exporters] = exporter_find(names[c->n_exporters]);
  }
}

/* Its file of src/export, which must be there. */
static char *source_of(Coverage *c, const Exporter *x)
{
  g_autofree char *file = g_strdelimit(g_strdup(x->name), "-", '_'), *below = g_strdup_printf("src/export/%s.c", file);
  g_autofree char *path = files_data_path(below);

  if (!g_file_test(path, G_FILE_TEST_IS_REGULAR)) {
    fprintf(stderr, "coverage: %s: no such file\n", below);
    c->faults++;
  }
  return g_steal_pointer(&below);
}

static void add_exporters(Coverage *c)
{
  g_string_append(c->page, "\n## Exports\n\n"
                  "What `--export TOOL=FILE` writes. A further tool is a file beside these, a line of the table in "
                  "`src/export/export.c` and one of\n`src/export/target.h`; `tests/test_export_keys.c` then asks of each plan "
                  "key that the file tells it or it is named as lost.\n\n"
                  "| export | for | file | bounds what is planned for it | code |\n|---|---|---|---|---|\n");
  for (int i = 0; i < c->n_exporters; i++) {
    const Exporter *x = c->exporters[i];
    g_autofree char *source = source_of(c, x);
    g_autofree char *bound = x->framework ? g_strdup_printf("`plans/frameworks/%s.json`", x->framework)
                                          : g_strdup(x->launch ? "– (any plan; it names what it loses)"
                                                               : "– (any plan; it says the order of passes alone)");
    g_string_append_printf(c->page, "| `%s` | %s | .%s | %s | `%s` |\n", x->name, x->target, x->extension, bound, source);
  }
}

/* Of tools that a whole plan is written for, which it then can be started with. */
static void add_told(Coverage *c)
{
  g_string_append(c->page, "\nOf the examples above, how many of each group the tool's file says whole, under the example's framework or "
                  "the tool's own; what\nit has not of a model counts where no plan key is named. Of others it says what it can, with "
                  "`--allow-lossy`.\n\n| group | examples |");
  for (int i = 0; i < c->n_exporters; i++)
    if (c->exporters[i]->launch)
      g_string_append_printf(c->page, " %s |", c->exporters[i]->name);
  g_string_append(c->page, "\n|---|---|");
  for (int i = 0; i < c->n_exporters; i++)
    g_string_append(c->page, c->exporters[i]->launch ? "---|" : "");
  for (int g = 0; g < c->n_groups; g++) {
    if (c->groups[g].examples == 0)
      continue;
    g_string_append_printf(c->page, "\n| %s | %d |", c->groups[g].name, c->groups[g].examples);
    for (int i = 0; i < c->n_exporters; i++)
      if (c->exporters[i]->launch)
        g_string_append_printf(c->page, " %d |", c->groups[g].told[i]);
  }
  g_string_append_c(c->page, '\n');
}

int main(void)
{
  g_autoptr(GString) page = g_string_new(NULL);
  Coverage c = { .frameworks = frameworks_now(), .page = page };
  GError *error = NULL;
  g_autofree char *path = files_data_path("tests/coverage.json"), *model = files_find("tiny", "models", NULL);
  const cJSON *entry;

  gsl_set_error_handler_off();
  c.small = model_load(model, &error);
  c.doc = c.small ? json_load(path, &error) : NULL;
  if (!c.doc) {
    fprintf(stderr, "coverage: %s\n", error->message);
    return 2;
  }
  find_exporters(&c);
  cJSON_ArrayForEach(entry, json_root(c.doc))
    add_row(&c, entry);
  add_exporters(&c);
  add_told(&c);
  g_ptr_array_add(c.frameworks, NULL);
  g_autofree char *names = g_strjoinv(", ", (char **)c.frameworks->pdata);
  printf("# Coverage\n\n"
         "Each of %d techniques with its plan keys, the function that prices it, the rule that refuses it, how the "
         "planner's space\nholds it, a test, and an example; and which of the current frameworks (%s) may run the "
         "example as it is. `make pages`\nwrites this page from `tests/coverage.json`; the tests check that keys, "
         "functions, rules, dimensions and examples exist,\nand find the frameworks by trying each on the example. An empty cell has its reason.\n%s",
         c.rows, names, page->str);
  json_free(c.doc);
  model_free(c.small);
  g_ptr_array_unref(c.frameworks);
  return c.faults ? 1 : 0;
}
