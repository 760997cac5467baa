/* Passes over more than the last-level cache. */
#include "program/build.h"

#include <math.h>

/* What a pass goes through of layers: their weights, unless it makes nothing but gradients of these; gradients that
 * it adds to; what forwards save. What lives for a while is left out: each layer has the place of the one before. */
static double walked_bytes(const ProgramBuild *b, const Chunk *chunk, Piece layers, Pass pass)
{
  double bytes = 0;

  for (int i = layers.first_layer; i < layers.first_layer + layers.n_layers; i++) {
    Piece layer = { i, 1, b->strategy[i] };
    for (int experts = 0; experts < 2; experts++) {
      const StateLayout *states = states_of(b, layer.strategy, experts);
      double params = params_of(b, layer, experts);
      if (pass != PASS_WEIGHT)
        bytes += op_kept_bytes(states, params, narrow_of(b, layer, experts)) + frozen_of(b, layer, experts).bytes;
      if (pass_makes_weight_gradient(pass))
        bytes += params * states->gradient_bytes;
    }
    bytes += pass == PASS_INPUT ? -layer_held(b, chunk, i, PASS_BACKWARD) : fabs(layer_held(b, chunk, i, pass));
  }
  return bytes;
}

/* The same of all layers of the chunk's rank: what it goes through before it comes to the same bytes again. */
static double rank_walked_bytes(const ProgramBuild *b, const Chunk *chunk, Pass pass)
{
  double bytes = b->shares ? walked_bytes(b, chunk, (Piece) { b->model->n_layers - 1, 1 }, pass) : 0;

  for (int i = 0; i < b->shape.chunks; i++)
    bytes += walked_bytes(b, chunk, stage_layers(b, program_stage(b, chunk->rank, i)), pass);
  return bytes;
}

/* Kernels of a core are timed in its cache. A pass over more than that has all bytes from memory: a cache that gives up
 * the oldest ones has none of them left (cost/README.md). */
void come_from_memory(const ProgramBuild *b, const Chunk *chunk, Piece piece, Segment *s)
{
  const Device *device = &b->sites[chunk->rank].cluster->device;

  if (device->beyond_l2_bytes_per_s == 0 || rank_walked_bytes(b, chunk, s->pass) <= device->l2_bytes)
    return;
  s->beyond_s = walked_bytes(b, chunk, piece, s->pass) / device->beyond_l2_bytes_per_s;
  s->seconds += s->beyond_s;
  s->compute_s += s->beyond_s;
  s->crowded_s += s->beyond_s * (device->beyond_l2_crowding - 1);
}
