/*
 * Rows of the measured times in hardware/data/ (its README.md tells the
 * columns), ready for fit.h. Which are for checking is settled here, by shape.
 * Errors are TDP_ERROR_INPUT: a cell that is no number, an unknown word, or no
 * row at all.
 */
#ifndef TDP_FIT_DATA_H
#define TDP_FIT_DATA_H

#include "base/csv.h"
#include "fit/fit.h"

/* The numbers in a row's columns, a NULL-terminated list. None may be empty, and times ("time_us") are above 0. */
gboolean data_reals(const Csv *csv, int row, const char *const *columns, double *out, GError **error);

/* GArray of MatmulRow: those of a GPU and a number format. */
GArray *data_matmul(const Csv *csv, const char *gpu, const char *dtype, GError **error);

/* GArray of MatmulRow: those of a GPU, in fp16, whose rows are not aligned. */
GArray *data_unaligned(const Csv *csv, const char *gpu, GError **error);

/* GArray of MatmulRow: those of a GPU in bf16, alone or of experts with a call each, some added to a matrix. */
GArray *data_library(const Csv *csv, const char *gpu, GError **error);

/* GArray of AttentionRow: those of a source, GPU and kernel. Where only both
 * passes together were timed, the forward pass is taken off: its time if it was
 * measured too, else the share it has on the GPU `split` (of FlashAttention-1:
 * the share of FlashAttention-2). */
GArray *data_attention(const Csv *csv, const char *source, const char *gpu, const char *kernel, const char *split,
                       GError **error);

/* Appends CollectiveRows of a source, on nodes of `server`; the clusters they
 * need are added to `clusters`, which owns them. Collectives that the formulas
 * do not know (reduce) are passed over. */
gboolean data_collectives(const Csv *csv, const char *source, const char *server, GPtrArray *clusters, GArray *rows,
                          GError **error);

#endif
