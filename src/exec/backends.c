#include "exec/exec.h"

#include "exec/cpu/cpu.h"

const BackendKind backends[] = {
#ifdef TDP_MPI
  { "cpu", cpu_mpi_open },
#else
  { "cpu", cpu_open },
#endif
  { NULL, NULL },
};
