/* Megatron's log: its arguments, the time of iterations and the memory of the
 * fullest rank, as one row of a case file. */
#include "base/units.h"
#include "import/case_row.h"
#include "import/megatron_row.h"

#include <string.h>

/* Columns of a case file that an argument fills as it stands. */
static const struct {
  const char *column, *argument;
} columns[] = {
  { "layers", "num_layers" }, { "hidden", "hidden_size" }, { "ffn_hidden", "ffn_hidden_size" },
  { "heads", "num_attention_heads" }, { "seq", "seq_length" }, { "vocab", "padded_vocab_size" },
  { "gpus", "world_size" }, { "tp", "tensor_model_parallel_size" }, { "pp", "pipeline_model_parallel_size" },
  { "vpp", "virtual_pipeline_model_parallel_size" }, { "dp", "data_parallel_size" }, { "cp", "context_parallel_size" },
  { "micro_batch", "micro_batch_size" }, { "global_batch", "global_batch_size" },
};

typedef struct {
  GHashTable *arguments; /* char * to char * */
  GArray *seconds;       /* double, of iterations */
  double allocated, reserved; /* bytes, the most of any rank */
  int batch;             /* of the last iteration line */
} Log;

static gboolean recognises(const char *text)
{
  return strstr(text, "elapsed time per iteration (ms):") != NULL;
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

  if (case_row_number(line, "elapsed time per iteration (ms)", &ms)) {
    double seconds = ms / 1e3;
    g_array_append_val(log->seconds, seconds);
    if (case_row_number(line, "global batch size", &batch) && batch < 1e9)
      log->batch = (int)batch;
    return TRUE;
  }
  if (case_row_number(line, "max allocated", &mb)) {
    log->allocated = MAX(log->allocated, mb * MIB); /* as Megatron calls them MB */
    known = TRUE;
  }
  if (case_row_number(line, "max reserved", &mb))
    log->reserved = MAX(log->reserved, mb * MIB);
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

/* Of all iterations but the first, which warms up. */
static double median_s(Log *log)
{
  if (log->seconds->len > 1)
    g_array_remove_index(log->seconds, 0);
  return case_row_median(log->seconds);
}

/* What stands under other names or several. */
static void set_derived(const Log *log, GHashTable *cells)
{
  const char *granularity = argument(log, "recompute_granularity");

  if (g_hash_table_size(log->arguments)) {
    case_row_set(cells, "mlp", "%s",
                 is_true(log, "swiglu") ? "swiglu" : is_true(log, "squared_relu") ? "relu2" : "gelu");
    case_row_set(cells, "recompute", "%s", *granularity ? granularity : "none");
  }
  if (is_true(log, "group_query_attention"))
    case_row_set(cells, "kv_heads", "%s", argument(log, "num_query_groups"));
  if (*argument(log, "sequence_parallel"))
    case_row_set(cells, "sp", "%d", is_true(log, "sequence_parallel") ? 1 : 0);
  if (*argument(log, "use_distributed_optimizer"))
    case_row_set(cells, "zero", "%d", is_true(log, "use_distributed_optimizer") ? 1 : 0);
  if (*argument(log, "params_dtype"))
    case_row_set(cells, "precision", "%s", is_true(log, "bf16") ? "bf16" : is_true(log, "fp16") ? "fp16" : "fp32");
}

static char *row_of(Log *log, const char *text, ImportNotes *notes)
{
  g_autoptr(GHashTable) cells = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);

  case_row_set(cells, "id", "imported");
  case_row_set(cells, "framework", "Megatron-LM");
  case_row_set(cells, "generation", "megatron-core");
  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++)
    case_row_set(cells, columns[i].column, "%s", argument(log, columns[i].argument));
  set_derived(log, cells);
  megatron_row_fill(text, cells, notes);
  if (log->batch)
    case_row_set(cells, "global_batch", "%d", log->batch);
  case_row_set(cells, "iteration_s", "%.6g", median_s(log));
  if (log->allocated > 0) {
    case_row_set(cells, "memory_gib", "%.4g", log->allocated / GIB);
    case_row_set(cells, "memory_kind", "max_allocated");
    if (log->reserved > 0)
      case_row_set(cells, "memory_reserved_gib", "%.4g", log->reserved / GIB);
  }
  return case_row_text(cells, notes);
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
  return row_of(&log, valid, notes);
}

const Importer import_megatron_log = { "Megatron log", recognises, read_log };
