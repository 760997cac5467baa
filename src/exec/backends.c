#include "exec/exec.h"

#include "exec/cpu/cpu.h"
#include "exec/cuda/cuda.h"

const BackendKind backends[] = {
#ifdef TDP_CUDA
  { "cuda", cuda_open },
#endif
#ifdef TDP_MPI
  { "cpu", cpu_mpi_open },
#else
  { "cpu", cpu_open },
#endif
  { NULL, NULL },
};
