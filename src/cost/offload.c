#include "cost/offload.h"

/* Of Adam as usual: optimizer_bytes_beyond are added. Traffic of a step on the host for a parameter: states and master
 * weight read and written in fp32, the gradient read, the weight written in 16 bits. */
#define HOST_STEP_BYTES 30.0

/* Of a parameter on NVMe, each way: fp32 master weight, moments and gradient (arXiv 2104.07857, section 4). */
#define NVME_STEP_BYTES 16.0

double host_sharers(const StateLayout *states, const Cluster *cluster)
{
  return MIN(cluster->devices_per_node, states->ranks);
}

static double copy_s(const Cluster *c, double sharers, Store store, gboolean to_device, double bytes)
{
  double all = bytes * sharers, seconds = bytes / c->device.host_bytes_per_s;

  if (store == STORE_DEVICE)
    return 0;
  seconds = MAX(seconds, all / c->host_memory_bytes_per_s);
  if (store == STORE_NVME)
    seconds = MAX(seconds, all / (to_device ? c->nvme_read_bytes_per_s : c->nvme_write_bytes_per_s));
  return seconds;
}

double host_copy_s(const Cluster *c, const StateLayout *states, Store store, gboolean to_device, double bytes)
{
  return copy_s(c, host_sharers(states, c), store, to_device, bytes);
}

/* `all`: parameters that the node updates. */
static double nvme_s(const StateLayout *states, const Cluster *c, double all)
{
  double beyond = optimizer_bytes_beyond(&states->optimizer, states->formats.precision);
  double bytes = all * (NVME_STEP_BYTES + beyond);
  return states->offload.optimizer == STORE_NVME ? bytes / c->nvme_read_bytes_per_s + bytes / c->nvme_write_bytes_per_s
                                               : 0;
}

/* Updated weights go to the device, or to NVMe where passes fetch them from. */
static double weights_s(const StateLayout *states, const Cluster *c, double bytes, double sharers)
{
  if (states->offload.parameters)
    return states->offload.parameters == STORE_NVME ? bytes * sharers / c->nvme_write_bytes_per_s : 0;
  return copy_s(c, sharers, STORE_CPU, TRUE, bytes);
}

HostStep host_step(const StateLayout *states, const Cluster *c, double owned, double sharers)
{
  double groups = MAX(1, owned / offload_group(&states->offload));
  double beyond = optimizer_bytes_beyond(&states->optimizer, states->formats.precision);
  double adam = owned * (HOST_STEP_BYTES + 2 * beyond) * sharers / c->host_memory_bytes_per_s;
  double nvme = nvme_s(states, c, owned * sharers);
  double weights = weights_s(states, c, owned * dtype_bytes[states->formats.precision], sharers);
  double down = states->stores_gradients ? 0 : copy_s(c, sharers, STORE_CPU, FALSE, owned * states->reduce_bytes);

  if (states->offload.delayed)
    return (HostStep) { .copied_s = down + weights, .beside_s = adam + nvme };
  double most = MAX(adam, MAX(nvme, weights)), sum = adam + nvme + weights;
  double whole = most + (sum - most) / groups;
  return (HostStep) { .copied_s = down + MAX(0, whole - adam), .host_s = adam };
}
