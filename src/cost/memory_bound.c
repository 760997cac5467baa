#include "cost/kernel.h"

double memory_s(const Device *device, double bytes, double kernels)
{
  return kernels * device->kernels.memory_launch_s +
         bytes / (device->memory_bytes_per_s * device->kernels.memory_fraction);
}
