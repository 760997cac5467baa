#include "validate/cells.h"

typedef struct {
  const char *column;
  gsize offset;
  int min, max;
} NumberColumn;

#define SIZE_MAX_ROW 100000000
#define COLUMN(name) { #name, G_STRUCT_OFFSET(CaseNumbers, name), 1, SIZE_MAX_ROW }

static const NumberColumn number_columns[] = {
  COLUMN(layers),       COLUMN(hidden), COLUMN(ffn_hidden), COLUMN(heads), COLUMN(kv_heads),
  COLUMN(seq),          COLUMN(vocab),  COLUMN(gpus),       COLUMN(tp),    COLUMN(pp),
  COLUMN(vpp),          COLUMN(dp),     COLUMN(cp),         COLUMN(ep),    COLUMN(etp),
  COLUMN(micro_batch),  COLUMN(global_batch),
  { "sp", G_STRUCT_OFFSET(CaseNumbers, sp), 0, 1 },
};

gboolean cells_not_one_of(const Csv *csv, int row, const char *column, const char *const *names, GError **error)
{
  g_autofree char *list = g_strjoinv(", ", (char **)names), *expected = g_strconcat("one of ", list, NULL);

  return csv_refuse(csv, row, column, expected, error);
}

const char *cells_optional(const Csv *csv, int row, const char *column)
{
  return csv_column(csv, column) < 0 ? "" : csv_cell(csv, row, column);
}

static gboolean read_number(const Csv *csv, int row, const NumberColumn *c, int *out, GError **error)
{
  *out = -1;
  if (!*cells_optional(csv, row, c->column))
    return TRUE;
  if (!csv_int(csv, row, c->column, out, error))
    return FALSE;
  if (*out >= c->min && *out <= c->max)
    return TRUE;
  g_autofree char *expected = g_strdup_printf("an integer from %d to %d", c->min, c->max);
  return csv_refuse(csv, row, c->column, expected, error);
}

gboolean cells_read_numbers(const Csv *csv, int row, CaseNumbers *n, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS(number_columns); i++)
    if (!read_number(csv, row, &number_columns[i], &G_STRUCT_MEMBER(int, n, number_columns[i].offset), error))
      return FALSE;
  return TRUE;
}

static gboolean read_graph(const Csv *csv, int row, Plan *out, GError **error)
{
  const char *cell = cells_optional(csv, row, "cuda_graph");
  CudaGraph graph;
  guint modules;

  if (!*cell)
    return TRUE;
  if (!recorded_parse(cell, &graph, &modules))
    return cells_not_one_of(csv, row, "cuda_graph", plan_key_of(KEY_GRAPH)->choices, error);
  plan_set_graph(out, graph);
  out->graph_modules = modules;
  return TRUE;
}

gboolean cells_read_key(const Csv *csv, int row, const PlanKey *key, PlanFile *out, GError **error)
{
  static const char *const switches[] = { "0", "1", NULL };
  const char *column = key->field.key, *cell = cells_optional(csv, row, column);
  const char *const *names = key->field.type == JSON_BOOL ? switches : key->field.names;
  const NumberColumn number = { column, 0, (int)key->field.min, (int)key->field.max };
  int found = names && *cell ? names_find(names, cell) : -1;

  if (key->id == KEY_GRAPH)
    return read_graph(csv, row, &out->plan, error);
  if (names && *cell && found < 0)
    return cells_not_one_of(csv, row, column, names, error);
  if (key->field.type == JSON_INT && !read_number(csv, row, &number, &found, error))
    return FALSE;
  if (found >= 0)
    G_STRUCT_MEMBER(int, out, key->field.offset) = found;
  return TRUE;
}
