/*
 * What the halves of a block share; private to layer_block.c, feed_forward.c and
 * the experts. A half takes its input from a slot, X or X2, keeps it there and returns
 * the sum of input and output.
 */
#ifndef TDP_EXEC_BLOCK_H
#define TDP_EXEC_BLOCK_H

#include "exec/core.h"

#define DEVIATION 0.02

/* What is kept. D_: gradients that the weight pass reads. */
enum { X, NORM1, STATS1, QKV, CONTEXT, LSE, HEADS, X2, NORM2, STATS2, UP, ACT, D_QKV, D_PROJECTION, D_UP, D_DOWN,
       ROUTE, EXPERT_IN, EXPERT_OUT, SHARED_UP, SHARED_ACT, VISITS, D_EXPERT_OUT, D_LOGITS, D_SHARED_UP };
G_STATIC_ASSERT((int)D_SHARED_UP < (int)STATE_SLOTS && HEADS - QKV == (int)CORE_HEADS && LSE - QKV == (int)CORE_LSE);

typedef struct {
  void (*params)(const LayerShape *shape, const LayerSpec *spec, int layer, GArray *all); /* behind the norm's */
  void *(*forward)(const LayerRun *r, const LayerWeights *lw, LayerState *state);
  void *(*input)(const LayerRun *r, const LayerWeights *lw, LayerState *state, void *dy);
  void (*weight)(const LayerRun *r, const LayerWeights *lw, LayerState *state);
  guint passed; /* slots, a bit each, that the weight pass does not read */
} FeedForwardKind;

extern const FeedForwardKind feed_forward_dense, feed_forward_experts;

/* Width of a feed-forward's first product where its second has `ffn` inputs. */
static inline int up_width(const LayerSpec *spec, int ffn)
{
  return spec->ffn.kind == MLP_SWIGLU ? 2 * ffn : ffn;
}

/* Deviation of what adds to the residual (GPT-2's). */
double deviation_behind(const LayerShape *shape);

/* A product divided by its outputs: n parts of `widths` each, here a tp-th of each. */
void params_column(const LayerShape *shape, Param p, const int *widths, int n, gboolean bias, GArray *params);

/* A product divided by its inputs; its bias is added behind the sum. */
void params_row(const LayerShape *shape, Param p, gboolean bias, GArray *params);

/* Rows of `up` made activations, and back. */
void activate(const LayerRun *r, const LayerSpec *spec, gsize rows, int ffn, const void *up, void *act);
void activate_backward(const LayerRun *r, const LayerSpec *spec, gsize rows, int ffn, const void *up, const void *dact,
                       void *dup);

/* Adds bias and the residual, in place. */
void *half_residual(const LayerRun *r, void *y, const void *bias, const void *x);

/* A half's output: its last product, of rows of `in`, summed over ranks, bias and the residual. */
void *half_join(const LayerRun *r, int in, const void *rows, const void *weight, const void *bias, const void *x);

/* The output's gradient on all rows, which the weight pass needs, and a copy of
 * this rank's rows that becomes the input's gradient. */
void *half_split(const LayerRun *r, void *dy, void **all);

/* Behind a product's input gradient: sums it over ranks, maybe beside the product's weight gradient, and takes it
 * through the norm. */
void half_behind_norm(const LayerRun *r, const LayerWeights *lw, LayerState *state, int slot, void *partial,
                      WeightGradient weight, void *dx);

#endif
