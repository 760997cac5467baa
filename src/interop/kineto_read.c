/* A trace of the user's own run, as torch.profiler (Kineto) writes it: times by
 * kernel, each with what it is, of one step where the trace marks steps. */
#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "interop/import.h"

#include <math.h>
#include <string.h>

#define NAME_SHOWN 60
#define KERNELS_SHOWN 40

typedef struct {
  char *name;
  const char *kind;
  int count;
  double seconds;
} Kernel;

/* What a kernel's name says; the first that it holds counts. */
static const struct {
  const char *part, *kind;
} kinds[] = {
  { "nccl", "communication" }, { "flash", "attention" },   { "fmha", "attention" },       { "attention", "attention" },
  { "gemm", "product" },       { "cutlass", "product" },   { "cublas", "product" },       { "nvjet", "product" },
  { "Memcpy", "copy" },        { "Memset", "copy" },       { "multi_tensor", "optimizer" }, { "adam", "optimizer" },
  { "norm", "norm" },          { "softmax", "loss" },      { "cross_entropy", "loss" },
};

static const char *kind_of(const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    if (strcasestr(name, kinds[i].part))
      return kinds[i].kind;
  return "other";
}

static gboolean recognises(const char *text)
{
  text += strspn(text, " \t\r\n");
  return (*text == '{' || *text == '[') && strstr(text, "\"traceEvents\"");
}

static void kernel_free(gpointer data)
{
  Kernel *k = data;
  g_free(k->name);
  g_free(k);
}

typedef struct {
  GHashTable *by_name;
  GPtrArray *kernels; /* Kernel, owned */
  int steps;
  double step_s;      /* of all steps */
} Reader;

static const char *string_of(const cJSON *event, const char *key)
{
  const cJSON *item = json_get(event, key);
  return cJSON_IsString(item) ? item->valuestring : NULL;
}

static void add_kernel(Reader *r, const char *name, double seconds)
{
  Kernel *k = g_hash_table_lookup(r->by_name, name);

  if (!k) {
    k = g_new0(Kernel, 1);
    k->name = g_strdup(name);
    k->kind = kind_of(name);
    g_ptr_array_add(r->kernels, k);
    g_hash_table_insert(r->by_name, k->name, k);
  }
  k->count++;
  k->seconds += seconds;
}

static void read_event(Reader *r, const cJSON *event, ImportNotes *notes)
{
  static const char *const gpu[] = { "kernel", "gpu_memcpy", "gpu_memset", NULL };
  const char *cat = string_of(event, "cat"), *name = string_of(event, "name");
  const cJSON *dur = json_get(event, "dur");

  if (!cat || !(g_strv_contains(gpu, cat) || g_str_equal(cat, "user_annotation")))
    return;
  if (!name || !cJSON_IsNumber(dur) || !(dur->valuedouble >= 0) || !isfinite(dur->valuedouble)) {
    import_strange(notes, name ? name : "an event without name or duration");
  } else if (g_strv_contains(gpu, cat)) {
    add_kernel(r, name, dur->valuedouble * 1e-6);
  } else if (g_str_has_prefix(name, "ProfilerStep")) {
    r->steps++;
    r->step_s += dur->valuedouble * 1e-6;
  }
}

static int longer(gconstpointer a, gconstpointer b)
{
  const Kernel *x = *(Kernel *const *)a, *y = *(Kernel *const *)b;
  return x->seconds == y->seconds ? strcmp(x->name, y->name) : x->seconds < y->seconds ? 1 : -1;
}

static void add_row(Table *table, const Kernel *k, int steps, double all)
{
  g_autofree char *each = format_seconds(k->seconds / k->count), *step = format_seconds(k->seconds / steps);
  g_autofree char *cut = g_utf8_substring(k->name, 0, MIN(g_utf8_strlen(k->name, -1), NAME_SHOWN));

  table_add(table, "%s", cut);
  table_add(table, "%s", k->kind);
  table_add(table, "%.4g", (double)k->count / steps);
  table_add(table, "%s", each);
  table_add(table, "%s", step);
  table_add(table, "%.1f %%", all > 0 ? 100 * k->seconds / all : 0);
}

static char *report(Reader *r)
{
  g_autoptr(Table) table = table_new("<kernel|<kind|a step|each|in a step|share");
  int steps = MAX(r->steps, 1);
  double all = 0;

  g_ptr_array_sort(r->kernels, longer);
  for (guint i = 0; i < r->kernels->len; i++)
    all += ((Kernel *)g_ptr_array_index(r->kernels, i))->seconds;
  for (guint i = 0; i < MIN(r->kernels->len, KERNELS_SHOWN); i++)
    add_row(table, g_ptr_array_index(r->kernels, i), steps, all);
  g_autofree char *rows = table_text(table, 0), *busy = format_seconds(all / steps);
  g_autofree char *step = r->steps ? format_seconds(r->step_s / r->steps) : g_strdup("not marked");
  return g_strdup_printf("steps   %d\nstep    %s\nkernels %s a step, %u different\n\n%s", r->steps, step, busy,
                         r->kernels->len, rows);
}

static char *read_trace(const char *text, ImportNotes *notes, GError **error)
{
  g_autoptr(JsonDoc) doc = json_parse(text, strlen(text), notes->file, error);
  const cJSON *events, *event;

  if (!doc)
    return NULL;
  events = cJSON_IsArray(json_root(doc)) ? json_root(doc) : json_get(json_root(doc), "traceEvents");
  if (!cJSON_IsArray(events))
    return import_error(notes, error, "traceEvents: expected an array of events");
  g_autoptr(GHashTable) by_name = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GPtrArray) kernels = g_ptr_array_new_with_free_func(kernel_free);
  Reader r = { .by_name = by_name, .kernels = kernels };
  cJSON_ArrayForEach(event, events)
    read_event(&r, event, notes);
  if (kernels->len == 0)
    return import_error(notes, error, "no kernel of a device: expected events with \"cat\": \"kernel\"");
  return report(&r);
}

const Importer import_kineto = { "Kineto trace", recognises, read_trace };
