#include "cost/offload.h"

#include <math.h>

/* Of Adam as usual: optimizer_bytes_beyond are added. Traffic of a step on the host for a parameter: states and master
 * weight read and written in fp32, the gradient read, the weight written in 16 bits. */
#define HOST_STEP_BYTES 30.0

/* Of a parameter on NVMe, each way: fp32 master weight, moments and gradient (arXiv 2104.07857, section 4). */
#define NVME_STEP_BYTES 16.0

static int sharing(const Cluster *cluster, const Plan *plan)
{
  return MIN(cluster->devices_per_node, plan->gpus);
}

double host_copy_s(const Cluster *c, const Plan *plan, Store store, gboolean to_device, double bytes)
{
  double all = bytes * sharing(c, plan), seconds = bytes / c->device.host_bytes_per_s;

  if (store == STORE_DEVICE)
    return 0;
  seconds = MAX(seconds, all / c->host_memory_bytes_per_s);
  if (store == STORE_NVME)
    seconds = MAX(seconds, all / (to_device ? c->nvme_read_bytes_per_s : c->nvme_write_bytes_per_s));
  return seconds;
}

static double nvme_s(const Plan *plan, const Cluster *c, double owned)
{
  double beyond = optimizer_bytes_beyond(&plan->optimizer, plan->precision);
  double bytes = owned * (NVME_STEP_BYTES + beyond) * sharing(c, plan);
  return plan->offload.optimizer == STORE_NVME ? bytes / c->nvme_read_bytes_per_s + bytes / c->nvme_write_bytes_per_s
                                               : 0;
}

/* Updated weights go to the device, or to NVMe where passes fetch them from. */
static double weights_s(const Plan *plan, const Cluster *c, double bytes)
{
  if (plan->offload.parameters)
    return plan->offload.parameters == STORE_NVME ? bytes * sharing(c, plan) / c->nvme_write_bytes_per_s : 0;
  return host_copy_s(c, plan, STORE_CPU, TRUE, bytes);
}

HostStep host_step(const Plan *plan, const Cluster *c, double owned, double gradient_bytes)
{
  double groups = plan->offload.sub_group > 0 ? MAX(1, ceil(owned / plan->offload.sub_group)) : 1;
  double beyond = optimizer_bytes_beyond(&plan->optimizer, plan->precision);
  double adam = owned * (HOST_STEP_BYTES + 2 * beyond) * sharing(c, plan) / c->host_memory_bytes_per_s;
  double states = nvme_s(plan, c, owned), weights = weights_s(plan, c, owned * dtype_bytes[plan->precision]);
  double down = plan_stores_gradients(plan) ? 0 : host_copy_s(c, plan, STORE_CPU, FALSE, owned * gradient_bytes);

  if (plan->offload.delayed)
    return (HostStep) { .copied_s = down + weights, .beside_s = adam + states };
  double most = MAX(adam, MAX(states, weights)), sum = adam + states + weights;
  double whole = most + (sum - most) / groups;
  return (HostStep) { .copied_s = down + MAX(0, whole - adam), .host_s = adam };
}
