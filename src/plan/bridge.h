/* Megatron-Bridge's recipes of narrow products (its training/mixed_precision.py). */
#ifndef TDP_PLAN_BRIDGE_H
#define TDP_PLAN_BRIDGE_H

#include "plan/choices.h"
#include "plan/framework.h"

typedef struct {
  Fp8Recipe scales;
  const char *name;
  gboolean gathers; /* ranks gather weights in that format */
  WideBlocks wide;  /* blocks left in 16 bits */
} BridgeRecipe;

extern const BridgeRecipe bridge_recipes[];
extern const gsize bridge_recipes_count;

#endif
