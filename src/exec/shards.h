/*
 * A rank's parameters with their gradients and optimizer states, divided over the
 * ranks that hold the same as StateLayout says.
 *
 * Parameters lie in units: runs of layers that no task of the program cuts, so
 * that a gather or a reduction is a few units, each one contiguous buffer. A
 * table that embedding and head share is a unit of its own: alike on both ranks where
 * these are on two, and its gradients, where these are divided, are whole from the
 * head's backward to the embedding's.
 * Experts that are apart lie in units of their own, beside those of the same layers.
 * Rank i of the ranks that hold the same weights owns the i-th part of each unit (padded to
 * equal parts). What a rank holds:
 *
 *   zero  weights  gradients               optimizer
 *   0     whole    whole                   whole
 *   1     whole    whole                   part
 *   2     whole    part, whole in between  part
 *   3     part,    part, whole in between  part
 *         whole in between
 *
 * Gradients are whole from the pass that makes weights' on. Where that is not the input's, which makes those of
 * norms, these wait apart for it.
 *
 * Where the optimizer is on the host, its part (moments, a wide copy of the weights,
 * and room for the gradients that come down) lies in the host's memory.
 *
 * Initial weights depend on the seed and on a value's place in the whole
 * parameter, never on the plan.
 */
#ifndef TDP_EXEC_SHARDS_H
#define TDP_EXEC_SHARDS_H

#include "exec/layer.h"

typedef struct {
  int first_layer, end_layer;
  gboolean apart;    /* holds experts that are divided over ranks otherwise than the rest */
  const StateLayout *states; /* over how many ranks what is divided */
  int number;        /* of this rank, among those that hold the same weights */
  GArray *params;   /* Param */
  GArray *layers;   /* int: layer of each param */
  gsize n, part;    /* elements; of a rank's part, or of the whole where nothing is divided */
  char *weights;    /* whole; NULL under ZeRO-3 */
  char *own_weights, *own_gradients, *master, *m, *v; /* parts; master NULL where weights are wide */
  char *host_gradients; /* part, where the optimizer is on the host; else NULL */
  char *gradients;  /* whole; under ZeRO-2 and 3 while they are made and reduced */
  gsize n_early;    /* elements of early params */
  char *early;      /* their gradients where the others' are not made yet; else NULL */
  GQueue *gathered; /* char *: whole weights under ZeRO-3, in order of use */
  char *held;       /* of them, the one with the table that the head reads */
} Unit;

typedef struct {
  const LayerShape *shape;
  Memory *memory;
  gsize bytes, wide_bytes; /* of an element */
  int numbers[2];       /* of this rank, among those that hold the same of all but experts that are apart, of these */
  gboolean host;        /* the optimizer's states are there */
  gboolean share_table; /* embedding and head are on one rank and the table is tied */
  GArray *units;        /* Unit */
} Shards;

/* Elements of the whole, padded. */
static inline gsize unit_size(const Unit *u)
{
  return u->part * u->states->optimizer_parts;
}

/* Whether it is the table that embedding and head share. */
static inline gboolean unit_is_table(const Unit *u)
{
  return g_array_index(u->params, Param, 0).tied;
}

/* Elements before this rank's own part. */
static inline gsize unit_own(const Unit *u)
{
  return u->states->optimizer_parts > 1 ? u->part * u->number : 0;
}

/* `cuts` has n_layers + 1 entries: whether the program cuts before the layer;
 * `present` n_layers: whether this rank has it. */
void shards_init(Shards *shards, const LayerShape *shape, Memory *memory, const int numbers[2],
                 const gboolean *present, const gboolean *cuts);
void shards_clear(Shards *shards);

/* Allocates what is held all the time and fills it with the seed's weights. */
void shards_allocate(Shards *s, BackendStream *stream, guint64 seed);

/* Units of layers first .. first + n; all if n is 0. Returns the next after
 * `previous` (NULL = the first), NULL at the end. */
Unit *shards_next(const Shards *shards, const Unit *previous, int first, int n);

/* Room for a unit's whole gradients, with the early ones that have been made; for early ones alone. Nothing where
 * there is. */
void shards_open(Shards *s, Unit *u, BackendStream *stream);
void shards_open_early(Shards *s, Unit *u, BackendStream *stream);

/* Where a layer's parameters lie now: in the gathered buffer under ZeRO-3. */
LayerWeights shards_weights(const Shards *shards, int layer);

/* Elements of a param within a rank's own part: offset in the part and count. */
gsize shards_own(const Unit *unit, const Param *param, gsize *offset);

#endif
