/* GPUs by the names that drivers, and with them nccl-tests and torch's profiler, have for them. */
#include "import/import.h"

#include <string.h>

/* All words must be in the name; the first row that fits holds. */
static const struct {
  const char *words[2], *gpu;
} names[] = {
  { { "GB300" }, "gb300-288gb" },
  { { "GB200" }, "gb200-186gb" },
  { { "B300" }, "b300-sxm-288gb" },
  { { "B200" }, "b200-sxm-180gb" },
  { { "GH200" }, "gh200-96gb" },
  { { "H200" }, "h200-sxm5-141gb" },
  { { "H100 NVL" }, "h100-nvl-94gb" },
  { { "H100 PCIe" }, "h100-pcie-80gb" },
  { { "H100 96GB" }, "h100-sxm5-96gb" },
  { { "H100 80GB HBM3" }, "h100-sxm5-80gb" },
  { { "H800", "HBM3" }, "h800-sxm5-80gb" },
  { { "H20" }, "h20-96gb" },
  { { "A100-SXM4-40GB" }, "a100-sxm4-40gb" },
  { { "A100-SXM4-80GB" }, "a100-sxm4-80gb" },
  { { "A100-SXM-80GB" }, "a100-sxm4-80gb" },
  { { "A100", "80GB PCIe" }, "a100-pcie-80gb" },
  { { "A800-SXM4-80GB" }, "a800-sxm4-80gb" },
  { { "V100-SXM2-16GB" }, "v100-sxm2-16gb" },
  { { "V100-SXM2-32GB" }, "v100-sxm2-32gb" },
  { { "L40S" }, "l40s" },
  { { "A10G" }, "a10g" },
  { { "RTX 3090" }, "rtx-3090" },
  { { "RTX 4090" }, "rtx-4090" },
  { { "TITAN RTX" }, "titan-rtx" },
  { { "Tesla T4" }, "t4" },
  { { "MI250X" }, "mi250x" },
  { { "MI300X" }, "mi300x" },
  { { "MI325X" }, "mi325x" },
  { { "MI355X" }, "mi355x" },
};

const char *import_gpu_of(const char *driver_name)
{
  for (gsize i = 0; driver_name && i < G_N_ELEMENTS(names); i++)
    if (strstr(driver_name, names[i].words[0]) && (!names[i].words[1] || strstr(driver_name, names[i].words[1])))
      return names[i].gpu;
  return NULL;
}
