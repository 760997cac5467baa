#include "report/measured.h"

#include "base/table.h"
#include "base/units.h"

/* Passes by kind, then the other tasks. */
enum { KINDS = PASS_COUNT + TASK_KIND_COUNT };

typedef struct {
  double seconds[KINDS]; /* of a row */
  int count[KINDS];      /* of all rows */
} Sums;

static const char *kind_name(int kind)
{
  return kind < PASS_COUNT ? pass_names[kind] : task_kind_names[kind - PASS_COUNT];
}

/* The optimizer's price holds the norm's reading of gradients. */
static int kind_of(const Span *span)
{
  TaskKind task = span->kind == TASK_NORM ? TASK_OPTIMIZER : span->kind;

  return task == TASK_PASS ? span->pass : PASS_COUNT + task;
}

static Sums sum_up(const Trace *trace)
{
  Sums sums = { 0 };

  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *span = &g_array_index(trace->spans, Span, i);
    int kind = kind_of(span);
    sums.seconds[kind] += (span->end - span->start) / trace->n_rows;
    sums.count[kind] += span->kind != TASK_NORM;
  }
  return sums;
}

static double error_pct(double predicted, double measured)
{
  return measured > 0 ? 100 * (predicted / measured - 1) : 0;
}

/* `predicted` NULL: there is nothing to compare with. */
static void add_row(Table *table, const char *name, int count, const char *predicted, const char *measured,
                    double error)
{
  table_add(table, "%s", name);
  if (count > 0)
    table_add(table, "%d", count);
  else
    table_add(table, "%s", "");
  table_add(table, "%s|%s", predicted ? predicted : "", measured);
  if (predicted)
    table_add(table, "%+.1f %%", error);
  else
    table_add(table, "%s", "");
}

static void add_seconds(Table *table, const char *name, int count, double predicted, double measured)
{
  g_autofree char *left = format_seconds(predicted), *right = format_seconds(measured);
  add_row(table, name, count, left, right, error_pct(predicted, measured));
}

static void add_bytes(Table *table, const char *name, double predicted, double measured)
{
  g_autofree char *left = format_bytes(predicted), *right = format_bytes(measured);
  add_row(table, name, 0, left, right, error_pct(predicted, measured));
}

static char *operations(const Side *predicted, const Side *measured)
{
  g_autoptr(Table) table = table_new("<operation|a step|predicted|measured|error");
  Sums p = sum_up(predicted->trace), m = sum_up(measured->trace);

  for (int kind = 0; kind < KINDS; kind++)
    if (m.count[kind] > 0)
      add_seconds(table, kind_name(kind), m.count[kind], p.seconds[kind], m.seconds[kind]);
  add_seconds(table, "step", 0, predicted->result->metrics.iteration_s, measured->result->metrics.iteration_s);
  return table_text(table, 0);
}

/* What the device says, beside what is predicted to be handed out by the allocator, and in all. */
typedef struct {
  const char *name, *key, *predicted_key;
  double measured, predicted; /* 0 = not known */
} DeviceBytes;

enum { DEVICE_BYTES = 3 };

static void device_bytes(const Side *predicted, const Side *measured, DeviceBytes out[DEVICE_BYTES])
{
  const Metrics *p = &predicted->result->metrics;
  const TraceRow *row = &measured->trace->rows[measured->result->metrics.peak_row];

  out[0] = (DeviceBytes) { "of the allocator", "used_bytes", "predicted_used_bytes", row->used_bytes,
                           p->peak_memory_bytes - p->memory[PART_OVERHEAD] };
  out[1] = (DeviceBytes) { "held by it", "reserved_bytes", NULL, row->reserved_bytes, 0 };
  out[2] = (DeviceBytes) { "in use on the device", "device_bytes", "predicted_device_bytes", row->device_bytes,
                           p->peak_memory_bytes };
}

void measured_write_device(const Side *predicted, const Side *measured, JsonWriter *w)
{
  DeviceBytes bytes[DEVICE_BYTES];

  device_bytes(predicted, measured, bytes);
  json_open(w, "device_memory", '{');
  for (int i = 0; i < DEVICE_BYTES; i++) {
    if (bytes[i].measured == 0)
      continue;
    json_put_real(w, bytes[i].key, bytes[i].measured);
    if (bytes[i].predicted_key)
      json_put_real(w, bytes[i].predicted_key, bytes[i].predicted);
  }
  json_close(w, '}');
}

static void add_device(Table *table, const Side *predicted, const Side *measured)
{
  DeviceBytes bytes[DEVICE_BYTES];

  device_bytes(predicted, measured, bytes);
  for (int i = 0; i < DEVICE_BYTES; i++) {
    g_autofree char *held = format_bytes(bytes[i].measured);
    if (bytes[i].measured > 0 && bytes[i].predicted_key)
      add_bytes(table, bytes[i].name, bytes[i].predicted, bytes[i].measured);
    else if (bytes[i].measured > 0)
      add_row(table, bytes[i].name, 0, NULL, held, 0);
  }
}

static char *memory(const Side *predicted, const Side *measured)
{
  g_autoptr(Table) table = table_new("<memory of the fullest stage||predicted|measured|error");
  const Metrics *p = &predicted->result->metrics, *m = &measured->result->metrics;

  for (int part = 0; part < PART_COUNT; part++)
    if (m->memory[part] > 0 || p->memory[part] > 0)
      add_bytes(table, memory_part_names[part], p->memory[part], m->memory[part]);
  add_bytes(table, "peak", p->peak_memory_bytes, m->peak_memory_bytes);
  add_device(table, predicted, measured);
  return table_text(table, 0);
}

char *report_measured(const Side *predicted, const Side *measured)
{
  g_autofree char *times = operations(predicted, measured), *bytes = memory(predicted, measured);
  g_autofree char *before = format_count(predicted->result->tokens_per_s);
  g_autofree char *now = format_count(measured->result->tokens_per_s);

  g_autofree char *step = result_step_text(predicted->result), *fit = result_fit_text(predicted->result);
  g_autofree char *beyond = result_beyond_text(predicted->result);

  return g_strdup_printf("%s\n%s\ntokens  %s/s predicted, %s/s measured\nbubble  %.1f %% predicted, %.1f %% measured\n"
                         "step    %s predicted\nmemory  predicted: %s\n%s",
                         times, bytes, before, now, 100 * predicted->result->metrics.bubble_fraction,
                         100 * measured->result->metrics.bubble_fraction, step, fit, beyond);
}

void measured_write_operations(const Side *predicted, const Side *measured, JsonWriter *w)
{
  Sums p = sum_up(predicted->trace), m = sum_up(measured->trace);

  json_open(w, "operations", '[');
  for (int kind = 0; kind < KINDS; kind++) {
    if (m.count[kind] == 0)
      continue;
    json_open(w, NULL, '{');
    json_put_string(w, "kind", kind_name(kind));
    json_put_int(w, "count", m.count[kind]);
    json_put_real(w, "predicted_s", p.seconds[kind]);
    json_put_real(w, "measured_s", m.seconds[kind]);
    json_put_real(w, "error_pct", error_pct(p.seconds[kind], m.seconds[kind]));
    json_close(w, '}');
  }
  json_close(w, ']');
}
