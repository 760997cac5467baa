#include "calibrate/machine_fit.h"

#include "base/error.h"
#include "calibrate/machine_parts.h"

#include <math.h>
#include <string.h>

#define REGISTER_TILE 16 /* OpenBLAS' for AVX-512, in fp32 */
#define ABOVE_FASTEST 1.02 /* the peak, so that an efficiency below 1 is left to fit */

/* ---- rates ---- */

static double rate_of(const GArray *points, PointKind kind, const char *name)
{
  for (guint i = 0; i < points->len; i++)
    if (point_like(point_at(points, i), kind, name, FALSE) && point_at(points, i)->busy == 1)
      return point_at(points, i)->bytes / point_at(points, i)->seconds;
  return 0;
}

static double launch_of(const GArray *points)
{
  for (guint i = 0; i < points->len; i++)
    if (point_at(points, i)->kind == POINT_LAUNCH && point_at(points, i)->busy == 1)
      return point_at(points, i)->seconds;
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
    const MachinePoint *p = point_at(points, i);
    if (p->kind == POINT_MATMUL && p->busy == 1)
      fit->peak_flops_per_s = MAX(fit->peak_flops_per_s, ABOVE_FASTEST * 2.0 * p->m * p->n * p->k / p->seconds);
  }
  if (fit->peak_flops_per_s > 0 && fit->copy_bytes_per_s > 0 && fit->host_bytes_per_s > 0)
    return TRUE;
  return input_error(error, "expected products and transfers (name copy, upload, download) of one rank (busy 1)");
}

/* ---- products ---- */

/* By the first letters of a point: which of its factors are transposed. */
static Product product_of(const MachinePoint *p)
{
  return p->name[0] == 't' ? PRODUCT_WEIGHT_GRADIENT : p->name[1] == 't' ? PRODUCT_FORWARD : PRODUCT_INPUT_GRADIENT;
}

/* Of one kind, or of all (PRODUCT_COUNT). */
static GArray *products_of(const GArray *points, DType dtype, Product product)
{
  GArray *rows = g_array_new(FALSE, FALSE, sizeof(MatmulRow));

  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = point_at(points, i);
    double key[] = { p->m, p->n, p->k };
    if (p->kind != POINT_MATMUL || p->busy > 1 || (product != PRODUCT_COUNT && product_of(p) != product))
      continue;
    MatmulRow row = { .shape = { p->m, p->n, p->k, 1, dtype, .product = product_of(p),
                                 .accumulate_bytes = product_of(p) == PRODUCT_WEIGHT_GRADIENT ? 4.0 * p->m * p->n : 0 },
                      .seconds = p->seconds, .check = fit_is_check(key, 3) };
    g_array_append_val(rows, row);
  }
  return rows;
}

static void fit_products(const GArray *points, Product product, MachineFit *fit, MatmulModel *model, FitResult *errors)
{
  g_autoptr(GArray) rows = products_of(points, fit->head.precision, product);
  Quantize none;

  model->tile = head_is_large(&fit->head) ? 0 : REGISTER_TILE;
  *errors = fit_matmul((const MatmulRow *)(gpointer)rows->data, rows->len, fit->peak_flops_per_s, fit->copy_bytes_per_s,
                       fit->head.units, model, &none);
  model->crowding = points_crowding(points, POINT_MATMUL, NULL, FALSE);
}

/* Kernels of GPUs take about the same time for all kinds, a core's do not. */
static void set_matmul(const GArray *points, MachineFit *fit)
{
  Kernels *k = &fit->kernels;
  DType dtype = fit->head.precision;

  if (head_is_large(&fit->head)) {
    fit_products(points, PRODUCT_COUNT, fit, &k->matmul[dtype], &fit->matmul[PRODUCT_FORWARD]);
    return;
  }
  for (Product product = 0; product < PRODUCT_COUNT; product++)
    fit_products(points, product, fit, product == PRODUCT_FORWARD ? &k->matmul[dtype] : &k->gradients[product][dtype],
                 &fit->matmul[product]);
}

/* ---- attention ---- */

static Device device_of(const MachineFit *fit)
{
  Device device = { .memory_bytes_per_s = fit->copy_bytes_per_s, .sms = fit->head.units,
                    .sustained_fraction = 1, .kernels = fit->kernels };

  device.peak_flops_per_s[fit->head.precision] = fit->peak_flops_per_s;
  return device;
}

static AttentionWork work_of(const MachinePoint *p, DType dtype)
{
  return (AttentionWork) { .batch = p->m, .heads = p->k, .q_len = p->n, .kv_len = p->n, .head_dim = p->head_dim,
                           .v_head_dim = p->head_dim, .causal = TRUE, .backward = p->backward, .kernel = ATTENTION_FLASH,
                           .dtype = dtype };
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
    const MachinePoint *p = point_at(points, i);
    if (p->kind != POINT_ATTENTION || p->busy > 1)
      continue;
    AttentionRow row = { .work = work_of(p, fit->head.precision),
                         .seconds = MAX(p->seconds, kernels->attention_launch_s * 1.01) };
    g_array_append_val(rows, row);
    add_length(curve_of(kernels, p), p->n);
  }
  Device device = device_of(fit);
  const AttentionRow *first = (const AttentionRow *)(gpointer)rows->data;
  for (int i = 0; i < kernels->n_attention; i++)
    fit_attention_curve(first, rows->len, &device, &kernels->attention[i]);
  fit->attention = fit_attention_errors(first, rows->len, &device);
  kernels->attention_crowding = points_crowding(points, POINT_ATTENTION, NULL, FALSE);
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
    const MachinePoint *p = point_at(points, i);
    if (!point_like(p, POINT_MEMORY, like_this->name, like_this->backward) || p->busy > 1)
      continue;
    double fraction = fraction_of(p, fit);
    g_array_append_val(fractions, fraction);
  }
  kernels->memory_kernels[kernels->n_memory_kernels++] = (MemoryKernel) {
    .name = g_strdup(like_this->name), .name_length = strlen(like_this->name), .backward = like_this->backward,
    .fraction = points_median(fractions),
    .crowding = points_crowding(points, POINT_MEMORY, like_this->name, like_this->backward),
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
  kernels->memory_crowding = points_crowding(points, POINT_TRANSFER, "copy", FALSE);
  for (guint i = 0; i < points->len; i++)
    if (point_at(points, i)->kind == POINT_MEMORY)
      add_memory_kernel(points, fit, point_at(points, i));
  Device device = device_of(fit);
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = point_at(points, i);
    if (p->kind == POINT_MEMORY && p->busy == 1)
      errors[n++] = fabs(named_memory_s(&device, p->name, p->backward, p->bytes, 1, 0) / p->seconds - 1);
  }
  fit->memory = fit_errors(errors, n);
}

gboolean machine_fit(const MachineHead *head, const GArray *points, MachineFit *out, GError **error)
{
  *out = (MachineFit) { .head = *head };
  if (!library_load(LIBRARY_USUAL, &out->library, error) || !set_rates(points, out, error))
    return FALSE;
  machine_fit_spread(points, out);
  set_matmul(points, out);
  set_attention(points, out);
  set_memory(points, out);
  machine_fit_switch(points, out);
  machine_fit_walks(points, out);
  machine_fit_links(points, out);
  return TRUE;
}

void machine_fit_clear(MachineFit *fit)
{
  for (int i = 0; i < fit->kernels.n_memory_kernels; i++)
    g_free(fit->kernels.memory_kernels[i].name);
  g_free(fit->kernels.memory_kernels);
  g_free(fit->kernels.attention);
  *fit = (MachineFit) { .peak_flops_per_s = 0 };
}
