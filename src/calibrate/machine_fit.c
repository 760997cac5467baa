#include "calibrate/machine_fit.h"

#include "base/error.h"
#include "base/json.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <string.h>

#define REGISTER_TILE 16 /* OpenBLAS' for AVX-512, in fp32 */
#define SPREAD_MAX 0.2    /* as the file's */
#define SLOWDOWN_MAX 10   /* as the file's: next to nothing is hidden */
#define ABOVE_FASTEST 1.02 /* the peak, so that an efficiency below 1 is left to fit */

static const MachinePoint *at(const GArray *points, guint i)
{
  return &g_array_index(points, MachinePoint, i);
}

static double median(GArray *values)
{
  double *v = (double *)(gpointer)values->data;

  gsl_sort(v, 1, values->len);
  return gsl_stats_median_from_sorted_data(v, 1, values->len);
}

static gboolean like(const MachinePoint *p, PointKind kind, const char *name, gboolean backward)
{
  return p->kind == kind && (!name || (g_str_equal(p->name, name) && !p->backward == !backward));
}

/* The same point with all ranks at work, NULL if there is none. */
static const MachinePoint *crowded(const GArray *points, const MachinePoint *alone)
{
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = at(points, i);
    if (like(p, alone->kind, alone->name, alone->backward) && p->busy > 1 && p->m == alone->m && p->n == alone->n &&
        p->k == alone->k && p->head_dim == alone->head_dim && p->bytes == alone->bytes)
      return p;
  }
  return NULL;
}

/* Median over a kind's points; 1 where nothing was measured with others at work. */
static double crowding_of(const GArray *points, PointKind kind, const char *name, gboolean backward)
{
  g_autoptr(GArray) ratios = g_array_new(FALSE, FALSE, sizeof(double));

  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = at(points, i), *other = p->busy == 1 ? crowded(points, p) : NULL;
    if (!other || !like(p, kind, name, backward))
      continue;
    double ratio = other->seconds / p->seconds;
    g_array_append_val(ratios, ratio);
  }
  return ratios->len ? MAX(1, median(ratios)) : 1;
}

/* ---- rates ---- */

static double rate_of(const GArray *points, PointKind kind, const char *name)
{
  for (guint i = 0; i < points->len; i++)
    if (like(at(points, i), kind, name, FALSE) && at(points, i)->busy == 1)
      return at(points, i)->bytes / at(points, i)->seconds;
  return 0;
}

static double launch_of(const GArray *points)
{
  for (guint i = 0; i < points->len; i++)
    if (at(points, i)->kind == POINT_LAUNCH && at(points, i)->busy == 1)
      return at(points, i)->seconds;
  return 0;
}

static gboolean set_rates(const GArray *points, MachineFit *fit, GError **error)
{
  double upload = rate_of(points, POINT_TRANSFER, "upload"), download = rate_of(points, POINT_TRANSFER, "download");

  fit->copy_bytes_per_s = 2 * rate_of(points, POINT_TRANSFER, "copy");
  fit->host_bytes_per_s = MIN(upload, download);
  fit->disk_read_bytes_per_s = rate_of(points, POINT_DISK, "read");
  fit->disk_write_bytes_per_s = rate_of(points, POINT_DISK, "write");
  fit->kernels.memory_launch_s = fit->kernels.attention_launch_s = launch_of(points);
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = at(points, i);
    if (p->kind == POINT_MATMUL && p->busy == 1)
      fit->peak_flops_per_s = MAX(fit->peak_flops_per_s, ABOVE_FASTEST * 2.0 * p->m * p->n * p->k / p->seconds);
  }
  if (fit->peak_flops_per_s > 0 && fit->copy_bytes_per_s > 0 && fit->host_bytes_per_s > 0)
    return TRUE;
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT,
              "points: expected products and transfers (copy, upload, download) of one rank");
  return FALSE;
}

/* ---- ranks together ---- */

static double reference_s(const GArray *points, const char *name)
{
  for (guint i = 0; i < points->len; i++)
    if (like(at(points, i), POINT_REFERENCE, name, FALSE))
      return at(points, i)->seconds;
  return 0;
}

/* Of slowest_device: how far the slowest of the ranks is behind their mean. */
static double spread_of(const GArray *points, int ranks)
{
  double mean = reference_s(points, "mean"), slowest = reference_s(points, "slowest");

  return ranks > 1 && mean > 0 ? CLAMP((slowest / mean - 1) / sqrt(2 * log(ranks)), 0, SPREAD_MAX) : 0;
}

static double seconds_of(const GArray *points, const MachinePoint *like_this)
{
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = at(points, i);
    if (like(p, like_this->kind, like_this->name, FALSE) && p->busy == like_this->busy && p->m == like_this->m &&
        p->n == like_this->n && p->k == like_this->k && p->bytes == like_this->bytes)
      return p->seconds;
  }
  return 0;
}

/* How much longer products take beside a collective: of its time T, of their time C
 * and of both together B, C = T / slowdown + B - T. */
static double slowdown_of(const GArray *points)
{
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = at(points, i);
    if (p->kind != POINT_BESIDE)
      continue;
    MachinePoint product = { .kind = POINT_MATMUL, .name = "nt", .busy = p->busy, .m = p->m, .n = p->n, .k = p->k };
    MachinePoint alone = { .kind = POINT_COLLECTIVE, .busy = p->busy, .bytes = p->bytes };
    g_strlcpy(alone.name, p->name, sizeof alone.name);
    double t = seconds_of(points, &alone), c = p->head_dim * seconds_of(points, &product);
    if (t > 0 && c > 0)
      return CLAMP(t / MAX(c + t - p->seconds, t / SLOWDOWN_MAX), 1, SLOWDOWN_MAX);
  }
  return 1;
}

/* ---- products ---- */

static void set_matmul(const GArray *points, MachineFit *fit)
{
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(MatmulRow));
  MatmulModel *model = &fit->kernels.matmul[DTYPE_FP32];
  Quantize quantize;

  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = at(points, i);
    double key[] = { p->m, p->n, p->k };
    if (p->kind != POINT_MATMUL || p->busy > 1)
      continue;
    MatmulRow row = { .shape = { p->m, p->n, p->k, 1, DTYPE_FP32, .accumulate_bytes = p->name[0] == 't' ? 4.0 * p->m * p->n : 0 },
                      .seconds = p->seconds, .check = fit_is_check(key, 3) };
    g_array_append_val(rows, row);
  }
  model->tile = REGISTER_TILE;
  fit->matmul = fit_matmul((const MatmulRow *)(gpointer)rows->data, rows->len, fit->peak_flops_per_s,
                           fit->copy_bytes_per_s, 1, model, &quantize);
  model->crowding = crowding_of(points, POINT_MATMUL, NULL, FALSE);
}

/* ---- attention ---- */

static Device device_of(const MachineFit *fit)
{
  Device device = { .memory_bytes_per_s = fit->copy_bytes_per_s, .sms = 1, .sustained_fraction = 1, .kernels = fit->kernels };

  device.peak_flops_per_s[DTYPE_FP32] = fit->peak_flops_per_s;
  return device;
}

static AttentionWork work_of(const MachinePoint *p)
{
  return (AttentionWork) { .batch = p->m, .heads = p->k, .q_len = p->n, .kv_len = p->n, .head_dim = p->head_dim,
                           .v_head_dim = p->head_dim, .causal = TRUE, .backward = p->backward, .kernel = ATTENTION_FLASH,
                           .dtype = DTYPE_FP32 };
}

/* Adds the point's length to its curve, in order. */
static void add_length(AttentionCurve *curve, double seq)
{
  int i = curve->n;

  for (int j = 0; j < curve->n; j++)
    if (curve->seq[j] == seq)
      return;
  if (curve->n == ATTENTION_POINTS_MAX)
    return;
  for (; i > 0 && curve->seq[i - 1] > seq; i--)
    curve->seq[i] = curve->seq[i - 1];
  curve->seq[i] = seq;
  curve->n++;
}

static AttentionCurve *curve_of(Kernels *kernels, const MachinePoint *p)
{
  for (int i = 0; i < kernels->n_attention; i++)
    if (kernels->attention[i].head_dim == p->head_dim && !kernels->attention[i].backward == !p->backward)
      return &kernels->attention[i];
  AttentionCurve *curve = &kernels->attention[kernels->n_attention++];
  *curve = (AttentionCurve) { .kernel = ATTENTION_FLASH, .backward = p->backward, .causal = TRUE, .head_dim = p->head_dim };
  return curve;
}

/* Every length is a point of its curve, so nothing is left to check it with. */
static void set_attention(const GArray *points, MachineFit *fit)
{
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(AttentionRow));
  Kernels *kernels = &fit->kernels;

  kernels->attention = g_new0(AttentionCurve, points->len);
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = at(points, i);
    if (p->kind != POINT_ATTENTION || p->busy > 1)
      continue;
    AttentionRow row = { .work = work_of(p), .seconds = MAX(p->seconds, kernels->attention_launch_s * 1.01) };
    g_array_append_val(rows, row);
    add_length(curve_of(kernels, p), p->n);
  }
  Device device = device_of(fit);
  const AttentionRow *first = (const AttentionRow *)(gpointer)rows->data;
  for (int i = 0; i < kernels->n_attention; i++)
    fit_attention_curve(first, rows->len, &device, &kernels->attention[i]);
  fit->attention = fit_attention_errors(first, rows->len, &device);
  kernels->attention_crowding = crowding_of(points, POINT_ATTENTION, NULL, FALSE);
}

/* ---- kernels bound by memory ---- */

static double fraction_of(const MachinePoint *p, const MachineFit *fit)
{
  double left = MAX(p->seconds - fit->kernels.memory_launch_s, 0.1 * p->seconds);
  return p->bytes / (left * fit->copy_bytes_per_s);
}

static void add_memory_kernel(const GArray *points, MachineFit *fit, const MachinePoint *like_this)
{
  g_autoptr(GArray) fractions = g_array_new(FALSE, FALSE, sizeof(double));
  Kernels *kernels = &fit->kernels;

  if (like_this->busy > 1 || memory_kernel(kernels, like_this->name, like_this->backward))
    return;
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = at(points, i);
    if (!like(p, POINT_MEMORY, like_this->name, like_this->backward) || p->busy > 1)
      continue;
    double fraction = fraction_of(p, fit);
    g_array_append_val(fractions, fraction);
  }
  kernels->memory_kernels[kernels->n_memory_kernels++] = (MemoryKernel) {
    .name = g_strdup(like_this->name), .backward = like_this->backward, .fraction = median(fractions),
    .crowding = crowding_of(points, POINT_MEMORY, like_this->name, like_this->backward),
    .provenance = PROVENANCE_FITTED,
  };
}

static void set_memory(const GArray *points, MachineFit *fit)
{
  Kernels *kernels = &fit->kernels;
  g_autofree double *errors = g_new(double, points->len);
  int n = 0;

  kernels->memory_kernels = g_new0(MemoryKernel, points->len);
  kernels->memory_fraction = 1;
  kernels->memory_crowding = crowding_of(points, POINT_TRANSFER, "copy", FALSE);
  for (guint i = 0; i < points->len; i++)
    if (at(points, i)->kind == POINT_MEMORY)
      add_memory_kernel(points, fit, at(points, i));
  Device device = device_of(fit);
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = at(points, i);
    if (p->kind == POINT_MEMORY && p->busy == 1)
      errors[n++] = fabs(named_memory_s(&device, p->name, p->backward, p->bytes, 1) / p->seconds - 1);
  }
  fit->memory = fit_errors(errors, n);
}

/* ---- the link ---- */

/* A node of the machine, as far as a link can tell; joined by the link that is sought. */
static Cluster *node_of(const MachineFit *fit)
{
  int ranks = fit->head.ranks;
  Cluster *c = g_new0(Cluster, 1);

  c->name = g_strdup("node");
  c->devices_per_node = c->devices = ranks;
  c->nodes = c->n_tiers = 1;
  c->network_tier = -1;
  c->tiers[0] = (Tier) { .name = g_strdup("memory"), .link = fit->link, .devices = ranks,
                         .bytes_per_s = fit->copy_bytes_per_s, .port_bytes_per_s = fit->copy_bytes_per_s };
  c->tiers[0].link.name = g_strdup("memory");
  return c;
}

static void set_link(const GArray *points, MachineFit *fit)
{
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(CollectiveRow));
  gboolean hops = fit->head.ranks > 2;

  fit->link = (Link) { .kind = LINK_SWITCH, .compute_slowdown = 1, .efficiency = 0.5, .p2p_efficiency = 0.5 };
  g_autoptr(Cluster) node = node_of(fit);
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = at(points, i);
    if (p->kind != POINT_COLLECTIVE)
      continue;
    CollectiveRow row = { .collective = names_find(collective_names, p->name), .cluster = node, .bytes = p->bytes,
                          .seconds = p->seconds, .weight = 1, .group = { .size = p->ranks } };
    for (int t = 0; t < TIER_MAX; t++)
      row.group.per_domain[t] = p->ranks;
    g_array_append_val(rows, row);
  }
  fit->linked = rows->len > 0;
  fit->link.compute_slowdown = slowdown_of(points);
  if (fit->linked)
    fit->link_errors = fit_link((CollectiveRow *)(gpointer)rows->data, rows->len, 0,
                                FIT_LINK_BASE | FIT_LINK_RATE | FIT_LINK_P2P | FIT_LINK_REDUCE | (hops ? FIT_LINK_HOP : 0), &fit->link).fit;
}

gboolean machine_fit(const MachineHead *head, const GArray *points, MachineFit *out, GError **error)
{
  *out = (MachineFit) { .head = *head };
  if (!set_rates(points, out, error))
    return FALSE;
  out->rate_spread = spread_of(points, head->ranks);
  set_matmul(points, out);
  set_attention(points, out);
  set_memory(points, out);
  set_link(points, out);
  return TRUE;
}

void machine_fit_clear(MachineFit *fit)
{
  for (int i = 0; i < fit->kernels.n_memory_kernels; i++)
    g_free(fit->kernels.memory_kernels[i].name);
  g_free(fit->kernels.memory_kernels);
  g_free(fit->kernels.attention);
  *fit = (MachineFit) { .linked = FALSE };
}
