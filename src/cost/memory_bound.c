#include "cost/kernel.h"

#include <string.h>

double memory_s(const Device *device, double bytes, double kernels)
{
  return kernels * device->kernels.memory_launch_s +
         bytes / (device->memory_bytes_per_s * device->kernels.memory_fraction);
}

const MemoryKernel *memory_kernel(const Kernels *kernels, const char *name, gboolean backward)
{
  gsize length = strlen(name); /* a search asks for it a million times a second */

  for (int i = 0; i < kernels->n_memory_kernels; i++) {
    const MemoryKernel *kernel = &kernels->memory_kernels[i];
    if (!kernel->backward == !backward && kernel->name_length > 0 && kernel->name_length <= length &&
        name[length - 1] == kernel->name[kernel->name_length - 1] &&
        memcmp(name + length - kernel->name_length, kernel->name, kernel->name_length) == 0)
      return kernel;
  }
  return NULL;
}

double named_memory_s(const Device *device, const char *name, gboolean backward, double bytes, double kernels,
                      double flops)
{
  const MemoryKernel *kernel = memory_kernel(&device->kernels, name, backward);

  if (!kernel)
    return memory_s(device, bytes, kernels);
  double products_s = kernel->sm_flops_per_s > 0 ? flops / (kernel->sm_flops_per_s * device->sms) : 0;
  return kernels * device->kernels.memory_launch_s + bytes / (device->memory_bytes_per_s * kernel->fraction) +
         products_s;
}
