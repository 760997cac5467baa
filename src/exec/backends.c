#include "exec/exec.h"

#include "exec/cpu/cpu.h"

const BackendKind backends[] = {
  { "cpu", cpu_open },
  { NULL, NULL },
};
