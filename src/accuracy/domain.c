#include "accuracy/domain.h"

#include "base/units.h"

#include <math.h>
#include <string.h>

typedef struct {
  const char *value; /* interned or static */
  int runs;
} Seen;

/* Of runs of one device, format and software family, with experts or without. */
typedef struct {
  const char *group; /* interned */
  int runs;
  double most;
} Reached;

struct Domain {
  GArray *seen[KIND_NAMES]; /* Seen, by value */
  GArray *reached;          /* Reached, by group */
  double most[KIND_SIZES];
};

Domain *domain_new(void)
{
  Domain *d = g_new0(Domain, 1);

  for (int i = 0; i < KIND_NAMES; i++)
    d->seen[i] = g_array_new(FALSE, FALSE, sizeof(Seen));
  d->reached = g_array_new(FALSE, FALSE, sizeof(Reached));
  return d;
}

void domain_free(Domain *d)
{
  for (int i = 0; d && i < KIND_NAMES; i++)
    g_array_unref(d->seen[i]);
  if (d)
    g_array_unref(d->reached);
  g_free(d);
}

static void add_seen(GArray *all, const char *value, int runs)
{
  guint at = 0;

  while (at < all->len && strcmp(g_array_index(all, Seen, at).value, value) < 0)
    at++;
  if (at == all->len || !g_str_equal(g_array_index(all, Seen, at).value, value)) {
    Seen seen = { value, 0 };
    g_array_insert_val(all, at, seen);
  }
  g_array_index(all, Seen, at).runs += runs;
}

/* "megatron in bf16 on a100-sxm4-80gb", "megatron MoE in fp8 on h100-sxm5-80gb", interned. */
static const char *group_of(const RunKind *kind)
{
  g_autofree char *text = g_strdup_printf("%s%s in %s on %s", kind->names[KIND_ENGINE],
                                          kind->experts ? " MoE" : "", kind->names[KIND_FORMAT],
                                          kind->names[KIND_DEVICE]);
  return g_intern_string(text);
}

static Reached *find_reached(const Domain *d, const char *group)
{
  for (guint i = 0; i < d->reached->len; i++)
    if (g_str_equal(g_array_index(d->reached, Reached, i).group, group))
      return &g_array_index(d->reached, Reached, i);
  return NULL;
}

static void add_reached(Domain *d, const char *group, int runs, double mfu)
{
  Reached *found = find_reached(d, group);
  guint at = 0;

  if (!found) {
    Reached reached = { group, 0, 0 };
    while (at < d->reached->len && strcmp(g_array_index(d->reached, Reached, at).group, group) < 0)
      at++;
    g_array_insert_val(d->reached, at, reached);
    found = &g_array_index(d->reached, Reached, at);
  }
  found->runs += runs;
  found->most = MAX(found->most, mfu);
}

void domain_add(Domain *d, const RunKind *kind)
{
  add_reached(d, group_of(kind), 1, kind->mfu);
  for (int i = 0; i < KIND_NAMES; i++)
    if (kind->names[i])
      add_seen(d->seen[i], kind->names[i], 1);
  for (int i = 0; i < KIND_SIZES; i++)
    d->most[i] = MAX(d->most[i], kind->sizes[i]);
}

int domain_runs(const Domain *d, KindName name, const char *value)
{
  for (guint i = 0; i < d->seen[name]->len; i++)
    if (g_str_equal(g_array_index(d->seen[name], Seen, i).value, value))
      return g_array_index(d->seen[name], Seen, i).runs;
  return 0;
}

static char *size_text(KindSize size, double value)
{
  return size == KIND_PARAMS ? format_count(value) : g_strdup_printf("%.0f", value);
}

static void say_size(GString *s, KindSize size, double value, double most)
{
  g_autofree char *number = size_text(size, value), *limit = size_text(size, most);
  gboolean counted = size == KIND_GPUS || size >= KIND_SEQ;

  if (counted)
    g_string_append_printf(s, "%s %s", number, kind_size_titles[size]);
  else
    g_string_append_printf(s, "%s %s", kind_size_titles[size], number);
  g_string_append_printf(s, " (%s at most in published runs)", limit);
}

static void say_mfu(GString *s, const Domain *d, const RunKind *kind)
{
  const char *group = group_of(kind);
  const Reached *reached = find_reached(d, group);

  if (reached && reached->runs >= DOMAIN_RUNS_MIN && kind->mfu > reached->most)
    g_string_append_printf(s, "%sMFU without masked work %.1f %% (%.1f %% at most in %d published runs of %s)",
                           s->len ? ", " : "", 100 * kind->mfu, 100 * reached->most, reached->runs, group);
}

static gboolean is_rare(const Domain *d, const RunKind *kind, KindName name)
{
  return kind->names[name] && domain_runs(d, name, kind->names[name]) < DOMAIN_RUNS_MIN;
}

int domain_beyond(const Domain *d, const RunKind *kind)
{
  int beyond = 0;

  for (int i = 0; i < KIND_NAMES; i++)
    beyond += is_rare(d, kind, i);
  for (int i = 0; i < KIND_SIZES; i++)
    beyond += kind->sizes[i] > d->most[i];
  return beyond;
}

char *domain_outside(const Domain *d, const RunKind *kind)
{
  g_autoptr(GString) s = g_string_new(NULL);

  for (int i = 0; i < KIND_NAMES; i++) {
    if (!is_rare(d, kind, i))
      continue;
    int runs = domain_runs(d, i, kind->names[i]);
    g_string_append_printf(s, "%s%s %s", s->len ? ", " : "", kind_name_titles[i], kind->names[i]);
    if (runs == 0)
      g_string_append(s, " (no published run)");
    else
      g_string_append_printf(s, " (%d published run%s)", runs, runs == 1 ? "" : "s");
  }
  for (int i = 0; i < KIND_SIZES; i++)
    if (kind->sizes[i] > d->most[i]) {
      g_string_append(s, s->len ? ", " : "");
      say_size(s, i, kind->sizes[i], d->most[i]);
    }
  say_mfu(s, d, kind);
  return s->len ? g_string_free(g_steal_pointer(&s), FALSE) : NULL;
}

void domain_write(const Domain *d, JsonWriter *w)
{
  json_open(w, "names", '{');
  for (int i = 0; i < KIND_NAMES; i++) {
    if (d->seen[i]->len == 0)
      continue;
    json_open(w, kind_name_keys[i], '{');
    for (guint j = 0; j < d->seen[i]->len; j++)
      json_put_int(w, g_array_index(d->seen[i], Seen, j).value, g_array_index(d->seen[i], Seen, j).runs);
    json_close(w, '}');
  }
  json_close(w, '}');
  json_open(w, "sizes", '{');
  for (int i = 0; i < KIND_SIZES; i++)
    json_put_real(w, kind_size_keys[i], d->most[i]);
  json_close(w, '}');
  json_open(w, "mfu", '{');
  for (guint i = 0; i < d->reached->len; i++) {
    const Reached *reached = &g_array_index(d->reached, Reached, i);
    json_open(w, reached->group, '{');
    json_put_int(w, "runs", reached->runs);
    json_put_real(w, "most", round(reached->most * 1e4) / 1e4);
    json_close(w, '}');
  }
  json_close(w, '}');
}

static gboolean read_seen(const JsonDoc *doc, const cJSON *object, GArray *seen, GError **error)
{
  for (const cJSON *item = object->child; item; item = item->next) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 1 && item->valuedouble <= 1e9))
      return json_error(doc, item, error, "a number of runs");
    add_seen(seen, g_intern_string(item->string), (int)item->valuedouble);
  }
  return TRUE;
}

static gboolean read_sizes(const JsonDoc *doc, const cJSON *object, Domain *d, GError **error)
{
  JsonField fields[KIND_SIZES];

  for (int i = 0; i < KIND_SIZES; i++)
    fields[i] = (JsonField) { .key = kind_size_keys[i], .type = JSON_REAL, .required = TRUE, .min = 0, .max = 1e18,
                              .offset = G_STRUCT_OFFSET(Domain, most) + i * sizeof(double) };
  return json_read(doc, object, fields, KIND_SIZES, d, error);
}

static gboolean read_reached(const JsonDoc *doc, const cJSON *object, Domain *d, GError **error)
{
  static const JsonField fields[] = {
    { "runs", JSON_INT, G_STRUCT_OFFSET(Reached, runs), TRUE, 1, 1e9 },
    { "most", JSON_REAL, G_STRUCT_OFFSET(Reached, most), TRUE, 0, 1 },
  };

  for (const cJSON *item = object ? object->child : NULL; item; item = item->next) {
    Reached reached = { 0 };
    if (!json_read(doc, item, fields, G_N_ELEMENTS(fields), &reached, error))
      return FALSE;
    add_reached(d, g_intern_string(item->string), reached.runs, reached.most);
  }
  return TRUE;
}

Domain *domain_read(const JsonDoc *doc, const cJSON *object, GError **error)
{
  g_autoptr(Domain) d = domain_new();
  const cJSON *names = json_get_object(doc, object, "names", TRUE, error);
  const cJSON *sizes = names ? json_get_object(doc, object, "sizes", TRUE, error) : NULL;

  for (int i = 0; sizes && i < KIND_NAMES; i++) {
    if (!json_get(names, kind_name_keys[i])) /* no run has it */
      continue;
    const cJSON *seen = json_get_object(doc, names, kind_name_keys[i], TRUE, error);
    if (!seen || !read_seen(doc, seen, d->seen[i], error))
      return NULL;
  }
  if (!sizes || !read_sizes(doc, sizes, d, error))
    return NULL;
  const cJSON *reached = json_get_object(doc, object, "mfu", FALSE, error);
  if (!reached && json_get(object, "mfu"))
    return NULL;
  return read_reached(doc, reached, d, error) ? g_steal_pointer(&d) : NULL;
}
