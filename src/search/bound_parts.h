/*
 * What bounds of time and memory are made of. Private to src/search/bound_*.c.
 */
#ifndef TDP_SEARCH_BOUND_PARTS_H
#define TDP_SEARCH_BOUND_PARTS_H

#include "search/bound.h"

typedef struct {
  const Model *model;
  const Cluster *cluster;
  const PriceSums *sums;
  const Cluster *site;  /* where the rank that is looked at runs */
  const Layout *layout;
  int kinds;            /* of weights: 2 where experts are apart */
  GroupShape data[2], summed[2], part_copies[2]; /* by kind: RANKS_SHARDS, RANKS_SUMS, RANKS_COPIES */
  ScheduleShape shape;
  gboolean mixed; /* nodes are of several types */
  int stages, copies, layers; /* layers: of each stage, of plans without a split */
  guint16 first[SPLIT_STAGES_MAX + 1]; /* first layer of each stage, of plans with a split */
} Bound;

Bound bound_of(const Model *model, const Layout *layout, const Cluster *cluster, const PriceSums *sums);

static inline int bound_first_layer(const Bound *b, int stage)
{
  if (b->layout->pipeline.cut.split.stages)
    return b->first[stage];
  if (b->layout->pipeline.cut.split_rank)
    return stage_first_layer(&b->layout->pipeline.cut, b->model, stage);
  return stage == 0 ? 0 : stage == b->stages ? b->model->n_layers : 1 + b->layers * stage;
}

/* Difference of a running sum over the layers of a stage on nodes of a type; of
 * those that stay there where the vocabulary is spread over all ranks. */
static inline double sum_of_stage_on(const Bound *b, const double *sum, int stage, int node_type)
{
  int first = bound_first_layer(b, stage), end = bound_first_layer(b, stage + 1);
  gboolean spread = b->layout->pipeline.schedule->vocabulary > 0;

  sum += node_type * (b->model->n_layers + 1);
  return sum[MIN(end, b->model->n_layers - spread)] - sum[MAX(first, spread)];
}

/* Of a stage wherever it is fastest: a two-way schedule has it twice. */
double sum_of_stage_mixed(const Bound *b, const double *sum, int stage);

static inline double sum_of_stage(const Bound *b, const double *sum, int stage)
{
  return b->mixed ? sum_of_stage_mixed(b, sum, stage) : sum_of_stage_on(b, sum, stage, 0);
}

static inline int bound_stage(const Bound *b, int rank, int chunk)
{
  return schedule_stage(b->layout->pipeline.schedule, &b->shape, rank, chunk);
}

/* Whether all stages but the first and the last hold the same. */
static inline gboolean bound_alike(const Bound *b)
{
  return b->sums->alike && !b->mixed && !b->layout->pipeline.cut.split.stages && !b->layout->pipeline.cut.split_rank &&
         b->layout->pipeline.schedule->placement == PLACE_LOOP;
}

/* Whether orders of the schedule follow from its shape alone, and hold nothing but forwards and backwards, whole or split,
 * that run one after the other. */
static inline gboolean bound_knows_order(const Schedule *s)
{
  gboolean placed = s->placement == PLACE_LOOP || s->placement == PLACE_ZIGZAG;

  return placed && !s->vocabulary && !s->opportunistic && !s->recompute && !s->by_time && !s->pairs;
}

/* Whether each rank runs its passes as the schedule has them, of the whole model at once. */
static inline gboolean bound_keeps_order(const Layout *l)
{
  return bound_knows_order(l->pipeline.schedule) && !l->passes.framework->single_process && l->n_runs == 0;
}

/* Of all stages of a rank. */
double sum_of_rank(const Bound *b, const double *sum, int rank);
BoundWeights bound_weights(const Bound *b, int rank); /* but for `sharers`, */
BoundWeights bound_weights_at_end(const Bound *b, int rank); /* and with them, as bound_rank_end() takes them */
BoundWeights bound_weights_of(const Bound *b, int layer); /* on nodes of the first type */

/* The next rank whose bound must be looked at. Ranks between the second and the
 * last but one hold the same as those where blocks are alike; what is held in
 * flight falls with the rank, what comes before and behind its passes rises. */
static inline int bound_next_rank(const Bound *b, int rank)
{
  return rank == 1 && bound_alike(b) ? MAX(2, b->shape.ranks - 2) : rank + 1;
}

/* Micro-batches that a chunk runs: each copy of the model has its part. */
static inline double bound_chunk_micro(const Bound *b)
{
  return (double)b->shape.micro / b->copies;
}

static inline const StateLayout *bound_states(const Bound *b, int kind)
{
  return &b->layout->states[kind];
}

/* Seconds of sums of gradients of a kind of weights, of those over copies of a part of them, once a step, and of a
 * gather, of which frozen weights are so many bytes, and of such a share of the rank's weights. Bound.data, summed and
 * part_copies are to be the rank's: bound_rank_groups(). */
double bound_reduction_s(const Bound *b, double params, int kind);
double bound_across_s(const Bound *b, double gradients, int kind);
double bound_gather_s(const Bound *b, double params, double narrow, double frozen, const GroupShape *group,
                      double share);

/* Data-parallel groups of a rank, at Bound.site. */
void bound_rank_groups(Bound *b);

RankEnd bound_rank_end(Bound *b, const BoundWeights *weights);

#endif
