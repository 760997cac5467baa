#include "fit/jobs.h"
#include "fit/part_file.h"

gboolean fit_matmul_job(const FitData *data, const FitJob *job, cJSON *target, FitResult *result, GError **error)
{
  g_autoptr(GArray) rows = data_matmul(data->matmul, job->data, job->constants, error);
  g_auto(Device) device = {0};
  if (!rows || !device_load(job->hardware, &device, error))
    return FALSE;
  MatmulModel model = device.kernels.matmul[DTYPE_BF16];
  Quantize quantize = {0};
  DType dtype = g_array_index(rows, MatmulRow, 0).shape.dtype;
  *result = fit_matmul((const MatmulRow *)(gpointer)rows->data, (int)rows->len, device.peak_flops_per_s[dtype],
                       device.memory_bytes_per_s, device.sms, &model, &quantize);
  cJSON *object = part_file_member(part_file_member(target, "matmul", FALSE), job->constants, FALSE);
  part_file_model(object, &model);
  g_autofree char *source = fit_source(result, "shapes of %s %s in hardware/data/gemm.csv", job->data, job->constants);
  part_file_string(object, "source", source);
  if (quantize.s_per_element > 0) {
    g_autofree char *note = g_strdup_printf(
      "without the dynamic quantization of A that the measured times include: %.1f us and %.2f ps an element",
      quantize.base_s * 1e6, quantize.s_per_element * 1e12);
    part_file_string(object, "note", note);
  }
  return TRUE;
}

gboolean fit_unaligned_job(const FitData *data, const FitJob *job, cJSON *target, FitResult *result, GError **error)
{
  static const char *const names[2][2] = {{"words", "words_of_activations"}, {"bytes", "bytes_of_activations"}};
  g_autoptr(GArray) rows = data_unaligned(data->unaligned, job->data, error);
  g_auto(Device) device = {0};
  if (!rows || !device_load(job->hardware, &device, error))
    return FALSE;
  MatmulModel model = device.kernels.matmul[DTYPE_FP16];
  *result = fit_unaligned((const MatmulRow *)(gpointer)rows->data, (int)rows->len,
                          device.peak_flops_per_s[DTYPE_FP16], device.memory_bytes_per_s, device.sms, &model);
  cJSON *object = part_file_member(target, "unaligned", FALSE);
  for (int kind = 0; kind < 4; kind++)
    part_file_number(object, names[kind / 2][kind % 2], model.unaligned[kind / 2][kind % 2]);
  g_autofree char *source = fit_source(result, "products of %s in hardware/data/unaligned.csv", job->data);
  part_file_string(object, "source", source);
  return TRUE;
}

gboolean fit_library_job(const FitData *data, const FitJob *job, cJSON *target, FitResult *result, GError **error)
{
  g_autoptr(GArray) rows = data_library(data->library, job->data, error);
  g_auto(Device) device = {0};
  if (!rows || !device_load(job->hardware, &device, error))
    return FALSE;
  MatmulModel model = device.kernels.matmul[DTYPE_BF16];
  FitResult own;
  int fitted = 0;
  for (guint i = 0; i < rows->len; i++)
    fitted += !g_array_index(rows, MatmulRow, i).check;
  *result = fit_library((const MatmulRow *)(gpointer)rows->data, (int)rows->len, &device, &model, &own);
  cJSON *object = part_file_member(target, "library", FALSE);
  part_file_number(object, "added_power", model.added_power);
  part_file_number(object, "experts_at_once", model.experts_at_once);
  g_autofree char *source = g_strdup_printf(
    "fitted: %d products of %s in hardware/data/library.csv, with the rate that they ran at; %d others, added or of "
    "experts: mean error %.1f %%, p90 %.1f %%, and %.1f %%, p90 %.1f %% at the device's own rate",
    fitted, job->data, result->check.n, 100 * result->check.mean, 100 * result->check.p90, 100 * own.check.mean,
    100 * own.check.p90);
  part_file_string(object, "source", source);
  return TRUE;
}
