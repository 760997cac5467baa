/*
 * Adapters: a model's weights stay as they are, frozen, and beside some of its matrices a product of two small ones is
 * trained (LoRA: Hu et al. 2021, arXiv 2106.09685). y = x W becomes y = x W + (x A) B with A of inputs x r and B of
 * r x outputs. QLoRA (Dettmers et al. 2023, arXiv 2305.14314) keeps the blocks' frozen matrices in 4 bits.
 *
 * Frozen weights have neither gradients nor states of an optimizer, and nothing sums or updates them; layout/layout.h
 * and op/op.h say what that means for passes and memory. Embedding, head, norms and biases are frozen too.
 *
 * Targets go by the names of PEFT (q_proj, gate_proj ...), each of which is a matrix of its own with an A of its own,
 * or by those of Megatron (qkv, fc1), where matrices that read the same input are one and share an A.
 *
 * To add a target: a bit, its row in the table of adapter.c, and its matrix in adapter_parts(). Bad text is said by
 * adapter_parse(), what a model lacks by adapter_refusal(); nothing else can fail.
 */
#ifndef TDP_PLAN_ADAPTER_H
#define TDP_PLAN_ADAPTER_H

#include "hardware/dtype.h"
#include "model/model.h"

typedef enum { ADAPTER_NONE, ADAPTER_LORA, ADAPTER_QLORA, ADAPTER_KIND_COUNT } AdapterKind;
extern const char *const adapter_kind_names[]; /* "none", "lora", "qlora" */

typedef enum {
  TARGET_Q, TARGET_K, TARGET_V, TARGET_PROJ, TARGET_GATE, TARGET_UP, TARGET_FC2, TARGET_Q_A, TARGET_Q_B, TARGET_KV_A,
  TARGET_KV_B, TARGET_IN, TARGET_OUT, /* in and out of linear attention */
  TARGET_QKV, TARGET_FC1,             /* several of the above as one */
  TARGET_COUNT,
} AdapterTarget;

#define TARGETS_LINEAR ((1u << TARGET_QKV) - 1) /* all-linear: each matrix of the blocks alone */

/* Compared as memory; all 0 where nothing is adapted. */
typedef struct {
  AdapterKind kind;
  int rank;
  guint targets; /* bits of AdapterTarget */
} Adapter;

static inline gboolean adapter_freezes(const Adapter *a)
{
  return a->kind != ADAPTER_NONE;
}

/* Reads "none", "lora:r=16" or "qlora:r=64,targets=q_proj,v_proj". NULL, or what was expected, newly allocated. */
char *adapter_parse(const char *text, Adapter *out);

/* As adapter_parse() reads it; newly allocated. */
char *adapter_text(const Adapter *adapter);

/* Names of targets, those of PEFT or, of what several of them are as one, Megatron's, with what Megatron-Bridge calls
 * them; NULL = it has no such name. */
const char *adapter_target_name(AdapterTarget target);
const char *adapter_bridge_name(AdapterTarget target);

/* Matrices as products run them, of which targets are all or a part. */
typedef enum {
  MATRIX_OTHER, /* no target names it */
  MATRIX_QKV, MATRIX_PROJ, MATRIX_FC1, MATRIX_FC2, MATRIX_Q_A, MATRIX_Q_B, MATRIX_KV_A, MATRIX_KV_B, MATRIX_IN,
  MATRIX_OUT, MATRIX_CROSS_Q, MATRIX_CROSS_KV, MATRIX_CROSS_PROJ,
} AdapterMatrix;

typedef struct {
  AdapterTarget target;
  AdapterMatrix matrix;
  gint64 in, out, of; /* outputs: the target's, and of the whole matrix */
} AdaptedPart;

/* What targets name in a layer, at most ADAPTED_MAX parts of whole matrices, before any division over ranks; returns
 * how many. Of a feed-forward with experts nothing is named. */
#define ADAPTED_MAX 20
int adapter_parts(const LayerSpec *spec, int hidden, AdaptedPart parts[ADAPTED_MAX]);

/* Bits of the targets that some layer of the model has. */
guint adapter_named(const Model *model);

/* NULL, or what was expected of an adapter of the model, newly allocated: targets that it has, and of models with
 * experts those of attention alone. */
char *adapter_refusal(const Adapter *adapter, const Model *model);

/* Whether a product's matrix has an adapter in such layers. */
gboolean adapter_adapts(const Adapter *adapter, const LayerSpec *spec, int hidden, AdapterMatrix matrix);

/* Parameters of all adapters: those that are trained. */
gint64 adapter_params(const Adapter *adapter, const Model *model);

/* Parameters that are trained: the adapters', or without them all of the model. */
gint64 adapter_trained(const Adapter *adapter, const Model *model);
gint64 adapter_layer_trained(const Adapter *adapter, const LayerSpec *spec, int hidden);

/* FLOPs of a step's passes of one sequence that are the model's: as model_flops_of_both() without products that make
 * gradients of frozen weights, and with those of the adapters. Without adapters the same. */
double adapter_model_flops(const Adapter *adapter, const Model *model, int seq, int decoder_seq);
/* The same of model_flops_unmasked(). */
double adapter_flops_unmasked(const Adapter *adapter, const Model *model, int seq, int decoder_seq);

/* Bytes of a frozen weight: of one in a block's matrix under QLoRA 4 bits (NF4), with a scale of 8 bits for each 64 of
 * them and of these one of 32 bits for each 256: 4.127 bits in all (arXiv 2305.14314, section 3); else those of its
 * format. */
double adapter_frozen_bytes(const Adapter *adapter, DType precision, gboolean matrix);

/* Of all that are frozen in a layer, or a model, 0 without adapters; norms of blocks, which stay in 16 bits, are taken as
 * matrices. */
double adapter_layer_frozen_bytes(const Adapter *adapter, const LayerSpec *spec, DType precision);
double adapter_frozen_model_bytes(const Adapter *adapter, const Model *model, DType precision);

/* Traffic of making 16-bit weights of 4 bits of each, every time that a product takes them, and the kernels of one
 * matrix: bitsandbytes makes 32-bit scales of those of 8 bits, adds their mean, and then weights (functional.py,
 * dequantize_4bit). 0 without QLoRA. */
double adapter_unpack_bytes(const Adapter *adapter, DType precision);
#define ADAPTER_UNPACK_KERNELS 3

#endif
