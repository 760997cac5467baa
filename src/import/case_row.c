#include "import/case_row.h"

#include "base/csv.h"
#include "base/sort.h"

#include <math.h>
#include <string.h>

static const char *const columns_of_all[] = {
  "id", "sweep", "source", "framework", "generation", "model", "layers", "hidden", "ffn_hidden", "heads", "kv_heads",
  "seq", "vocab", "mlp", "attention", "cluster", "gpus", "tp", "sp", "pp", "vpp", "schedule", "dp", "cp", "zero",
  "micro_batch", "global_batch", "recompute", "precision", "shard_group", "layer_split", "overlap", "iteration_s",
  "memory_gib", "memory_kind", "note", NULL,
};

static gboolean is_needed(const char *column, gboolean file)
{
  static const char *const architecture[] = { "model", "layers", "hidden", "heads", "vocab", NULL };
  static const char *const needed[] = { "seq", "cluster", "gpus", "tp", "pp", "micro_batch", "global_batch",
                                        "precision", "iteration_s", "model_file", NULL };

  return g_strv_contains(needed, column) || (!file && g_strv_contains(architecture, column));
}

/* char *, owned by others. */
static GPtrArray *columns_of(GHashTable *cells)
{
  GPtrArray *further = g_ptr_array_new(), *all = g_ptr_array_new();
  GHashTableIter iter;
  gpointer column;

  for (int i = 0; columns_of_all[i]; i++)
    g_ptr_array_add(all, (gpointer)columns_of_all[i]);
  g_hash_table_iter_init(&iter, cells);
  while (g_hash_table_iter_next(&iter, &column, NULL))
    if (!g_strv_contains(columns_of_all, column))
      g_ptr_array_add(further, column);
  g_ptr_array_sort(further, sort_texts);
  g_ptr_array_extend_and_steal(all, further);
  return all;
}

char *case_row_text(GHashTable *cells, ImportNotes *notes)
{
  GString *text = g_string_new(NULL);
  g_autoptr(GString) untold = g_string_new(NULL);

  g_autoptr(GPtrArray) columns = columns_of(cells);
  gboolean file = g_hash_table_contains(cells, "model_file");

  for (guint i = 0; i < columns->len; i++)
    csv_put(text, columns->pdata[i], i + 1 == columns->len);
  for (guint i = 0; i < columns->len; i++) {
    const char *value = g_hash_table_lookup(cells, columns->pdata[i]);
    csv_put(text, value ? value : "", i + 1 == columns->len);
    if ((!value || !*value) && is_needed(columns->pdata[i], file))
      g_string_append_printf(untold, "%s%s", untold->len ? ", " : "", (const char *)columns->pdata[i]);
  }
  notes->untold = untold->len ? g_strdup(untold->str) : NULL;
  return g_string_free(text, FALSE);
}

void case_row_set(GHashTable *cells, const char *column, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  g_hash_table_replace(cells, g_strdup(column), g_strdup_vprintf(format, args));
  va_end(args);
}

double case_row_median(GArray *values)
{
  return sort_median((double *)(gpointer)values->data, values->len);
}

gboolean case_row_number(const char *line, const char *label, double *out)
{
  const char *at = strstr(line, label);
  char digits[32];
  gsize n = 0;
  char *end;

  if (!at)
    return FALSE;
  at += strlen(label);
  for (at += strspn(at, ": "); *at && strchr("0123456789.,+-eE", *at) && n < sizeof digits - 1; at++)
    if (*at != ',')
      digits[n++] = *at;
  digits[n] = '\0';
  double value = g_ascii_strtod(digits, &end);
  if (end == digits || !isfinite(value) || value <= 0)
    return FALSE;
  *out = value;
  return TRUE;
}
