/*
 * Choices of a plan that floors above it take over as they are: number formats, what is dropped, what overlaps.
 */
#ifndef TDP_PLAN_CHOICES_H
#define TDP_PLAN_CHOICES_H

#include "plan/framework.h"

/* Formats of matrix products: those of weights and activations, fp32 ones rounded to tf32 on the way in, or products
 * of blocks in 8 or 4 bits, cast by a recipe (op/fp8.h) from bf16. */
typedef enum { PRODUCTS_PLAIN, PRODUCTS_TF32, PRODUCTS_FP8, PRODUCTS_FP4 } Products;

/* Whether ranks gather weights of narrow products in their format; GATHER_USUAL: as the framework does. */
typedef enum { GATHER_USUAL, GATHER_WIDE, GATHER_NARROW } ParamGather;

typedef struct {
  DType precision; /* of weights and activations: fp32, fp16 or bf16 */
  Products products;
  Fp8Recipe recipe; /* of narrow products; FP8_NONE where there are none */
  Fp8Library library; /* that casts them */
} Formats;

/* Blocks at the model's start and end whose products stay in 16 bits where those of others are cast. */
typedef struct {
  int start, end;
} WideBlocks;

static inline gboolean wide_any(const WideBlocks *w)
{
  return w->start > 0 || w->end > 0;
}

/* Whether they have a layer of a model of so many blocks, an index into Model.layers. */
static inline gboolean wide_has(const WideBlocks *w, int blocks, int layer)
{
  return layer >= 1 && layer <= blocks && (layer <= w->start || layer > blocks - w->end);
}

/* Whether products of blocks are cast to fewer bits than weights have. */
static inline gboolean formats_narrow(const Formats *f)
{
  return f->products == PRODUCTS_FP8 || f->products == PRODUCTS_FP4;
}

/* Of most of the products: what a plan is called by, and whose peak counts. */
static inline DType formats_product(const Formats *f)
{
  static const DType formats[] = { [PRODUCTS_TF32] = DTYPE_TF32, [PRODUCTS_FP8] = DTYPE_FP8,
                                   [PRODUCTS_FP4] = DTYPE_FP4 };
  return f->products ? formats[f->products] : f->precision;
}

/* Of products that are not cast. */
static inline DType formats_dense(const Formats *f)
{
  return f->products == PRODUCTS_TF32 ? DTYPE_TF32 : f->precision;
}

/* Tokens that an expert with more than its capacity does without: those of least weight, or the last ones
 * (Megatron Core's moe_token_drop_policy). Each rank drops among its own. */
typedef enum { DROP_PROBS, DROP_POSITION, DROP_COUNT } ExpertDrop;

extern const char *const expert_drop_names[];

/* What runs beside computation instead of before or after it. */
typedef struct {
  gboolean gradients;  /* reduction of gradients, by bucket, during the last backwards */
  gboolean parameters; /* gathering of updated or sharded parameters */
  gboolean pipeline;   /* sends between stages */
  gboolean tensor;     /* the input gradient's reduction, beside the weight gradient */
  gboolean offload;    /* gradients go to the host beside the backwards that make them */
  gboolean experts;    /* shared experts compute beside the exchange of tokens (moe_shared_expert_overlap) */
  gboolean exchange;   /* tokens of one micro-batch travel beside the other pass of another one
                          (overlap_moe_expert_parallel_comm) */
} Overlap;

/* The first of these as bits, for sets of them; overlap_names has their keys in this order. */
typedef enum {
  OVERLAP_GRADIENTS = 1, OVERLAP_PARAMETERS = 2, OVERLAP_PIPELINE = 4, OVERLAP_TENSOR = 8, OVERLAP_OFFLOAD = 16,
  OVERLAP_SWITCHES = OVERLAP_OFFLOAD - 1, /* those that a search may do without */
} OverlapBit;
#define OVERLAP_BITS 5

extern const char *const overlap_names[];

/* Those that are on. */
guint overlap_bits(const Overlap *overlap);

/* What a framework runs so unless a plan says otherwise. */
Overlap framework_overlap(const Framework *framework);

#endif
