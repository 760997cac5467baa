/*
 * The CUDA backend: own kernels, cuBLASLt and NCCL behind the table of
 * exec/backend.h. One process drives one device, which it takes by its local
 * rank. Nothing of GLib or GSL is linked by it.
 *
 * A rank has receives and collectives under way, kernels that wait for others, while
 * it launches more. Whatever in CUDA or NCCL waits for the device, or for another rank,
 * can then wait for ever. So opening sets, unless the user has,
 *   CUDA_MODULE_LOADING=EAGER       by default a kernel is loaded at its first launch,
 *                                   which waits for what runs (CUDA Programming Guide 4.7,
 *                                   "Potential Hazards"; meta-pytorch/torchcomms#2334)
 *   CUDA_DEVICE_MAX_CONNECTIONS=32  streams that share one of the hardware queues, 8 by
 *                                   default, wait for each other; streams beyond this
 *                                   number are refused
 *   NCCL_RUNTIME_CONNECT=0          collectives connect when a communicator is made, not
 *                                   at their first call
 * and runs a product. What a send and its receive need is connected at the first of
 * them, which waits for the other rank (NVIDIA/nccl#783): the executor sends something
 * over each communicator before the first step (groups.c).
 *
 * The host waits by asking, never inside the driver (waits.cu): it posts receives
 * meanwhile, sees failures of NCCL, and counts as activity what the device has done.
 */
#ifndef TDP_EXEC_CUDA_CUDA_H
#define TDP_EXEC_CUDA_CUDA_H

#include "exec/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dtype may be fp32, fp16 or bf16. NULL and a line in `error` if there is no device or no NCCL. */
Backend *cuda_open(const BackendOptions *options, char *error);

#ifdef __cplusplus
}
#endif

#endif
