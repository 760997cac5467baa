/* Kernels in fp64, to hold gradients against finite differences. */
typedef double Real;
#define EXP exp
#define LOG log
#define SQRT sqrt
#define GEMM blas_product_f64
#define FILL cpu_fill_kernels_f64

#include "exec/cpu/kernels.inc"
