/* Reading a block-sparse layout. */
#include "base/files.h"
#include "model/sparse.h"

#include <string.h>

const char *const sparse_mode_names[] = { "dense", "fixed", "variable", "bigbird", "bslongformer", "local", "layout",
                                          NULL };
static const char *const direction_names[] = { "bidirectional", "unidirectional", NULL };

#define BLOCKS_MAX 65536
#define WINDOWS_MAX 1024

#define FIELD(name) G_STRUCT_OFFSET(SparseAttention, name)
#define OF(mode) (1u << SPARSE_##mode)
#define ALL (~0u)

/* DeepSpeed's keys, and the kinds that have them. */
static const struct {
  JsonField field;
  guint modes;
} keys[] = {
  { { "mode", JSON_ENUM, FIELD(mode), .names = sparse_mode_names }, ALL },
  { { "block", JSON_INT, FIELD(block), FALSE, 1, 4096 }, ALL },
  { { "different_layout_per_head", JSON_BOOL, FIELD(per_head) }, ALL },
  { { "attention", JSON_ENUM, FIELD(unidirectional), .names = direction_names }, ALL & ~OF(DENSE) & ~OF(LAYOUT) },
  { { "num_local_blocks", JSON_INT, FIELD(local), FALSE, 1, BLOCKS_MAX }, OF(FIXED) },
  { { "num_global_blocks", JSON_INT, FIELD(global), FALSE, 1, BLOCKS_MAX }, OF(FIXED) | OF(BIGBIRD) },
  { { "num_different_global_patterns", JSON_INT, FIELD(patterns), FALSE, 1, BLOCKS_MAX }, OF(FIXED) },
  { { "horizontal_global_attention", JSON_BOOL, FIELD(horizontal) }, OF(FIXED) | OF(VARIABLE) },
  { { "num_random_blocks", JSON_INT, FIELD(random), FALSE, 0, BLOCKS_MAX }, OF(VARIABLE) | OF(BIGBIRD) },
  { { "num_sliding_window_blocks", JSON_INT, FIELD(sliding), FALSE, 1, BLOCKS_MAX },
    OF(BIGBIRD) | OF(BSLONGFORMER) | OF(LOCAL) },
  { { "local_window_blocks", JSON_ANY }, OF(VARIABLE) },
  { { "global_block_indices", JSON_ANY }, OF(VARIABLE) | OF(BSLONGFORMER) },
  { { "global_block_end_indices", JSON_ANY }, OF(VARIABLE) | OF(BSLONGFORMER) },
  { { "layout", JSON_ANY }, OF(LAYOUT) },
};

static gboolean read_keys(const JsonDoc *doc, const cJSON *object, SparseAttention *a, GError **error)
{
  JsonField fields[G_N_ELEMENTS(keys)];

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    fields[i] = keys[i].field;
  if (!json_read(doc, object, fields, G_N_ELEMENTS(fields), a, error))
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++) {
    const cJSON *item = json_get(object, keys[i].field.key);
    if (item && !(keys[i].modes >> a->mode & 1))
      return json_error(doc, item, error, "this key only in other modes than %s", sparse_mode_names[a->mode]);
  }
  return TRUE;
}

static gboolean check_fixed(const JsonDoc *doc, const cJSON *object, const SparseAttention *a, GError **error)
{
  const cJSON *patterns = json_get(object, "num_different_global_patterns");

  if (a->local % a->global != 0)
    return json_error(doc, object, error, "num_global_blocks %d to divide num_local_blocks %d", a->global, a->local);
  if (a->patterns > 1 && !a->per_head)
    return json_error(doc, patterns, error, "1, or different_layout_per_head true");
  if (a->patterns > a->local / a->global)
    return json_error(doc, patterns, error, "at most %d, the num_local_blocks over num_global_blocks",
                      a->local / a->global);
  return TRUE;
}

/* The list under a key, of at least one entry; `otherwise` alone where there is none. */
static int *read_list(const JsonDoc *doc, const cJSON *object, const char *key, int least, int otherwise, int *n,
                      GError **error)
{
  const cJSON *array = json_get(object, key);
  g_autofree int *list = g_new(int, WINDOWS_MAX);

  list[0] = otherwise;
  *n = array ? json_get_ints(doc, array, list, WINDOWS_MAX, least, BLOCKS_MAX, error) : 1;
  if (*n == 0)
    json_error(doc, array, error, "at least one number");
  return *n > 0 ? g_steal_pointer(&list) : NULL;
}

static gboolean read_ranges(const JsonDoc *doc, const cJSON *object, SparseAttention *a, GError **error)
{
  const cJSON *ends = json_get(object, "global_block_end_indices");
  int n = 0;

  a->first = read_list(doc, object, "global_block_indices", 0, 0, &a->n_ranges, error);
  if (!a->first)
    return FALSE;
  a->end = read_list(doc, object, "global_block_end_indices", 1, 1, &n, error);
  if (!a->end)
    return FALSE;
  if (ends && n != a->n_ranges)
    return json_error(doc, ends, error, "%d numbers, as many as global_block_indices", a->n_ranges);
  a->end = g_renew(int, a->end, a->n_ranges);
  for (int i = 0; i < a->n_ranges; i++) {
    a->end[i] = ends ? a->end[i] : a->first[i] + 1;
    if (a->end[i] <= a->first[i])
      return json_error(doc, cJSON_GetArrayItem(ends, i), error, "more than its start %d", a->first[i]);
  }
  return TRUE;
}

static gboolean check_rows(const JsonDoc *doc, const cJSON *item, char **rows, int n, GError **error)
{
  for (int i = 0; i < n; i++)
    if ((int)strlen(rows[i]) != n || (int)strspn(rows[i], "01") != n)
      return json_error(doc, item, error, "rows of 0 and 1, as many columns as rows (%d): row %d is \"%s\"", n, i,
                        rows[i]);
  return n > 0 && n <= BLOCKS_MAX / 16 ? TRUE : json_error(doc, item, error, "1 to %d rows", BLOCKS_MAX / 16);
}

/* The lines of a file, or an array of strings. */
static char **read_rows(const JsonDoc *doc, const cJSON *item, GError **error)
{
  const cJSON *row;
  gsize length;

  if (cJSON_IsString(item)) {
    g_autofree char *text = files_read(item->valuestring, &length, error);
    return text ? g_strsplit(g_strchomp(text), "\n", -1) : NULL;
  }
  if (!cJSON_IsArray(item)) {
    json_error(doc, item, error, "rows such as [\"10\", \"11\"], or the name of a file of such lines");
    return NULL;
  }
  g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func(g_free);
  cJSON_ArrayForEach(row, item) {
    if (!cJSON_IsString(row)) {
      json_error(doc, row, error, "a string of 0 and 1");
      return NULL;
    }
    g_ptr_array_add(rows, g_strdup(row->valuestring));
  }
  g_ptr_array_add(rows, NULL);
  return (char **)g_ptr_array_steal(rows, NULL);
}

static gboolean check_direction(const JsonDoc *doc, const cJSON *item, const SparseAttention *a, gboolean causal,
                                GError **error)
{
  for (int row = 0; causal && row < a->rows; row++)
    for (int c = row + 1; c < a->rows; c++)
      if (a->cells[(gsize)row * a->rows + c])
        return json_error(doc, item, error, "no 1 behind the diagonal in a causal model, row %d has one", row);
  return TRUE;
}

static gboolean read_layout(const JsonDoc *doc, const cJSON *object, SparseAttention *a, gboolean causal,
                            GError **error)
{
  const cJSON *item = json_get(object, "layout");

  if (!item)
    return json_error(doc, object, error, "the key layout beside mode layout");
  g_auto(GStrv) rows = read_rows(doc, item, error);
  int n = rows ? (int)g_strv_length(rows) : 0;
  if (!rows || !check_rows(doc, item, rows, n, error))
    return FALSE;
  a->rows = n;
  a->cells = g_new(guint8, (gsize)n * n);
  for (int i = 0; i < n * n; i++)
    a->cells[i] = rows[i / n][i % n] == '1';
  return check_direction(doc, item, a, causal, error);
}

static gboolean read_lists(const JsonDoc *doc, const cJSON *object, SparseAttention *a, gboolean causal, GError **error)
{
  if (a->mode == SPARSE_LAYOUT)
    return read_layout(doc, object, a, causal, error);
  if (a->mode == SPARSE_VARIABLE &&
      !(a->windows = read_list(doc, object, "local_window_blocks", 1, 4, &a->n_windows, error)))
    return FALSE;
  return (a->mode != SPARSE_VARIABLE && a->mode != SPARSE_BSLONGFORMER) || read_ranges(doc, object, a, error);
}

static gboolean check_keys(const JsonDoc *doc, const cJSON *object, const SparseAttention *a, gboolean causal,
                           GError **error)
{
  if (causal && !a->unidirectional)
    return json_error(doc, json_get(object, "attention"), error, "unidirectional in a causal model");
  if (a->horizontal && a->unidirectional)
    return json_error(doc, json_get(object, "horizontal_global_attention"), error, "false, or attention bidirectional");
  return a->mode != SPARSE_FIXED || check_fixed(doc, object, a, error);
}

SparseAttention *sparse_read(const JsonDoc *doc, const cJSON *object, gboolean causal, GError **error)
{
  g_autoptr(SparseAttention) a = g_new(SparseAttention, 1);

  *a = (SparseAttention) { .mode = SPARSE_FIXED, .block = 16, .local = 4, .global = 1, .patterns = 1, .random = -1,
                           .sliding = 3, .unidirectional = causal };
  if (!cJSON_IsObject(object)) {
    json_error(doc, object, error, "an object with the keys of DeepSpeed's sparse_attention");
    return NULL;
  }
  if (!read_keys(doc, object, a, error) || !check_keys(doc, object, a, causal, error))
    return NULL;
  gboolean both_ways = a->mode == SPARSE_BIGBIRD || a->mode == SPARSE_BSLONGFORMER;
  if (a->random < 0)
    a->random = a->mode == SPARSE_BIGBIRD;
  if (!both_ways && a->mode != SPARSE_LOCAL)
    a->sliding = 0;
  a->horizontal |= both_ways;
  return read_lists(doc, object, a, causal, error) ? g_steal_pointer(&a) : NULL;
}
