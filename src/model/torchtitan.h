/*
 * The models that torchtitan registers by name and flavor (v0.2.2, torchtitan/models/NAME/__init__.py), by our files;
 * Llama 2 as until December 2024.
 */
#ifndef TDP_MODEL_TORCHTITAN_H
#define TDP_MODEL_TORCHTITAN_H

#include "model/model.h"

typedef struct {
  const char *name, *flavor;
  const char *model; /* the name of our file */
  /* What tells it from others; width is an expert's where there are experts. 0 = one that is read and not written. */
  int hidden, blocks, heads, width, experts, vocab;
} TorchtitanFlavor;

/* NULL if it has none of that name and flavor that we have a file of. */
const TorchtitanFlavor *torchtitan_flavor(const char *name, const char *flavor);

/* The one that has these sizes, which says nothing of norms or positions; NULL if none has. */
const TorchtitanFlavor *torchtitan_flavor_of(const Model *m);

#endif
