/* torchtitan's log: the speed and memory of its steps, the mesh of its devices and
 * what was applied to the model, as one row of a case file. A step's time is its
 * tokens over the tokens a second of a device (tps, wps in 2024), where the log says
 * batch, sequence and mesh; else from the times at which one rank printed. */
#include "import/case_row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { MESH_PP, MESH_REPLICATE, MESH_SHARD, MESH_CP, MESH_TP, MESH_COUNT } Mesh;

static const struct {
  const char *name;
  Mesh axis;
} mesh_names[] = {
  { "pp", MESH_PP }, { "dp_replicate", MESH_REPLICATE }, { "dp_shard", MESH_SHARD }, { "dp", MESH_SHARD },
  { "cp", MESH_CP }, { "tp", MESH_TP },
};

/* What lines say by their words, and the column that it fills. */
static const struct {
  const char *words, *column, *value;
} applied[] = {
  { "Applied selective activation checkpointing", "recompute", "selective" },
  { "Applied full activation checkpointing", "recompute", "full" },
  { "Applied FSDP to the model", "zero", "3" },
  { "Applied HSDP to the model", "zero", "hsdp" },
  { "Applied DDP to the model", "zero", "0" },
};

typedef struct {
  GHashTable *cells;
  GArray *rates, *first;   /* double: tokens a second of a device; of step 1 */
  GArray *seconds;         /* double: of steps, by the clock */
  int degree[MESH_COUNT];  /* 0 = no mesh was told */
  double local_batch, global_batch, seq, memory_gib;
  GString *note;
  char *rank;              /* the start of the lines of the rank whose clock is read */
  double last_step, last_s;
} Log;

static gboolean recognises(const char *text)
{
  return strstr(text, "step:") && strstr(text, "loss:") && (strstr(text, "tps:") || strstr(text, "wps:"));
}

/* Seconds within a month of "2026-01-31 10:00:00,123" in the line; FALSE if it has none. */
static gboolean clock_of(const char *line, double *out)
{
  int day, hour, minute, second, ms;

  for (const char *at = line; (at = strchr(at, '-')); at++)
    if (sscanf(at, "-%*2d-%2d %2d:%2d:%2d,%3d", &day, &hour, &minute, &second, &ms) == 5) {
      *out = ((day * 24 + hour) * 60 + minute) * 60 + second + ms / 1e3;
      return TRUE;
    }
  return FALSE;
}

/* Seconds a step since the last line of the same rank. */
static void read_clock(Log *log, const char *line, double step)
{
  gsize head = strcspn(line, " ");
  double now;

  if (!clock_of(line, &now))
    return;
  if (!log->rank)
    log->rank = g_strndup(line, head);
  if (strncmp(line, log->rank, strlen(log->rank)) != 0 || step <= log->last_step)
    return;
  if (log->last_step > 0 && now > log->last_s) {
    double each = (now - log->last_s) / (step - log->last_step);
    g_array_append_val(log->seconds, each);
  }
  log->last_step = step;
  log->last_s = now;
}

/* Step 1 warms up: it counts if there is no other. */
static gboolean read_step(Log *log, const char *line)
{
  double step, rate, memory;

  if (!case_row_number(line, "step:", &step) || !strstr(line, "loss:"))
    return FALSE;
  if (!case_row_number(line, "tps:", &rate) && !case_row_number(line, "wps:", &rate))
    return FALSE;
  if (case_row_number(line, "memory:", &memory) && memory < 1e6)
    log->memory_gib = MAX(log->memory_gib, memory);
  read_clock(log, line, step);
  g_array_append_val(step > 1 ? log->rates : log->first, rate);
  return TRUE;
}

/* "Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]" */
static gboolean read_mesh(Log *log, const char *line)
{
  const char *names = strstr(line, "device mesh with ["), *names_end = names ? strchr(names, ']') : NULL;
  const char *sizes = names_end ? strchr(names_end, '[') : NULL;
  int degree[MESH_COUNT] = { 1, 1, 1, 1, 1 };
  double devices = 1;

  if (!sizes)
    return FALSE;
  g_autofree char *all = g_strndup(names, names_end - names);
  g_auto(GStrv) quoted = g_strsplit(all, "'", -1), numbers = g_strsplit_set(sizes + 1, ",]", -1);
  for (guint i = 1, k = 0; i < g_strv_length(quoted); i += 2, k++) {
    int size = k < g_strv_length(numbers) ? atoi(numbers[k]) : 0;
    gsize axis = 0;
    while (axis < G_N_ELEMENTS(mesh_names) && !g_str_equal(mesh_names[axis].name, quoted[i]))
      axis++;
    if (axis == G_N_ELEMENTS(mesh_names) || size < 1 || size > 1 << 20)
      return FALSE;
    degree[mesh_names[axis].axis] = size;
    devices *= size;
  }
  if (devices > 1 << 24)
    return FALSE;
  memcpy(log->degree, degree, sizeof degree);
  return TRUE;
}

/* "Training starts at step 1, with local batch size 1, global batch size 8, sequence length 8192 ..." */
static gboolean read_start(Log *log, const char *line)
{
  if (!strstr(line, "Training starts at step"))
    return FALSE;
  case_row_number(line, "local batch size", &log->local_batch);
  case_row_number(line, "global batch size", &log->global_batch);
  case_row_number(line, "sequence length", &log->seq);
  return TRUE;
}

/* "Model llama3 8B size: 8,030,261,248 total parameters", "CUDA capacity: NVIDIA H100 with 95.00GiB memory" */
static gboolean read_note(Log *log, const char *line)
{
  const char *model = strstr(line, "Model "), *capacity = strstr(line, "CUDA capacity: ");
  const char *what = model && strstr(model, "total parameters") ? model : capacity;

  if (!what)
    return FALSE;
  if (!strstr(log->note->str, what))
    g_string_append_printf(log->note, "%s%s", log->note->len ? "; " : "", what);
  return TRUE;
}

static gboolean read_applied(Log *log, const char *line)
{
  for (gsize i = 0; i < G_N_ELEMENTS(applied); i++)
    if (strstr(line, applied[i].words)) {
      case_row_set(log->cells, applied[i].column, "%s", applied[i].value);
      return TRUE;
    }
  return FALSE;
}

static gboolean read_line(Log *log, const char *line)
{
  return read_step(log, line) || read_mesh(log, line) || read_start(log, line) || read_note(log, line) ||
         read_applied(log, line);
}

static void set_mesh(const Log *log)
{
  const int *d = log->degree;
  GHashTable *cells = log->cells;

  case_row_set(cells, "gpus", "%d", d[MESH_PP] * d[MESH_REPLICATE] * d[MESH_SHARD] * d[MESH_CP] * d[MESH_TP]);
  case_row_set(cells, "tp", "%d", d[MESH_TP]);
  case_row_set(cells, "sp", "%d", d[MESH_TP] > 1); /* its tensor parallelism shards the sequence */
  case_row_set(cells, "pp", "%d", d[MESH_PP]);
  case_row_set(cells, "dp", "%d", d[MESH_REPLICATE] * d[MESH_SHARD]);
  case_row_set(cells, "cp", "%d", d[MESH_CP]);
  if (d[MESH_REPLICATE] > 1 && d[MESH_SHARD] > 1)
    case_row_set(cells, "shard_group", "%d", d[MESH_SHARD] * d[MESH_CP]);
}

/* Seconds of a step, 0 = not told. */
static double step_s(Log *log)
{
  GArray *rates = log->rates->len ? log->rates : log->first;
  const char *gpus = g_hash_table_lookup(log->cells, "gpus");

  if (gpus && log->global_batch > 0 && log->seq > 0)
    return log->global_batch * log->seq / (case_row_median(rates) * atoi(gpus));
  return log->seconds->len ? case_row_median(log->seconds) : 0;
}

static char *row_of(Log *log, ImportNotes *notes)
{
  GHashTable *cells = log->cells;

  case_row_set(cells, "id", "imported");
  case_row_set(cells, "framework", "torchtitan");
  case_row_set(cells, "generation", "torchtitan");
  case_row_set(cells, "note", "%s", log->note->str);
  if (log->degree[MESH_TP] > 0)
    set_mesh(log);
  if (log->local_batch > 0)
    case_row_set(cells, "micro_batch", "%.0f", log->local_batch);
  if (log->global_batch > 0)
    case_row_set(cells, "global_batch", "%.0f", log->global_batch);
  if (log->seq > 0)
    case_row_set(cells, "seq", "%.0f", log->seq);
  if (step_s(log) > 0)
    case_row_set(cells, "iteration_s", "%.6g", step_s(log));
  if (log->memory_gib > 0) {
    case_row_set(cells, "memory_gib", "%.4g", log->memory_gib);
    case_row_set(cells, "memory_kind", "max_reserved");
  }
  return case_row_text(cells, notes);
}

static char *read_log(const char *text, ImportNotes *notes, GError **error)
{
  g_autofree char *valid = g_utf8_make_valid(text, -1);
  g_auto(GStrv) lines = g_strsplit(valid, "\n", -1);
  g_autoptr(GHashTable) cells = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  g_autoptr(GArray) rates = g_array_new(FALSE, FALSE, sizeof(double));
  g_autoptr(GArray) first = g_array_new(FALSE, FALSE, sizeof(double));
  g_autoptr(GArray) seconds = g_array_new(FALSE, FALSE, sizeof(double));
  g_autoptr(GString) note = g_string_new(NULL);
  Log log = { .cells = cells, .rates = rates, .first = first, .seconds = seconds, .note = note };

  for (int i = 0; lines[i]; i++) {
    import_drop_colours(lines[i]);
    if (*g_strstrip(lines[i]) && !read_line(&log, lines[i]))
      import_strange(notes, lines[i]);
  }
  g_autofree char *rank G_GNUC_UNUSED = log.rank;
  if (rates->len + first->len == 0)
    return import_error(notes, error, "no step with its speed: expected \"step:  2  loss: 7.6  ... tps: 10,050\"");
  return row_of(&log, notes);
}

const Importer import_torchtitan_log = { "torchtitan log", recognises, read_log };
