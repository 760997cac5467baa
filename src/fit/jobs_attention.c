#include "fit/jobs.h"
#include "fit/part_file.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cost/kernel.h"

static const double lengths[] = {512, 1024, 2048, 4096, 8192, 16384};
static const int head_dims[] = {64, 128, 160, 256};

/* ---- curves in the file ---- */

static gboolean is_curve(const cJSON *item, const AttentionCurve *curve)
{
  const char *kernel = cJSON_GetStringValue(json_get(item, "kernel")),
             *pass = cJSON_GetStringValue(json_get(item, "pass"));
  return kernel && pass && strcmp(kernel, attention_kernel_names[curve->kernel]) == 0 &&
         strcmp(pass, curve->backward ? "backward" : "forward") == 0 &&
         !cJSON_IsTrue(json_get(item, "causal")) == !curve->causal &&
         !cJSON_IsTrue(json_get(item, "narrow")) == !curve->narrow &&
         cJSON_GetNumberValue(json_get(item, "head_dim")) == curve->head_dim;
}

static cJSON *find_curve(cJSON *curves, const AttentionCurve *curve)
{
  cJSON *item;
  cJSON_ArrayForEach(item, curves) if (is_curve(item, curve)) return item;
  item = cJSON_CreateObject();
  cJSON_AddItemToArray(curves, item);
  return item;
}

static void put_curve(cJSON *target, const AttentionCurve *curve, const char *source)
{
  cJSON *attention = part_file_member(target, "attention", FALSE);
  cJSON *item = find_curve(part_file_member(attention, "curves", TRUE), curve);
  part_file_string(item, "kernel", attention_kernel_names[curve->kernel]);
  part_file_string(item, "pass", curve->backward ? "backward" : "forward");
  part_file_bool(item, "causal", curve->causal);
  if (curve->narrow)
    part_file_bool(item, "narrow", TRUE);
  part_file_number(item, "head_dim", curve->head_dim);
  part_file_numbers(item, "seq", curve->seq, curve->n);
  part_file_numbers(item, "utilization", curve->utilization, curve->n);
  part_file_string(item, "source", source);
}

static gboolean load(const FitJob *job, Device *device, int *kernel, GError **error)
{
  *kernel = names_find(attention_kernel_names, job->constants);
  if (*kernel < 0)
    return input_error(error, "fits.csv: %s: expected flash1, flash or flash3", job->constants);
  return device_load(job->hardware, device, error);
}

/* ---- fits ---- */

/* `data` is SOURCE/GPU/SPLIT. */
typedef struct {
  gboolean server; /* times of a server's kernels */
  gboolean split;  /* forward passes are shares of another GPU */
  gboolean apart;  /* both passes were timed apart */
} Origin;

static GArray *read_rows(const FitData *data, const FitJob *job, Origin *origin, GError **error)
{
  g_auto(GStrv) words = g_strsplit(job->data, "/", -1);
  if (g_strv_length(words) != 3) {
    input_error(error, "fits.csv: %s: expected SOURCE/GPU/SPLIT", job->data);
    return NULL;
  }
  *origin = (Origin){strcmp(words[0], "server") == 0, strcmp(words[1], words[2]) != 0,
                     strcmp(words[0], "cudnn") == 0};
  return data_attention(data->attention, words[0], words[1], job->constants, words[2], error);
}

static char *source_of(const FitJob *job, const Origin *origin, const AttentionCurve *curve)
{
  const char *how = "";
  if (origin->server)
    how = ", a server's fixed time and cache writes taken off";
  else if (origin->split)
    how = ", both passes together split as those of FlashAttention-2 on the last-named GPU";
  else if (curve->backward && !origin->apart)
    how = ", both passes together less the forward one";
  return g_strdup_printf("fitted: %s (hardware/data/attention.csv)%s", job->data, how);
}

#define N_KINDS 8 /* of curves for a head size */

static int fit_curves(const GArray *rows, const Device *device, int kernel, AttentionCurve *curves)
{
  int n = 0;
  for (guint h = 0; h < G_N_ELEMENTS(head_dims); h++) {
    for (int kind = 0; kind < N_KINDS; kind++) {
      AttentionCurve curve = {.kernel = (AttentionKernel)kernel, .narrow = kind / 4, .backward = kind / 2 % 2,
                              .causal = kind % 2, .head_dim = head_dims[h], .n = G_N_ELEMENTS(lengths)};
      memcpy(curve.seq, lengths, sizeof lengths);
      if (fit_attention_curve((const AttentionRow *)(gpointer)rows->data, (int)rows->len, device, &curve))
        curves[n++] = curve;
    }
  }
  return n;
}

static FitResult errors_with(const GArray *rows, const Device *device, AttentionCurve *curves, int n)
{
  Device fitted = *device;
  fitted.kernels.attention = curves;
  fitted.kernels.n_attention = n;
  return fit_attention_errors((const AttentionRow *)(gpointer)rows->data, (int)rows->len, &fitted);
}

static void put_curves(cJSON *target, const FitJob *job, const Origin *origin, const AttentionCurve *curves, int n)
{
  for (int i = 0; i < n; i++) {
    g_autofree char *source = source_of(job, origin, &curves[i]);
    put_curve(target, &curves[i], source);
  }
}

static void put_tail(cJSON *target, const FitJob *job, double tail, int times)
{
  cJSON *attention = part_file_member(target, "attention", FALSE);
  g_autofree char *source = g_strdup_printf(
    "fitted: %d times of %s in hardware/data/attention.csv, with a server's fixed time and cache writes", times,
    job->data);

  part_file_number(attention, "tail", tail);
  part_file_string(part_file_member(attention, "source", FALSE), "tail", source);
}

/* Fits curves, and with `tail` how blocks end; of either it writes what the job is for. */
static gboolean fit(const FitData *data, const FitJob *job, gboolean tail, cJSON *target, FitResult *result,
                    GError **error)
{
  Origin origin = {0};
  int kernel = 0;
  g_autoptr(GArray) rows = read_rows(data, job, &origin, error);
  g_auto(Device) device = {0};
  if (!rows || !load(job, &device, &kernel, error))
    return FALSE;
  if (tail || origin.server)
    fit_attention_serving((AttentionRow *)(gpointer)rows->data, (int)rows->len, &device, tail);
  AttentionCurve curves[N_KINDS * G_N_ELEMENTS(head_dims)];
  int n = fit_curves(rows, &device, kernel, curves);
  *result = errors_with(rows, &device, curves, n);
  if (tail)
    put_tail(target, job, device.kernels.attention_tail, result->fit.n);
  else
    put_curves(target, job, &origin, curves, n);
  return TRUE;
}

gboolean fit_attention_job(const FitData *data, const FitJob *job, cJSON *target, FitResult *result, GError **error)
{
  return fit(data, job, FALSE, target, result, error);
}

gboolean fit_attention_tail_job(const FitData *data, const FitJob *job, cJSON *target, FitResult *result,
                                GError **error)
{
  return fit(data, job, TRUE, target, result, error);
}

gboolean fit_attention_check_job(const FitData *data, const FitJob *job, cJSON *target, FitResult *result,
                                 GError **error)
{
  (void)target;
  Origin origin = {0};
  g_autoptr(GArray) rows = read_rows(data, job, &origin, error);
  g_auto(Device) device = {0};
  if (!rows || !device_load(job->hardware, &device, error))
    return FALSE;
  fit_attention_serving((AttentionRow *)(gpointer)rows->data, (int)rows->len, &device, FALSE);
  for (guint i = 0; i < rows->len; i++)
    g_array_index(rows, AttentionRow, i).check = TRUE;
  *result = fit_attention_errors((const AttentionRow *)(gpointer)rows->data, (int)rows->len, &device);
  return TRUE;
}

gboolean fit_attention_sustained_job(const FitData *data, const FitJob *job, cJSON *target, FitResult *result,
                                     GError **error)
{
  Origin origin = {0};
  int kernel = 0;
  g_auto(Device) device = {0};
  g_autoptr(GArray) rows = read_rows(data, job, &origin, error);
  if (!rows || !load(job, &device, &kernel, error))
    return FALSE;
  *result = fit_attention_sustained((const AttentionRow *)(gpointer)rows->data, (int)rows->len, &device);
  if (result->fit.n == 0)
    return input_error(error, "attention.csv: %s: expected a row that is not for checking", job->data);
  cJSON *attention = part_file_member(target, "attention", FALSE);
  g_autofree char *source = g_strdup_printf(
    "fitted: %d kernels of %s in hardware/data/attention.csv, as training runs them, keep this share (median) of the "
    "curves; %d others: mean error %.1f %%", result->fit.n, job->data, result->check.n, 100 * result->check.mean);
  part_file_number(attention, "sustained_fraction", device.kernels.attention_sustained);
  part_file_string(part_file_member(attention, "source", FALSE), "sustained_fraction", source);
  return TRUE;
}

/* ---- curves that nobody measured ---- */

static const AttentionCurve *curve_of(const Kernels *kernels, const AttentionCurve *like)
{
  for (int i = 0; i < kernels->n_attention; i++) {
    const AttentionCurve *c = &kernels->attention[i];
    if (attention_alike(c, like) && c->head_dim == like->head_dim)
      return c;
  }
  return NULL;
}

static double at(const AttentionCurve *curve, double seq)
{
  for (int i = 0; i < curve->n; i++)
    if (curve->seq[i] >= seq)
      return curve->utilization[i];
  return curve->utilization[curve->n - 1];
}

/* `theirs` times own / other at each length, of one kind of curve that both parts have. */
static AttentionCurve scaled(const AttentionCurve *theirs, const AttentionCurve *own, const AttentionCurve *other)
{
  AttentionCurve out = *theirs;
  for (int i = 0; i < out.n; i++)
    out.utilization[i] = fmin(1, out.utilization[i] * at(own, out.seq[i]) / at(other, out.seq[i]));
  return out;
}

/* Backward curves of a kernel of which only forward ones are known. */
static void put_backward(cJSON *target, const Kernels *kernels, int kernel)
{
  for (int i = 0; i < kernels->n_attention; i++) {
    AttentionCurve curve = kernels->attention[i];
    if (curve.kernel != (AttentionKernel)kernel || curve.backward)
      continue;
    curve.backward = TRUE;
    for (int p = 0; p < curve.n; p++)
      curve.utilization[p] *= ATTENTION_BACKWARD_SHARE;
    put_curve(target, &curve, "default: 0.8 of the forward pass");
  }
}

static gboolean is_measured(const AttentionCurve *curve)
{
  return curve && curve->provenance != PROVENANCE_DEFAULT;
}

/* A curve that was measured on both parts, nearest in kind to `theirs`: the forward causal one of that head size, then
 * the same pass and mask of another, then any forward causal one; NULL without. */
static const AttentionCurve *basis(const Kernels *own, const Kernels *other, const AttentionCurve *theirs)
{
  const AttentionCurve *best = NULL;
  int best_rank = 0;

  for (int i = 0; i < own->n_attention; i++) {
    const AttentionCurve *c = &own->attention[i];
    gboolean first = !c->backward && c->causal && !c->narrow;
    int rank = first && c->head_dim == theirs->head_dim ? 3 : attention_alike(c, theirs) ? 2 : first;
    if (c->kernel == theirs->kernel && rank > best_rank && is_measured(c) && is_measured(curve_of(other, c))) {
      best = c;
      best_rank = rank;
    }
  }
  return best;
}

/* Curves that the other part has and this one lacks: one of its own times the other's ratio; without one, the
 * other's curve. */
static void put_missing(cJSON *target, const Kernels *own, const Kernels *other, int kernel, const char *name)
{
  for (int i = 0; i < other->n_attention; i++) {
    const AttentionCurve *theirs = &other->attention[i], *mine = curve_of(own, theirs);
    if (theirs->kernel != (AttentionKernel)kernel || is_measured(mine))
      continue;
    const AttentionCurve *base = basis(own, other, theirs);
    AttentionCurve curve = base ? scaled(theirs, base, curve_of(other, base)) : *theirs;
    g_autofree char *source =
      g_strdup_printf(base ? "default: an own curve times the ratio on %s" : "default: %s", name);
    put_curve(target, &curve, source);
  }
}

gboolean fit_attention_like_job(const FitData *data, const FitJob *job, cJSON *target, FitResult *result,
                                GError **error)
{
  (void)data;
  int kernel = 0;
  g_auto(Device) own = {0}, other = {0};
  *result = (FitResult){0};
  if (!load(job, &own, &kernel, error))
    return FALSE;
  if (strcmp(job->data, job->target) == 0) {
    put_backward(target, &own.kernels, kernel);
  } else {
    if (!device_load(job->data, &other, error))
      return FALSE;
    put_missing(target, &own.kernels, &other.kernels, kernel, other.kernels.name);
  }
  return TRUE;
}
