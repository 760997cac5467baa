/* Megatron's log: its arguments, the time of iterations and the memory of the
 * fullest rank, as one row of a case file. */
#include "base/csv.h"
#include "interop/import.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEGATRON_MB (1024.0 * 1024.0)
#define GIB (1024.0 * 1024.0 * 1024.0)

/* Columns of a case file, and the argument that fills each as it stands. */
static const struct {
  const char *column, *argument;
} columns[] = {
  { "id", NULL }, { "sweep", NULL }, { "source", NULL }, { "framework", NULL }, { "generation", NULL }, { "model", NULL },
  { "layers", "num_layers" }, { "hidden", "hidden_size" }, { "ffn_hidden", "ffn_hidden_size" },
  { "heads", "num_attention_heads" }, { "kv_heads", NULL }, { "seq", "seq_length" }, { "vocab", "padded_vocab_size" },
  { "mlp", NULL }, { "attention", NULL }, { "cluster", NULL }, { "gpus", "world_size" },
  { "tp", "tensor_model_parallel_size" }, { "sp", NULL }, { "pp", "pipeline_model_parallel_size" },
  { "vpp", "virtual_pipeline_model_parallel_size" }, { "schedule", NULL }, { "dp", "data_parallel_size" },
  { "cp", "context_parallel_size" }, { "zero", NULL }, { "micro_batch", "micro_batch_size" },
  { "global_batch", "global_batch_size" }, { "recompute", NULL }, { "precision", NULL }, { "shard_group", NULL },
  { "layer_split", NULL }, { "overlap", NULL }, { "iteration_s", NULL }, { "memory_gib", NULL }, { "memory_kind", NULL },
  { "note", NULL },
};

typedef struct {
  GHashTable *arguments; /* char * to char * */
  GArray *seconds;       /* double, of iterations */
  double allocated;      /* bytes, the most of any rank */
  int batch;             /* of the last iteration line */
} Log;

static gboolean recognises(const char *text)
{
  return strstr(text, "elapsed time per iteration (ms):") != NULL;
}

/* The number behind a label; FALSE if it is not in the line. */
static gboolean number_behind(const char *line, const char *label, double *out)
{
  const char *at = strstr(line, label);
  char *end;

  if (!at)
    return FALSE;
  at += strlen(label);
  at += strspn(at, ": ");
  double value = g_ascii_strtod(at, &end);
  if (end == at || !isfinite(value) || value <= 0)
    return FALSE;
  *out = value;
  return TRUE;
}

/* "  num_layers ...................................... 24" */
static gboolean read_argument(Log *log, char *line)
{
  char *dots = strstr(line, " ...");
  char *name = g_strstrip(line);

  if (!dots)
    return FALSE;
  char *value = dots + 1 + strspn(dots + 1, ".");
  *dots = '\0';
  name = strrchr(name, ' ') ? strrchr(name, ' ') + 1 : name;
  g_hash_table_replace(log->arguments, g_strdup(name), g_strdup(g_strstrip(value)));
  return TRUE;
}

static gboolean read_line(Log *log, char *line)
{
  double ms, mb, batch;
  gboolean known = FALSE;

  if (number_behind(line, "elapsed time per iteration (ms)", &ms)) {
    double seconds = ms / 1e3;
    g_array_append_val(log->seconds, seconds);
    if (number_behind(line, "global batch size", &batch) && batch < 1e9)
      log->batch = (int)batch;
    return TRUE;
  }
  if (number_behind(line, "max allocated", &mb)) {
    log->allocated = MAX(log->allocated, mb * MEGATRON_MB);
    known = TRUE;
  }
  return known || read_argument(log, line);
}

static const char *argument(const Log *log, const char *name)
{
  const char *value = g_hash_table_lookup(log->arguments, name);
  return value && !g_str_equal(value, "None") ? value : "";
}

static gboolean is_true(const Log *log, const char *name)
{
  return g_str_equal(argument(log, name), "True");
}

static int compare(gconstpointer a, gconstpointer b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Of all iterations but the first, which warms up. */
static double median_s(Log *log)
{
  if (log->seconds->len > 1)
    g_array_remove_index(log->seconds, 0);
  g_array_sort(log->seconds, compare);
  return g_array_index(log->seconds, double, log->seconds->len / 2);
}

/* What stands under other names or several; NULL: by the table, or unknown. */
static char *derived(Log *log, const char *column)
{
  if (g_str_equal(column, "id"))
    return g_strdup("imported");
  if (g_str_equal(column, "framework") || g_str_equal(column, "generation"))
    return g_strdup(g_str_equal(column, "framework") ? "Megatron-LM" : "megatron-core");
  if (g_str_equal(column, "mlp") && g_hash_table_size(log->arguments))
    return g_strdup(is_true(log, "swiglu") ? "swiglu" : is_true(log, "squared_relu") ? "relu2" : "gelu");
  if (g_str_equal(column, "kv_heads") && is_true(log, "group_query_attention"))
    return g_strdup(argument(log, "num_query_groups"));
  if (g_str_equal(column, "sp") && *argument(log, "sequence_parallel"))
    return g_strdup(is_true(log, "sequence_parallel") ? "1" : "0");
  if (g_str_equal(column, "zero") && *argument(log, "use_distributed_optimizer"))
    return g_strdup(is_true(log, "use_distributed_optimizer") ? "1" : "0");
  if (g_str_equal(column, "recompute") && g_hash_table_size(log->arguments))
    return g_strdup(*argument(log, "recompute_granularity") ? argument(log, "recompute_granularity") : "none");
  if (g_str_equal(column, "precision") && *argument(log, "params_dtype"))
    return g_strdup(is_true(log, "bf16") ? "bf16" : is_true(log, "fp16") ? "fp16" : "fp32");
  if (g_str_equal(column, "global_batch") && log->batch)
    return g_strdup_printf("%d", log->batch);
  if (g_str_equal(column, "iteration_s"))
    return g_strdup_printf("%.6g", median_s(log));
  if (log->allocated > 0 && g_str_equal(column, "memory_gib"))
    return g_strdup_printf("%.4g", log->allocated / GIB);
  if (log->allocated > 0 && g_str_equal(column, "memory_kind"))
    return g_strdup("max_allocated");
  return NULL;
}

/* Without which a row is no run that could be simulated. */
static gboolean is_needed(const char *column)
{
  static const char *const needed[] = { "model", "layers", "hidden", "heads", "seq", "vocab", "cluster", "gpus", "tp",
                                        "pp", "micro_batch", "global_batch", "precision", NULL };
  return g_strv_contains(needed, column);
}

static char *row_of(Log *log, ImportNotes *notes)
{
  GString *text = g_string_new(NULL);
  g_autoptr(GString) untold = g_string_new(NULL);
  gsize n = G_N_ELEMENTS(columns);

  for (gsize i = 0; i < n; i++)
    csv_put(text, columns[i].column, i == n - 1);
  for (gsize i = 0; i < n; i++) {
    g_autofree char *cell = derived(log, columns[i].column);
    const char *value = cell ? cell : columns[i].argument ? argument(log, columns[i].argument) : "";
    csv_put(text, value, i == n - 1);
    if (!*value && is_needed(columns[i].column))
      g_string_append_printf(untold, "%s%s", untold->len ? ", " : "", columns[i].column);
  }
  notes->untold = untold->len ? g_strdup(untold->str) : NULL;
  return g_string_free(text, FALSE);
}

static char *read_log(const char *text, ImportNotes *notes, GError **error)
{
  g_autofree char *valid = g_utf8_make_valid(text, -1);
  g_auto(GStrv) lines = g_strsplit(valid, "\n", -1);
  g_autoptr(GHashTable) arguments = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  g_autoptr(GArray) seconds = g_array_new(FALSE, FALSE, sizeof(double));
  Log log = { .arguments = arguments, .seconds = seconds };

  for (int i = 0; lines[i]; i++) {
    g_autofree char *kept = g_strdup(lines[i]);
    if (*g_strstrip(lines[i]) && !read_line(&log, lines[i]))
      import_strange(notes, kept);
  }
  if (seconds->len == 0)
    return import_error(notes, error,
                        "no iteration with its time: expected \"elapsed time per iteration (ms): 123.4\"");
  return row_of(&log, notes);
}

const Importer import_megatron_log = { "Megatron log", recognises, read_log };
