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
 * micro-batches in flight, and what they make for a while; between two steps the optimizer's states, too. */
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

/* The share of their bytes that passes of a rank with so many have from memory. A cache that gives up the oldest bytes
 * has none of them left as soon as there are more than it holds; others give up some before (cost/README.md). */
static double share_beyond(const Device *device, double cache_bytes, double held_bytes)
{
  if (device->l2_ramp <= 1)
    return held_bytes > cache_bytes;
  return CLAMP(0.5 + log(held_bytes / cache_bytes) / (2 * log(device->l2_ramp)), 0, 1);
}

/* Kernels of a core are timed in its cache. Of that the device has one part while all compute, another alone. */
static void come_from_memory(const Device *device, double held_bytes, Segment *s)
{
  double all_s = s->walked_bytes / device->beyond_l2_bytes_per_s;
  double alone_bytes = device->l2_alone_bytes > 0 ? device->l2_alone_bytes : device->l2_bytes;
  double crowded_s = all_s * device->beyond_l2_crowding * share_beyond(device, device->l2_bytes, held_bytes);

  s->beyond_s = all_s * share_beyond(device, alone_bytes, held_bytes);
  s->seconds += s->beyond_s;
  s->compute_s += s->beyond_s;
  s->crowded_s += MAX(0, crowded_s - s->beyond_s);
}

/* Passes of the first micro-batch: the optimizer went through all states since what they go through was last used. */
static gboolean follows_optimizer(const Task *t)
{
  return t->micro == 0;
}

/* Gives passes that follow the optimizer and others segments of their own, where what they go through is told. */
static void split_segments(Program *p)
{
  enum { UNUSED, LATER, FIRST };
  g_autofree guint8 *use = g_new0(guint8, p->segments->len);
  g_autofree int *other = indices_new(p->segments->len);

  for (guint i = 0; i < p->tasks->len; i++) {
    Task *t = &g_array_index(p->tasks, Task, i);
    guint8 now = follows_optimizer(t) ? FIRST : LATER;
    if (program_segment(p, t)->walked_bytes == 0)
      continue;
    if (use[t->segment] == UNUSED)
      use[t->segment] = now;
    if (use[t->segment] == now)
      continue;
    if (other[t->segment] < 0) {
      Segment s = *program_segment(p, t);
      other[t->segment] = p->segments->len;
      s.passes = s.passes ? g_array_ref(s.passes) : NULL;
      g_array_append_val(p->segments, s);
    }
    t->segment = other[t->segment];
  }
}

static gboolean is_told(const ProgramBuild *b)
{
  gboolean told = FALSE;

  for (int row = 0; row < b->program->n_rows; row++)
    told |= b->sites[row].cluster->device.beyond_l2_bytes_per_s > 0;
  return told;
}

void program_beyond(ProgramBuild *b)
{
  Program *p = b->program;
  g_autofree double *held = NULL;

  if (!is_told(b))
    return;
  split_segments(p);
  g_autofree gboolean *done = g_new0(gboolean, p->segments->len);
  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = program_task(p, i);
    Segment *s = &g_array_index(p->segments, Segment, t->segment);
    if (s->walked_bytes == 0 || done[t->segment])
      continue;
    held = held ? held : rows_held(p);
    double states = follows_optimizer(t) ? p->rows[t->row].static_bytes[PART_OPTIMIZER] : 0;
    come_from_memory(&b->sites[t->row].cluster->device, held[t->row] + states, s);
    p->crowds |= s->crowded_s > 0;
    done[t->segment] = TRUE;
  }
}
