/*
 * Products of matrices by OpenBLAS, under their names in Fortran. Their names in C are also GSL's, and a program has one
 * function of a name: were those OpenBLAS's, GSL's minimisers, which tdp-calibrate fits with, would round as this
 * processor's kernels do, and other processors would come to other constants.
 */
#pragma once

#include <cblas.h>
#include <f77blas.h>
#include <glib.h>

/* c = alpha a b + beta c, all stored by rows: c of m x n, a of m x k, b of k x n, a or b the other way round where it is
 * transposed; `ld_` the elements from one row to the next. */
#define BLAS_PRODUCT(name, by_columns, type)                                                                         \
  static inline void name(gboolean transpose_a, gboolean transpose_b, int m, int n, int k, type alpha,              \
                          const type *a, int ld_a, const type *b, int ld_b, type beta, type *c, int ld_c)           \
  {                                                                                                                  \
    char first = transpose_b ? 'T' : 'N', second = transpose_a ? 'T' : 'N';                                          \
    blasint rows = n, columns = m, along = k, ld_first = ld_b, ld_second = ld_a, ld_out = ld_c;                      \
    by_columns(&first, &second, &rows, &columns, &along, &alpha, (type *)b, &ld_first, (type *)a, &ld_second, &beta, \
               c, &ld_out);                                                                                          \
  }

BLAS_PRODUCT(blas_product_f32, BLASFUNC(sgemm), float)
BLAS_PRODUCT(blas_product_f64, BLASFUNC(dgemm), double)
