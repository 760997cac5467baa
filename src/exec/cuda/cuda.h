/*
 * The CUDA backend: own kernels, cuBLASLt and NCCL behind the table of
 * exec/backend.h. One process drives one device, which it takes by its local
 * rank. Nothing of GLib or GSL is linked by it.
 */
#ifndef TDP_EXEC_CUDA_CUDA_H
#define TDP_EXEC_CUDA_CUDA_H

#include "exec/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dtype may be fp32, fp16 or bf16. With more than one rank `address`, or if that
 * is NULL the variable NCCL_COMM_ID, is where rank 0 listens for NCCL's bootstrap.
 * NULL and a line in `error` if there is no
 * device or no NCCL. */
Backend *cuda_open(const BackendOptions *options, char *error);

#ifdef __cplusplus
}
#endif

#endif
