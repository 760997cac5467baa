/* Kernels in fp32, for training. */
typedef float Real;
#define EXP expf
#define LOG logf
#define SQRT sqrtf
#define GEMM cblas_sgemm
#define FILL cpu_fill_kernels_f32

#include "exec/cpu/kernels.inc"
