#include "import/case_row.h"

#include "base/csv.h"

const char *const case_row_columns[] = {
  "id", "sweep", "source", "framework", "generation", "model", "layers", "hidden", "ffn_hidden", "heads", "kv_heads",
  "seq", "vocab", "mlp", "attention", "cluster", "gpus", "tp", "sp", "pp", "vpp", "schedule", "dp", "cp", "zero",
  "micro_batch", "global_batch", "recompute", "precision", "shard_group", "layer_split", "overlap", "iteration_s",
  "memory_gib", "memory_kind", "note", NULL,
};

static gboolean is_needed(const char *column)
{
  static const char *const needed[] = { "model", "layers", "hidden", "heads", "seq", "vocab", "cluster", "gpus", "tp",
                                        "pp", "micro_batch", "global_batch", "precision", "iteration_s", NULL };
  return g_strv_contains(needed, column);
}

char *case_row_text(GHashTable *cells, ImportNotes *notes)
{
  GString *text = g_string_new(NULL);
  g_autoptr(GString) untold = g_string_new(NULL);

  for (int i = 0; case_row_columns[i]; i++)
    csv_put(text, case_row_columns[i], !case_row_columns[i + 1]);
  for (int i = 0; case_row_columns[i]; i++) {
    const char *value = g_hash_table_lookup(cells, case_row_columns[i]);
    csv_put(text, value ? value : "", !case_row_columns[i + 1]);
    if ((!value || !*value) && is_needed(case_row_columns[i]))
      g_string_append_printf(untold, "%s%s", untold->len ? ", " : "", case_row_columns[i]);
  }
  notes->untold = untold->len ? g_strdup(untold->str) : NULL;
  return g_string_free(text, FALSE);
}

void case_row_set(GHashTable *cells, const char *column, const char *format, ...)
{
  va_list args;

  g_assert(g_strv_contains(case_row_columns, column));
  va_start(args, format);
  g_hash_table_replace(cells, g_strdup(column), g_strdup_vprintf(format, args));
  va_end(args);
}

static int compare(gconstpointer a, gconstpointer b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double case_row_median(GArray *values)
{
  g_array_sort(values, compare);
  return g_array_index(values, double, values->len / 2);
}
