/* memory.json: measured over predicted peaks, by engine and by what the figure counts. */
#include "validate/residuals.h"

#include "base/sort.h"

#include <math.h>

/* Rows of an engine (NULL = any) whose memory counts this (-1 = whatever), but not of a publisher (NULL = of all). */
typedef struct {
  const char *engine;
  int memory;
  const char *without;
} Wanted;

/* Of what the allocator reserved where that was published, too: a device must hold it. */
static double need_ratio(const CaseResult *r)
{
  if (r->measured_reserved_bytes > 0)
    return r->measured_reserved_bytes / r->predicted_reserved_bytes;
  return r->measured_memory_bytes / r->predicted_memory_bytes;
}

static gboolean is_wanted(const CaseResult *r, const Wanted *wanted)
{
  return (!wanted->engine || wanted->engine == r->kind.names[KIND_ENGINE]) &&
         (wanted->memory < 0 || wanted->memory == (int)r->memory) &&
         (!wanted->without || !g_str_equal(wanted->without, r->publisher));
}

static int runs_of(const GPtrArray *rows, const Wanted *wanted, const char *publisher)
{
  int n = 0;

  for (guint i = 0; i < rows->len; i++) {
    const CaseResult *r = g_ptr_array_index(rows, i);
    n += is_wanted(r, wanted) && g_str_equal(r->publisher, publisher);
  }
  return n;
}

static double rounded(double value)
{
  return round(1e4 * value) / 1e4;
}

/* RatioWeight, rising, each publisher counting alike: of what they need, or of the figure alone that counts the wanted. */
static GArray *ratios_of(const GPtrArray *rows, Wanted wanted)
{
  GArray *ratios = g_array_new(FALSE, FALSE, sizeof(RatioWeight));

  for (guint i = 0; i < rows->len; i++) {
    const CaseResult *r = g_ptr_array_index(rows, i);
    double figure = r->measured_memory_bytes / r->predicted_memory_bytes;
    if (!is_wanted(r, &wanted))
      continue;
    RatioWeight one = { rounded(wanted.memory < 0 ? need_ratio(r) : figure),
                        rounded(1.0 / runs_of(rows, &wanted, r->publisher)) };
    g_array_append_val(ratios, one);
  }
  g_array_sort(ratios, sort_reals);
  return ratios;
}

/* Of an engine that has runs enough, beside those of all software; else of these. */
static double margin_of(const GArray *own, const GArray *all)
{
  if (own->len < ACCURACY_RUNS_MIN)
    return accuracy_margin_of(all);
  g_autoptr(GArray) mixed = accuracy_mixed(own, all);
  return accuracy_margin_of(mixed);
}

/* Engines in order of first appearance. */
static GPtrArray *engines_of(const GPtrArray *rows)
{
  GPtrArray *engines = g_ptr_array_new();

  for (guint i = 0; i < rows->len; i++) {
    const CaseResult *r = g_ptr_array_index(rows, i);
    if (!g_ptr_array_find(engines, r->kind.names[KIND_ENGINE], NULL))
      g_ptr_array_add(engines, (gpointer)r->kind.names[KIND_ENGINE]);
  }
  return engines;
}

static void write_list(const GArray *ratios, const char *key, gsize at, JsonWriter *w)
{
  json_open_line(w, key, '[');
  for (guint i = 0; i < ratios->len; i++)
    residuals_put(w, NULL, G_STRUCT_MEMBER(double, &g_array_index(ratios, RatioWeight, i), at));
  json_close_line(w, ']');
}

static void write_ratios(const GPtrArray *rows, const char *engine, JsonWriter *w)
{
  g_autoptr(GArray) ratios = ratios_of(rows, (Wanted) { engine, -1, NULL });
  g_autoptr(GArray) all = ratios_of(rows, (Wanted) { NULL, -1, NULL });

  if (ratios->len < ACCURACY_RUNS_MIN && engine)
    return;
  json_open(w, NULL, '{');
  if (engine)
    json_put_string(w, "engine", engine);
  json_put_int(w, "runs", ratios->len);
  residuals_put(w, "margin", engine ? margin_of(ratios, all) : accuracy_margin_of(all));
  write_list(ratios, "ratios", G_STRUCT_OFFSET(RatioWeight, ratio), w);
  write_list(ratios, "weights", G_STRUCT_OFFSET(RatioWeight, weight), w);
  json_close(w, '}');
}

static void write_figure(const GPtrArray *rows, const char *engine, int memory, JsonWriter *w)
{
  g_autoptr(GArray) ratios = ratios_of(rows, (Wanted) { engine, memory, NULL });

  if (ratios->len == 0)
    return;
  g_autofree double *values = g_new(double, ratios->len);
  for (guint i = 0; i < ratios->len; i++)
    values[i] = g_array_index(ratios, RatioWeight, i).ratio;
  json_open(w, NULL, '{');
  json_put_string(w, "engine", engine);
  json_put_string(w, "memory_kind", memory_count_names[memory]);
  json_put_int(w, "runs", ratios->len);
  residuals_put(w, "median", residuals_quantile(values, NULL, ratios->len, 0.5));
  residuals_put(w, "least", values[0]);
  residuals_put(w, "most", values[ratios->len - 1]);
  residuals_put(w, "margin", accuracy_margin_of(ratios));
  json_close(w, '}');
}

/* Runs that measure more than the card, filled but for the margin that runs of other publishers give. */
static void write_exceeding(const GPtrArray *rows, JsonWriter *w)
{
  g_autoptr(GPtrArray) publishers G_GNUC_UNUSED = residuals_publishers(rows);
  int over = 0, over_without_margin = 0;

  for (guint i = 0; i < rows->len; i++) {
    const CaseResult *r = g_ptr_array_index(rows, i);
    Wanted wanted = { r->kind.names[KIND_ENGINE], -1, r->publisher };
    g_autoptr(GArray) own = ratios_of(rows, wanted);
    wanted.engine = NULL;
    g_autoptr(GArray) all = ratios_of(rows, wanted);
    double margin = margin_of(own, all);
    double ratio = need_ratio(r);
    over += ratio * (1 - margin) > 1;
    over_without_margin += ratio > 1;
  }
  residuals_put(w, "exceeding_pct_left_out", 100.0 * over / rows->len);
  residuals_put(w, "exceeding_pct_without_margin", 100.0 * over_without_margin / rows->len);
}

void residuals_write_memory(const GPtrArray *rows, JsonWriter *w)
{
  g_autoptr(GPtrArray) engines = engines_of(rows);

  write_exceeding(rows, w);
  json_open(w, "engines", '[');
  write_ratios(rows, NULL, w);
  for (guint i = 0; i < engines->len; i++)
    write_ratios(rows, g_ptr_array_index(engines, i), w);
  json_close(w, ']');
  json_open(w, "figures", '[');
  for (guint i = 0; i < engines->len; i++)
    for (int memory = 0; memory_count_names[memory]; memory++)
      write_figure(rows, g_ptr_array_index(engines, i), memory, w);
  json_close(w, ']');
}
