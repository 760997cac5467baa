/*
 * What products with weights cast, send and keep in 8 and 4 bits (fp8.h), bytes of this rank.
 */
#ifndef TDP_OP_NARROW_H
#define TDP_OP_NARROW_H

#include "op/build.h"

/* Whether a product runs in 8 or 4 bits. */
gboolean linear_narrow(const Build *b, const Linear *l);

/* Whether the products of both gradients of such a matrix add partial sums in 32 bits (Fp8Work.promotes). */
gboolean linear_promotes(const Build *b);

/* Whether its experts are products one after the other. */
gboolean linear_looped(const Build *b, const Linear *l);

/* Whether ranks gather what a product reads, forward, and of its output's gradient. */
gboolean linear_gathers_input(const Build *b, const Linear *l);
gboolean linear_gathers_gradient(const Build *b, const Linear *l);

/* In how many collectives ranks sum the gradient of a column-parallel input: one, or one for each of its matrices. */
int linear_input_sums(const Build *b, const Linear *l);

/* Whether rows that ranks gather for a product travel in 8 or 4 bits, cast before; and have their columns made behind
 * it. */
gboolean linear_travels_narrow(const Build *b, const Linear *l);
gboolean linear_transposes(const Build *b, const Linear *l);

/* Of rows that are gathered for a product; of gradients of its outputs, which both backward products read: with scales
 * of blocks their rows and columns travel apart. */
double linear_gathered_bytes(const Build *b, const Linear *l);
double linear_gathered_gradient_bytes(const Build *b, const Linear *l);

/* Of rows that a product's forward scatters: partial sums of ranks, in 8 bits where the plan says so. */
double linear_scattered_bytes(const Build *b, const Linear *l);

/* Read and written where a product's input is cast, and its weights if every pass does, 0: nothing is; where its
 * output's gradient is, of narrow ones; where gradients are scaled behind products. */
double linear_cast_bytes(const Build *b, const Linear *l);
gboolean linear_writes_rows(const Build *b, const Linear *l); /* by the norm that made its input, without columns */
double linear_column_bytes(const Build *b, const Linear *l); /* where its input's columns are, in the backward */
double linear_cast_gradient_bytes(const Build *b, const Linear *l);
double linear_rescale_bytes(const Build *b, const Linear *l);

/* Kernels of a cast: of the experts of a rank, that of each one but with scales of earlier steps (Transformer Engine's
 * multi_tensor_quantize_impl, pytorch/csrc/extensions/cast.cpp). */
double linear_cast_kernels(const Build *b, const Linear *l);
double linear_layout_kernels(const Build *b, const Linear *l); /* of one layout, where each is cast on its own */

/* Operations of the host for so many of them, beyond what its product's are said to have for a cast (op.h): what makes
 * each further expert's tensors and casts them is one, what it launches besides, from C++, takes a launch each. */
double linear_cast_operations(const Build *b, const Linear *l, double kernels);

/* Whether the scale of a tensor whose rows lie on several ranks is by the largest value of all. */
gboolean linear_meets_for_scale(const Build *b, const Linear *l);

/* Of a product's input, kept for the gradient of its weights; of its weights, kept for that of the input. */
double linear_saved(const Build *b, const Linear *l);
double linear_saved_weights(const Build *b, const Linear *l);

#endif
