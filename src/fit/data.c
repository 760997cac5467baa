#include "fit/data.h"

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

static gboolean is(const Csv *csv, int row, const char *column, const char *value)
{
  return strcmp(csv_cell(csv, row, column), value) == 0;
}

gboolean data_reals(const Csv *csv, int row, const char *const *columns, double *out, GError **error)
{
  for (int i = 0; columns[i]; i++) {
    gboolean time = strcmp(columns[i], "time_us") == 0;
    out[i] = NAN;
    if (!csv_real(csv, row, columns[i], &out[i], error))
      return FALSE;
    if (isnan(out[i]) || (time && out[i] <= 0))
      return csv_refuse(csv, row, columns[i], time ? "a time above 0" : "a number", error);
  }
  return TRUE;
}

/* The array if it has rows. */
static GArray *some(GArray *rows, const Csv *csv, const char *what, GError **error)
{
  if (rows->len)
    return rows;
  input_error(error, "%s: no rows of %s", csv->name, what);
  g_array_unref(rows);
  return NULL;
}

GArray *data_matmul(const Csv *csv, const char *gpu, const char *dtype, GError **error)
{
  static const char *const columns[] = {"m", "n", "k", "time_us", NULL};
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(MatmulRow));
  int format = names_find(dtype_names, dtype);
  for (int i = 0; format >= 0 && i < (int)csv->rows->len; i++) {
    double x[4];
    if (!is(csv, i, "gpu", gpu) || !is(csv, i, "dtype", dtype))
      continue;
    if (!data_reals(csv, i, columns, x, error))
      return NULL;
    MatmulRow row = {.shape = {.m = x[0], .n = x[1], .k = x[2], .batch = 1, .dtype = (DType)format},
                     .seconds = x[3] * US,
                     .quantized = format == DTYPE_FP8 ? x[0] * x[2] : 0,
                     .check = fit_is_check(x, 3)};
    g_array_append_val(rows, row);
  }
  return some(g_steal_pointer(&rows), csv, gpu, error);
}

GArray *data_unaligned(const Csv *csv, const char *gpu, GError **error)
{
  static const char *const columns[] = {"batch", "m", "n", "k", "time_us", NULL};
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(MatmulRow));
  for (int i = 0; i < (int)csv->rows->len; i++) {
    double x[5];
    if (!is(csv, i, "gpu", gpu))
      continue;
    if (!data_reals(csv, i, columns, x, error))
      return NULL;
    MatmulRow row = {.shape = {.batch = x[0], .m = x[1], .n = x[2], .k = x[3], .dtype = DTYPE_FP16,
                               .activations = is(csv, i, "factors", "activations")},
                     .seconds = x[4] * US, .check = fit_is_check(x, 4)};
    if (!row.shape.activations && !is(csv, i, "factors", "weights"))
      return csv_refuse(csv, i, "factors", "weights or activations", error), NULL;
    if (matmul_alignment(&row.shape) == ALIGNED_FULLY)
      return csv_refuse(csv, i, "k", "rows that do not start at 16 bytes", error), NULL;
    g_array_append_val(rows, row);
  }
  return some(g_steal_pointer(&rows), csv, gpu, error);
}

GArray *data_library(const Csv *csv, const char *gpu, GError **error)
{
  static const char *const columns[] = {"calls", "m", "n", "k", "added", "time_us", NULL};
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(MatmulRow));
  for (int i = 0; i < (int)csv->rows->len; i++) {
    double x[6];
    if (!is(csv, i, "gpu", gpu))
      continue;
    if (!data_reals(csv, i, columns, x, error))
      return NULL;
    MatmulRow row = {.shape = {.batch = x[0], .m = x[1], .n = x[2], .k = x[3], .dtype = DTYPE_BF16,
                               .accumulate_bytes = x[0] * x[1] * x[2] * x[4], .calls = x[0] > 1 ? x[0] : 0},
                     .seconds = x[5] * US, .check = fit_is_check(x, 5)};
    g_array_append_val(rows, row);
  }
  return some(g_steal_pointer(&rows), csv, gpu, error);
}

/* ---- attention ---- */

typedef enum { PASS_FORWARD, PASS_BACKWARD, PASS_BOTH } Pass;
static const char *const pass_names[] = {"forward", "backward", "both", NULL};

static gboolean read_attention(const Csv *csv, int i, AttentionRow *row, Pass *pass, GError **error)
{
  static const char *const columns[] = {"causal", "head_dim", "heads", "kv_heads", "batch", "seq", "time_us", NULL};
  double x[7];
  int p = names_find(pass_names, csv_cell(csv, i, "pass")),
      kernel = names_find(attention_kernel_names, csv_cell(csv, i, "kernel")),
      dtype = names_find(dtype_names, csv_cell(csv, i, "dtype"));
  if (p < 0)
    return csv_refuse(csv, i, "pass", "forward, backward or both", error);
  if (kernel < 0)
    return csv_refuse(csv, i, "kernel", "flash1, flash or flash3", error);
  if (dtype < 0)
    return csv_refuse(csv, i, "dtype", "bf16 or fp8", error);
  if (!data_reals(csv, i, columns, x, error))
    return FALSE;
  *pass = (Pass)p;
  *row = (AttentionRow){
    .work = {.batch = x[4], .heads = x[2], .q_len = x[5], .kv_len = x[5], .head_dim = (int)x[1],
             .v_head_dim = (int)x[1], .causal = x[0] != 0, .backward = p == PASS_BACKWARD,
             .kernel = (AttentionKernel)kernel, .dtype = (DType)dtype},
    .seconds = x[6] * US,
    .check = fit_is_check(x, 6),
  };
  if (is(csv, i, "source", "server"))
    row->cache_bytes = 2 * x[3] * x[1] * x[4] * x[5] * dtype_bytes[DTYPE_BF16];
  else if (is(csv, i, "source", "flash-attention"))
    row->check = FALSE; /* one row a point */
  return TRUE;
}

/* Rows of one GPU and pass. */
static GArray *attention_pass(const Csv *csv, const char *source, const char *gpu, const char *kernel, Pass pass,
                              GError **error)
{
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(AttentionRow));
  for (int i = 0; i < (int)csv->rows->len; i++) {
    AttentionRow row;
    Pass of = pass;
    if (!is(csv, i, "source", source) || !is(csv, i, "gpu", gpu) || !is(csv, i, "kernel", kernel))
      continue;
    if (!read_attention(csv, i, &row, &of, error))
      return NULL;
    if (of == pass)
      g_array_append_val(rows, row);
  }
  return g_steal_pointer(&rows);
}

/* Seconds of the row with the same shape, 0 if there is none. */
static double seconds_of(const GArray *rows, const AttentionWork *work)
{
  for (guint i = 0; rows && i < rows->len; i++) {
    const AttentionRow *row = &g_array_index(rows, AttentionRow, i);
    if (row->work.causal == work->causal && row->work.head_dim == work->head_dim && row->work.q_len == work->q_len &&
        row->work.batch == work->batch && row->work.heads == work->heads)
      return row->seconds;
  }
  return 0;
}

static void split_passes(GArray *rows, const GArray *both, const GArray *split_forward, const GArray *split_both)
{
  guint n_forward = rows->len;
  for (guint i = 0; i < both->len; i++) {
    AttentionRow row = g_array_index(both, AttentionRow, i);
    double total = row.seconds, forward = seconds_of(rows, &row.work), whole = seconds_of(split_both, &row.work);
    gboolean measured = forward > 0 && n_forward > 0;
    if (!measured && whole > 0)
      forward = total * seconds_of(split_forward, &row.work) / whole;
    if (!(forward > 0 && forward < total))
      continue;
    row.seconds = forward;
    if (!measured)
      g_array_append_val(rows, row);
    row.seconds = total - forward;
    row.work.backward = TRUE;
    g_array_append_val(rows, row);
  }
}

GArray *data_attention(const Csv *csv, const char *source, const char *gpu, const char *kernel, const char *split,
                       GError **error)
{
  /* nobody published the passes of FlashAttention-1 apart */
  gboolean first = strcmp(kernel, attention_kernel_names[ATTENTION_FLASH1]) == 0;
  const char *like = first ? attention_kernel_names[ATTENTION_FLASH] : kernel;
  g_autoptr(GArray) rows = attention_pass(csv, source, gpu, kernel, PASS_FORWARD, error);
  g_autoptr(GArray) both = rows ? attention_pass(csv, source, gpu, kernel, PASS_BOTH, error) : NULL;
  g_autoptr(GArray) split_forward = both ? attention_pass(csv, source, split, like, PASS_FORWARD, error) : NULL;
  g_autoptr(GArray) split_both = split_forward ? attention_pass(csv, source, split, like, PASS_BOTH, error) : NULL;
  g_autoptr(GArray) backward = split_both ? attention_pass(csv, source, gpu, kernel, PASS_BACKWARD, error) : NULL;
  if (!backward)
    return NULL;
  split_passes(rows, both, split_forward, split_both);
  g_array_append_vals(rows, backward->data, backward->len);
  return some(g_steal_pointer(&rows), csv, gpu, error);
}

/* ---- collectives ---- */

static Cluster *find_cluster(GPtrArray *clusters, guint first, const char *server, int nodes, GError **error)
{
  for (guint i = first; i < clusters->len; i++) {
    Cluster *cluster = g_ptr_array_index(clusters, i);
    if (cluster->nodes == nodes)
      return cluster;
  }
  Cluster *cluster = cluster_of_server(server, nodes, error);
  if (cluster)
    g_ptr_array_add(clusters, cluster);
  return cluster;
}

/* Curves count alike: each row by one over its curve's rows. */
static void weigh(GArray *rows, guint first)
{
  for (guint i = first; i < rows->len; i++) {
    CollectiveRow *row = &g_array_index(rows, CollectiveRow, i);
    int n = 0;
    for (guint j = first; j < rows->len; j++) {
      const CollectiveRow *other = &g_array_index(rows, CollectiveRow, j);
      n += other->collective == row->collective && other->cluster == row->cluster &&
           other->group.size == row->group.size;
    }
    row->weight = 1.0 / n;
  }
}

gboolean data_collectives(const Csv *csv, const char *source, const char *server, GPtrArray *clusters, GArray *rows,
                          GError **error)
{
  static const char *const columns[] = {"nodes", "ranks", "bytes", "time_us", NULL};
  guint first_cluster = clusters->len, first = rows->len;
  for (int i = 0; i < (int)csv->rows->len; i++) {
    double x[4];
    int collective = names_find(collective_names, csv_cell(csv, i, "collective"));
    if (!is(csv, i, "source", source) || collective < 0)
      continue;
    if (!data_reals(csv, i, columns, x, error))
      return FALSE;
    int nodes = (int)x[0], ranks = (int)x[1];
    Cluster *cluster = find_cluster(clusters, first_cluster, server, nodes, error);
    if (!cluster)
      return FALSE;
    if (ranks > cluster->devices || (nodes > 1 && ranks % nodes))
      return csv_refuse(csv, i, "ranks", "as many on each node, and no more than its devices", error);
    int stride = nodes > 1 ? cluster->devices / ranks : 1;
    double key[] = {collective, nodes, ranks, x[2]};
    CollectiveRow row = {(Collective)collective, cluster, group_shape(cluster, ranks, stride), x[2], x[3] * US, 1,
                         fit_is_check(key, 4)};
    g_array_append_val(rows, row);
  }
  weigh(rows, first);
  if (rows->len == first)
    return input_error(error, "%s: no rows of %s", csv->name, source);
  return TRUE;
}
