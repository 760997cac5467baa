/*
 * The tables of families, of which family.c finds one, and what their rows share. Private to model/.
 */
#ifndef TDP_MODEL_FAMILY_ROWS_H
#define TDP_MODEL_FAMILY_ROWS_H

#include "model/family.h"

typedef struct {
  const Family *rows;
  gsize n;
} FamilyRows;

extern const FamilyRows family_decoders, family_attentions, family_hybrids, family_reusing, family_encoders;

/* LayerNorm, two matrices, biases everywhere. */
#define GPT \
  .norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_GELU, .norms = 2, .final_norm = TRUE
/* RMSNorm, gated, rotary. */
#define LLAMA \
  .norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .position_kind = POSITIONS_ROPE, .final_norm = TRUE

#endif
