#include "exec/exec.h"

#include "exec/cpu/cpu.h"
#include "exec/cuda/cuda.h"

const BackendKind backends[] = {
#ifdef TDP_CUDA
  { "cuda", cuda_open },
#endif
  { "cpu", cpu_open },
  { NULL, NULL },
};
