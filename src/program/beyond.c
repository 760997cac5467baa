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

double beyond_walked(const ProgramBuild *b, const Chunk *chunk, Piece piece, Pass pass)
{
  return b->sites[chunk->rank].cluster->device.beyond_l2_bytes_per_s > 0 ? walked_bytes(b, chunk, piece, pass) : 0;
}

/* What lies at most between two uses of the same byte, by row: all that passes of the rank hold at once, of all
 * micro-batches in flight, and what they make for a while. Optimizer states are touched once a step. */
static double *rows_held(const Program *p)
{
  g_autofree double *now = g_new(double, p->n_rows);
  double *most = g_new(double, p->n_rows);

  for (int row = 0; row < p->n_rows; row++) {
    const double *held = p->rows[row].static_bytes;
    most[row] = now[row] = held[PART_WEIGHTS] + held[PART_GRADIENTS] + held[PART_BUFFERS];
  }
  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = program_task(p, i);
    const Segment *s = program_segment(p, t);
    now[t->row] += segment_at_start(s) + s->alloc_bytes;
    most[t->row] = MAX(most[t->row], now[t->row]);
    now[t->row] += segment_at_end(s) - s->free_bytes;
  }
  return most;
}

/* Kernels of a core are timed in its cache. Passes of a rank that holds more have all bytes from memory: a cache that
 * gives up the oldest ones has none of them left (cost/README.md). */
static void come_from_memory(const Device *device, Segment *s)
{
  s->beyond_s = s->walked_bytes / device->beyond_l2_bytes_per_s;
  s->seconds += s->beyond_s;
  s->compute_s += s->beyond_s;
  s->crowded_s += s->beyond_s * (device->beyond_l2_crowding - 1);
}

void program_beyond(ProgramBuild *b)
{
  Program *p = b->program;
  g_autofree double *held = NULL;

  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = program_task(p, i);
    Segment *s = &g_array_index(p->segments, Segment, t->segment);
    const Device *device = &b->sites[t->row].cluster->device;
    if (s->walked_bytes == 0 || s->beyond_s > 0)
      continue;
    held = held ? held : rows_held(p);
    if (held[t->row] <= device->l2_bytes)
      continue;
    come_from_memory(device, s);
    p->crowds |= s->crowded_s > 0;
  }
}
