/* What was fitted: as a file of hardware/, and for people. */
#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "calibrate/machine_fit.h"
#include "cost/slowest.h"

#include <math.h>

static void put(JsonWriter *w, const char *key, double value)
{
  json_put_real(w, key, round_digits(value));
}

G_GNUC_PRINTF(3, 4)
static void put_source(const MachineFit *fit, JsonWriter *w, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  g_autofree char *what = g_strdup_vprintf(format, args);
  va_end(args);
  g_autofree char *text = g_strdup_printf("%s, by tdp-calibrate on %s", what, fit->head.date);
  json_put_string(w, "source", text);
}

/* `errors` NULL: constants of another format. */
static void put_matmul(const MachineFit *fit, JsonWriter *w, const char *format, const MatmulModel *m,
                       const FitResult *errors)
{
  json_open(w, format, '{');
  for (const JsonField *field = matmul_fields; field->key; field++)
    if (field->required || json_field_real(field, m) > 0)
      put(w, field->key, json_field_real(field, m));
  if (errors)
    put_source(fit, w, "fitted: %d products, mean error %.1f %%, worst %.1f %%; %d others %.1f %%, worst %.1f %%",
               errors->fit.n, 100 * errors->fit.mean, 100 * errors->fit.max, errors->check.n, 100 * errors->check.mean,
               100 * errors->check.max);
  else
    json_put_string(w, "source", "default: not run in this format; fp32's");
  json_close(w, '}');
}

/* A section each of the kinds of products that have constants of their own. */
static void put_products(const MachineFit *fit, JsonWriter *w)
{
  static const char *const sections[PRODUCT_COUNT] = { "matmul", "input_gradient", "weight_gradient" };
  DType dtype = fit->head.precision;

  for (Product product = 0; product < PRODUCT_COUNT; product++) {
    const MatmulModel *m = product == PRODUCT_FORWARD ? &fit->kernels.matmul[dtype]
                                                       : &fit->kernels.gradients[product][dtype];
    if (!m->known)
      continue;
    json_open(w, sections[product], '{');
    if (product == PRODUCT_FORWARD && dtype == DTYPE_FP32)
      put_matmul(fit, w, "bf16", m, NULL);
    put_matmul(fit, w, dtype_names[dtype], m, &fit->matmul[product]);
    json_close(w, '}');
  }
}

static void put_curve(const MachineFit *fit, JsonWriter *w, const AttentionCurve *curve)
{
  json_open(w, NULL, '{');
  json_put_string(w, "kernel", attention_kernel_names[curve->kernel]);
  json_put_string(w, "pass", curve->backward ? "backward" : "forward");
  json_put_bool(w, "causal", curve->causal);
  json_put_int(w, "head_dim", curve->head_dim);
  json_open(w, "seq", '[');
  for (int i = 0; i < curve->n; i++)
    put(w, NULL, curve->seq[i]);
  json_close(w, ']');
  json_open(w, "utilization", '[');
  for (int i = 0; i < curve->n; i++)
    put(w, NULL, curve->utilization[i]);
  json_close(w, ']');
  put_source(fit, w, "measured: medians");
  json_close(w, '}');
}

static void put_attention(const MachineFit *fit, JsonWriter *w)
{
  json_open(w, "attention", '{');
  put(w, "launch_us", fit->kernels.attention_launch_s * 1e6);
  put(w, "crowding", fit->kernels.attention_crowding);
  json_open(w, "curves", '[');
  for (int i = 0; i < fit->kernels.n_attention; i++)
    put_curve(fit, w, &fit->kernels.attention[i]);
  json_close(w, ']');
  put_source(fit, w, "measured: medians");
  json_close(w, '}');
}

static void put_memory(const MachineFit *fit, JsonWriter *w)
{
  const Kernels *k = &fit->kernels;

  json_open(w, "memory", '{');
  put(w, "fraction", k->memory_fraction);
  put(w, "launch_us", k->memory_launch_s * 1e6);
  put(w, "crowding", k->memory_crowding);
  json_open(w, "kernels", '[');
  for (int i = 0; i < k->n_memory_kernels; i++) {
    json_open(w, NULL, '{');
    json_put_string(w, "name", k->memory_kernels[i].name);
    json_put_string(w, "pass", k->memory_kernels[i].backward ? "backward" : "forward");
    put(w, "fraction", k->memory_kernels[i].fraction);
    put(w, "crowding", k->memory_kernels[i].crowding);
    put_source(fit, w, "fitted: median over sizes");
    json_close(w, '}');
  }
  json_close(w, ']');
  put_source(fit, w, "measured: a copy, and the mean error of %d kernels is %.1f %%, the worst %.1f %%", fit->memory.n,
             100 * fit->memory.mean, 100 * fit->memory.max);
  json_close(w, '}');
}

/* What a core has of a cache that it shares is what walks tell, not what the system says. */
static void put_cache(const MachineFit *fit, JsonWriter *w)
{
  gboolean told = fit->cache_bytes > 0;

  if (told || fit->head.cache_bytes > 0)
    put(w, "l2_mib", (told ? fit->cache_bytes : fit->head.cache_bytes) / MIB);
  if (!told)
    return;
  put(w, "l2_alone_mib", fit->cache_alone_bytes / MIB);
  put(w, "l2_ramp", fit->cache_ramp);
  put(w, "beyond_l2_gb_per_s", fit->beyond_cache_bytes_per_s / 1e9);
  put(w, "beyond_l2_crowding", fit->beyond_cache_crowding);
}

static void put_device(const MachineFit *fit, JsonWriter *w, const char *name)
{
  json_open(w, "gpu", '{');
  json_put_string(w, "name", fit->head.device);
  json_put_string(w, "arch", fit->head.device);
  json_open(w, "peak_tflops", '{');
  put(w, dtype_names[fit->head.precision], fit->peak_flops_per_s / 1e12);
  put_source(fit, w, "derived: 1.02 of the fastest product");
  json_close(w, '}');
  put(w, "memory_gib", fit->head.memory_bytes / GIB);
  put(w, "memory_gb_per_s", fit->copy_bytes_per_s / 1e9);
  put_cache(fit, w);
  json_put_int(w, "sms", fit->head.units);
  put(w, "host_gb_per_s", fit->host_bytes_per_s / 1e9);
  if (fit->rate_spread > 0)
    put(w, "rate_spread", fit->rate_spread);
  if (fit->rate_jitter > 0) {
    put(w, "rate_jitter", fit->rate_jitter);
    put(w, "rate_jitter_ms", fit->rate_jitter_s * 1e3);
  }
  if (fit->switch_s > 0) {
    put(w, "switch_us", fit->switch_s * 1e6);
    put(w, "switch_after_us", fit->switch_after_s * 1e6);
  }
  json_open(w, "kernels", '{');
  json_put_string(w, "name", name);
  put_products(fit, w);
  put_attention(fit, w);
  put_memory(fit, w);
  json_close(w, '}');
  put_source(fit, w, head_is_large(&fit->head) ? "measured: copies of 256 MiB, memory and units as the driver says"
                                               : "measured: copies of 32 MiB, memory of the host over the ranks");
  json_close(w, '}');
}

static void put_link(const MachineFit *fit, JsonWriter *w, const char *name, const Link *l, const FitErrors *errors)
{
  static const char *const keys[] = { "base_us", "hop_us", "efficiency", "sqrt_us_per_sqrt_byte", "reduce_slowdown",
                                      "far_reduce_slowdown", "reduce_cache_mib", "compute_slowdown", "p2p_base_us",
                                      "p2p_efficiency" };

  json_open(w, "link", '{');
  json_put_string(w, "name", name);
  json_put_string(w, "kind", link_kind_names[l->kind]);
  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    put(w, keys[i], json_field_real(link_field(keys[i]), l));
  put_source(fit, w, "fitted: %d collectives, mean error %.1f %%, worst %.1f %%", errors->n, 100 * errors->mean,
             100 * errors->max);
  json_close(w, '}');
}

static void put_tier(const MachineFit *fit, JsonWriter *w)
{
  json_open(w, "tiers", '[');
  json_open(w, NULL, '{');
  json_put_string(w, "name", "memory");
  put_link(fit, w, "shared-memory", &fit->link, &fit->link_errors);
  put(w, "gb_per_s", fit->copy_bytes_per_s / 1e9);
  put_source(fit, w, "measured: a copy by one rank");
  json_close(w, '}');
  json_close(w, ']');
}

static void put_network(const MachineFit *fit, JsonWriter *w)
{
  json_open(w, "network", '{');
  put(w, "nics_per_node", 1);
  put(w, "nic_gbit_per_s", fit->network_bytes_per_s * 8 / 1e9);
  put_link(fit, w, "network", &fit->network, &fit->network_errors);
  put_source(fit, w, "measured: the fastest message between two nodes");
  json_close(w, '}');
}

static void put_server(const MachineFit *fit, JsonWriter *w, const char *name)
{
  json_open(w, "server", '{');
  json_put_string(w, "name", name);
  put_device(fit, w, name);
  json_put_int(w, "devices_per_node", fit->head.node_ranks);
  if (fit->head.processors < fit->head.node_ranks)
    json_put_int(w, "processors", fit->head.processors);
  if (fit->link_errors.n > 0)
    put_tier(fit, w);
  if (fit->network_errors.n > 0)
    put_network(fit, w);
  put(w, "host_memory_gib", fit->head.host_memory_bytes / GIB);
  put(w, "host_memory_gb_per_s", fit->head.host_bytes_per_s / 1e9);
  if (fit->disk_read_bytes_per_s > 0 && fit->disk_write_bytes_per_s > 0) {
    put(w, "nvme_read_gb_per_s", fit->disk_read_bytes_per_s / 1e9);
    put(w, "nvme_write_gb_per_s", fit->disk_write_bytes_per_s / 1e9);
  }
  put_source(fit, w, "measured: medians of copies by all processors, and of a file of 32 MiB");
  json_close(w, '}');
}

char *machine_fit_json(const MachineFit *fit, const char *name, const char *framework)
{
  GString *text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "name", name);
  json_put_int(&w, "nodes", fit->head.ranks / fit->head.node_ranks);
  json_put_string(&w, "framework", framework);
  put_server(fit, &w, name);
  if (fit->head.discarded > 0)
    put_source(fit, &w, "measured: this machine; %d of %d samples, in which processors were withheld, were discarded",
               fit->head.discarded, fit->head.samples);
  else
    put_source(fit, &w, "measured: this machine");
  json_close(&w, '}');
  return g_string_free(text, FALSE);
}

/* ---- text ---- */

static void add_errors(Table *table, const char *name, const FitErrors *errors)
{
  table_add(table, "%s|%d|%.1f %%|%.1f %%", name, errors->n, 100 * errors->mean, 100 * errors->max);
}

static void add_products(Table *table, const MachineFit *fit)
{
  static const char *const names[PRODUCT_COUNT][2] = {
    { "products", "products, not fitted" }, { "of gradients of inputs", "not fitted" },
    { "of gradients of weights", "not fitted" },
  };

  for (Product product = 0; product < PRODUCT_COUNT; product++)
    if (fit->matmul[product].fit.n > 0) {
      add_errors(table, names[product][0], &fit->matmul[product].fit);
      add_errors(table, names[product][1], &fit->matmul[product].check);
    }
}

/* Half width of the median's interval, in the middle of all points. */
static double noise(const GArray *points)
{
  g_autofree double *half = g_new(double, points->len);

  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = &g_array_index(points, MachinePoint, i);
    half[i] = (p->high_s - p->low_s) / 2 / p->seconds;
  }
  return fit_errors(half, points->len).median;
}

/* How much longer the slowest of the ranks takes, of their mean over an interval. */
static double behind(const MachineFit *fit, double interval_s)
{
  double passing = fit->rate_jitter > 0 ? pow(fit->rate_jitter, 2) * jitter_left(interval_s / fit->rate_jitter_s) : 0;

  return 1 + expected_largest(fit->head.processors) * sqrt(pow(fit->rate_spread, 2) + passing);
}

static char *ranks_text(const MachineFit *fit)
{
  const Kernels *k = &fit->kernels;
  int processors = fit->head.processors, ranks = fit->head.node_ranks;
  GString *text = g_string_new(NULL);

  if (ranks > processors)
    g_string_append_printf(text, "%d ranks of a node take turns on %d processor%s\n", ranks, processors,
                           processors > 1 ? "s" : "");
  if (processors > 1)
    g_string_append_printf(text, "%d ranks at once: products take %.2f, attention %.2f, copies %.2f times as long\n"
                           "the slowest of them takes %.2f of their mean over 10 ms, %.2f over 1 s; "
                           "products beside a collective take %.1f times as long\n", processors,
                           k->matmul[fit->head.precision].crowding, k->attention_crowding, k->memory_crowding,
                           behind(fit, 0.01), behind(fit, 1), fit->link.compute_slowdown);
  if (fit->switch_s > 0)
    g_string_append_printf(text, "a product loses up to %.0f us to other kernels before it, that much after %.0f us "
                           "of them\n", fit->switch_s * 1e6, fit->switch_after_s * 1e6);
  if (fit->cache_bytes > 0)
    g_string_append_printf(text, "a rank has %.0f MiB of the last-level cache, alone %.0f (ramp %.2f); bytes beyond "
                           "take longer, at %.1f GB/s, with all ranks at once %.2f times that\n",
                           fit->cache_bytes / MIB, fit->cache_alone_bytes / MIB, fit->cache_ramp,
                           fit->beyond_cache_bytes_per_s / 1e9, fit->beyond_cache_crowding);
  return g_string_free(text, FALSE);
}

static char *samples_text(const MachineFit *fit)
{
  const MachineHead *head = &fit->head;

  if (head->samples == 0)
    return g_strdup("");
  return g_strdup_printf("%d of %d samples were discarded, in which processors were withheld (%.1f %%)\n",
                         head->discarded, head->samples, 100.0 * head->discarded / head->samples);
}

char *machine_fit_text(const MachineFit *fit, const GArray *points)
{
  g_autoptr(Table) table = table_new("<fit|points|mean error|worst");
  const Kernels *k = &fit->kernels;

  add_products(table, fit);
  add_errors(table, "attention", &fit->attention.fit);
  add_errors(table, "kernels bound by memory", &fit->memory);
  if (fit->link_errors.n > 0)
    add_errors(table, "collectives", &fit->link_errors);
  if (fit->network_errors.n > 0)
    add_errors(table, "collectives between nodes", &fit->network_errors);
  g_autofree char *errors = table_text(table, 0), *ranks = ranks_text(fit), *samples = samples_text(fit);
  return g_strdup_printf("%s: %.1f GFLOP/s, copy %.2f GB/s, launch %.2f us\n%s%s"
                         "95 %% interval of a median: +-%.1f %% (in the middle)\n\n%s", fit->head.device,
                         fit->peak_flops_per_s / 1e9, fit->copy_bytes_per_s / 1e9, k->memory_launch_s * 1e6, ranks,
                         samples, 100 * noise(points), errors);
}
