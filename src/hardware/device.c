#include "hardware/device.h"

#include "base/units.h"
#include "hardware/part.h"
#include "hardware/plausible.h"

#define TFLOP_PER_S 1e12
#define MS 1e-3

static const JsonField device_fields[] = {
  {"name", JSON_STRING, G_STRUCT_OFFSET(Device, name), TRUE},
  {"arch", JSON_STRING, G_STRUCT_OFFSET(Device, arch), TRUE},
  {"peak_tflops", JSON_ANY, .required = TRUE},
  {"memory_gib", JSON_REAL, G_STRUCT_OFFSET(Device, memory_bytes), TRUE, PLAUSIBLE_MEMORY_GIB, GIB},
  {"memory_gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Device, memory_bytes_per_s), TRUE, PLAUSIBLE_GB_PER_S, GB},
  {"l2_mib", JSON_REAL, G_STRUCT_OFFSET(Device, l2_bytes), FALSE, G_MINDOUBLE, 1e6, MIB},
  {"l2_alone_mib", JSON_REAL, G_STRUCT_OFFSET(Device, l2_alone_bytes), FALSE, G_MINDOUBLE, 1e6, MIB},
  {"l2_ramp", JSON_REAL, G_STRUCT_OFFSET(Device, l2_ramp), FALSE, 1, 100},
  {"beyond_l2_gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Device, beyond_l2_bytes_per_s), FALSE, PLAUSIBLE_GB_PER_S, GB},
  {"beyond_l2_crowding", JSON_REAL, G_STRUCT_OFFSET(Device, beyond_l2_crowding), FALSE, 1, 1000},
  {"sms", JSON_INT, G_STRUCT_OFFSET(Device, sms), TRUE, 1, 1e6},
  {"host_gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Device, host_bytes_per_s), TRUE, PLAUSIBLE_GB_PER_S, GB},
  {"host_coherent", JSON_BOOL, G_STRUCT_OFFSET(Device, host_coherent)},
  {"fp8_columns", JSON_BOOL, G_STRUCT_OFFSET(Device, fp8_columns)},
  {"host_slowdown", JSON_REAL, G_STRUCT_OFFSET(Device, host_slowdown), FALSE, 0.1, 100},
  {"sustained_fraction", JSON_REAL, G_STRUCT_OFFSET(Device, sustained_fraction), FALSE, 0.1, 1},
  {"rate_spread", JSON_REAL, G_STRUCT_OFFSET(Device, rate_spread), FALSE, 0, RATE_SPREAD_MAX},
  {"rate_passing", JSON_REAL, G_STRUCT_OFFSET(Device, rate_passing), FALSE, 0, RATE_SPREAD_MAX},
  {"rate_jitter", JSON_REAL, G_STRUCT_OFFSET(Device, rate_jitter), FALSE, 0, 1},
  {"rate_jitter_ms", JSON_REAL, G_STRUCT_OFFSET(Device, rate_jitter_s), FALSE, G_MINDOUBLE, 1e6, MS},
  {"switch_us", JSON_REAL, G_STRUCT_OFFSET(Device, switch_s), FALSE, 0, 1e6, US},
  {"switch_after_us", JSON_REAL, G_STRUCT_OFFSET(Device, switch_after_s), FALSE, G_MINDOUBLE, 1e6, US},
  {"power_w", JSON_REAL, G_STRUCT_OFFSET(Device, power_w), FALSE, PLAUSIBLE_WATTS},
  {"kernels", JSON_ANY, .required = TRUE},
  {"kernels_provenance", JSON_ANY},
  {"short_name", JSON_ANY},   /* of clusters (cluster.c) */
  {"usual_server", JSON_ANY}, /* likewise */
};

static gboolean read_peaks(const PartSource *above, const cJSON *item, Device *device, GError **error)
{
  JsonField fields[DTYPE_COUNT];
  for (int d = 0; d < DTYPE_COUNT; d++)
    fields[d] = (JsonField){dtype_names[d], JSON_REAL, d * sizeof(double), FALSE, PLAUSIBLE_TFLOP_PER_S, TFLOP_PER_S};
  PartSource inside;
  if (!part_inside(above, item, &inside, error) ||
      !part_fields(&inside, fields, DTYPE_COUNT, device->peak_flops_per_s, NULL, error))
    return FALSE;
  for (int d = 0; d < DTYPE_COUNT; d++)
    if (device->peak_flops_per_s[d] > 0)
      return TRUE;
  return json_error(above->doc, item, error, "the peak of at least one number format");
}

static void kernels_clear(Kernels *kernels)
{
  g_free(kernels->name);
  g_free(kernels->attention);
  memory_kernels_clear(kernels);
  *kernels = (Kernels){0};
}

static void kernels_lower(Kernels *kernels, Provenance most)
{
  for (int d = 0; d < DTYPE_COUNT; d++)
    kernels->matmul[d].provenance = MIN(kernels->matmul[d].provenance, most);
  for (int i = 0; i < kernels->n_attention; i++)
    kernels->attention[i].provenance = MIN(kernels->attention[i].provenance, most);
  for (int i = 0; i < kernels->n_memory_kernels; i++)
    kernels->memory_kernels[i].provenance = MIN(kernels->memory_kernels[i].provenance, most);
  kernels->memory_provenance = MIN(kernels->memory_provenance, most);
}

static gboolean read_kernels(const PartSource *source, Kernels *kernels, GError **error)
{
  const cJSON *item = json_get(source->object, "kernels");
  if (item) {
    kernels_clear(kernels);
    if (!part_read(&kernels_part, source, item, kernels, error))
      return FALSE;
  }
  const cJSON *most = json_get(source->object, "kernels_provenance");
  if (!most)
    return TRUE;
  int provenance = cJSON_IsString(most) ? names_find(provenance_names, most->valuestring) : -1;
  if (provenance < 0)
    return json_error(source->doc, most, error, "one of default, datasheet, fitted, measured");
  kernels_lower(kernels, provenance);
  return TRUE;
}

static gboolean read_device(const PartSource *source, gpointer out, GError **error)
{
  Device *device = out;
  if (!part_fields(source, device_fields, G_N_ELEMENTS(device_fields), device, NULL, error))
    return FALSE;
  if (device->host_slowdown == 0)
    device->host_slowdown = 1;
  if (device->sustained_fraction == 0)
    device->sustained_fraction = 1;
  if (device->rate_jitter > 0 && device->rate_jitter_s == 0)
    return part_missing(source, "rate_jitter_ms", error, "how long rate_jitter lasts");
  if (device->switch_s > 0 && device->switch_after_s == 0)
    return part_missing(source, "switch_after_us", error, "after how long switch_us is lost in full");
  if (device->beyond_l2_bytes_per_s > 0 && device->l2_bytes == 0)
    return part_missing(source, "l2_mib", error, "the cache beyond which beyond_l2_gb_per_s holds");
  if (device->beyond_l2_bytes_per_s > 0 && device->beyond_l2_crowding == 0)
    device->beyond_l2_crowding = 1;
  const cJSON *peaks = json_get(source->object, "peak_tflops");
  return (!peaks || read_peaks(source, peaks, device, error)) && read_kernels(source, &device->kernels, error);
}

const PartKind device_part = {"gpus", "GPU", read_device, NULL};

gboolean device_load(const char *name, Device *out, GError **error)
{
  *out = (Device){0};
  if (part_load(&device_part, name, out, error))
    return TRUE;
  device_clear(out);
  return FALSE;
}

AttentionKernel device_attention(const Device *device, AttentionKernel asked, AttentionKernel otherwise)
{
  const Kernels *kernels = &device->kernels;
  gboolean has[ATTENTION_KERNEL_COUNT] = { FALSE }, fused = FALSE;

  if (asked <= ATTENTION_EFFICIENT || kernels->n_attention == 0)
    return asked;
  for (int i = 0; i < kernels->n_attention; i++) {
    has[kernels->attention[i].kernel] = TRUE;
    fused = fused || kernels->attention[i].kernel > ATTENTION_EFFICIENT;
  }
  if (!fused)
    return otherwise;
  return asked == ATTENTION_FLASH3 && !has[ATTENTION_FLASH3] && has[ATTENTION_FLASH] ? ATTENTION_FLASH : asked;
}

void device_scale_launches(Device *device, double factor)
{
  Kernels *k = &device->kernels;

  for (int i = 0; i < DTYPE_COUNT; i++) {
    k->matmul[i].launch_s *= factor;
    k->grouped[i].launch_s *= factor;
    for (int product = 0; product < PRODUCT_COUNT; product++)
      k->gradients[product][i].launch_s *= factor;
  }
  k->memory_launch_s *= factor;
  k->attention_launch_s *= factor;
}

void device_clear(Device *device)
{
  g_free(device->name);
  g_free(device->arch);
  kernels_clear(&device->kernels);
  *device = (Device){0};
}
