/* OpenBLAS's kernels: where it knows the processor not yet, the best that it has. */
#include "exec/cpu/blas.h"
#include "exec/cpu/cpu.h"

#include <string.h>

/* What OpenBLAS itself calls when it is loaded, in builds for many processors alone. */
extern void gotoblas_dynamic_init(void) __attribute__((weak));
extern void gotoblas_dynamic_quit(void) __attribute__((weak));

/* The core whose kernels the processor can run, NULL = nothing better than the oldest. */
static const char *able_core(void)
{
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return "Haswell";
#endif
  return NULL;
}

const char *cpu_better_core(const char *core, gboolean named)
{
  return !named && strcmp(core, "Prescott") == 0 ? able_core() : NULL;
}

void cpu_choose_products(void)
{
  static gsize once;

  if (!g_once_init_enter(&once))
    return;
  const char *core = cpu_better_core(openblas_get_corename(), g_getenv("OPENBLAS_CORETYPE") != NULL);
  if (core && gotoblas_dynamic_init && gotoblas_dynamic_quit) {
    g_setenv("OPENBLAS_CORETYPE", core, TRUE);
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    g_unsetenv("OPENBLAS_CORETYPE");
  }
  g_once_init_leave(&once, 1);
}
