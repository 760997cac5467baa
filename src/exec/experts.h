/*
 * Experts of a block and where their copies of tokens go; private to experts.c and
 * experts_exchange.c.
 *
 * Where experts are whole, every tensor-parallel rank routes all tokens alike and
 * has a part of each expert: what experts put out, and the gradients of the
 * router's weights, are parts of sums over these ranks. Where they are apart
 * (plan_experts_apart), each rank routes its own rows, sends copies to the ranks
 * of their experts and gets them back: nothing is left to sum, and the experts'
 * weights are whole. None of the tokens is dropped.
 */
#ifndef TDP_EXEC_EXPERTS_H
#define TDP_EXEC_EXPERTS_H

#include "exec/block.h"

/* Sizes on this rank. */
typedef struct {
  gboolean apart;
  int experts, top, rows, copies; /* rows routed here; copies: of them, one for each expert that they visit */
  int ep, local;                  /* ranks that share the experts; of these, here */
  int ffn, up, shared, shared_up; /* widths */
} Experts;

/* Copies at the experts of this rank, on the host: expert e's are from first[e] to
 * first[e + 1]. `sent` and `received` by rank, `from` by rank and expert. */
typedef struct {
  int32_t *first, *from;
  gsize *sent, *received;
  int copies;
} Visits;

Experts experts_of(const LayerShape *shape, const LayerSpec *spec);
ExecRoute route_of(const LayerRun *r, const LayerState *state, const Experts *w);

/* Tells the experts' ranks what will come; a new slot, of a forward. */
void visits_agree(const LayerRun *r, LayerState *state, const Experts *w);
void visits_load(const LayerRun *r, const LayerState *state, const Experts *w, Visits *visits);
void visits_clear(Visits *visits);

/* Copies of rows to their experts, and back, in blocks counted to a part: takes the
 * buffer over, and returns it where nothing moves. */
void *copies_send(const LayerRun *r, const Experts *w, const Visits *visits, void *copies, MemoryPart part);
void *copies_return(const LayerRun *r, const Experts *w, const Visits *visits, void *copies, MemoryPart part);

#endif
