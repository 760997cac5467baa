/*
 * What a micro-batch costs at least on all layers together, whatever stages hold them: of it are made the bounds of
 * plans that are looked at as one, before their layers are split.
 *
 * A step takes no less than the work of its busiest rank, and that no less than the mean of all ranks: micro-batches
 * times seconds of all layers over the ranks. On a mixed cluster the mean is weighted: with any weights of the node
 * types that are 1 on average over the ranks, no step is shorter than micro-batches times the sum over the layers of
 * the least weighted time of each, over the ranks (the dual of the linear program that spreads layers over types
 * freely). Weights under which the model takes as long on each type make it close.
 */
#ifndef TDP_SEARCH_LEAST_WORK_H
#define TDP_SEARCH_LEAST_WORK_H

#include "cost/price.h"

/* What of its passes a schedule is sure to take: forward and backward as they are; their computation, where passes may
 * run as one or are split; backwards, where forwards may be dropped, without what they wait for the host: one that makes
 * its forward again may wait longer than the two by themselves. */
typedef enum { LEAST_WHOLE, LEAST_COMPUTE, LEAST_BACKWARD, LEAST_COUNT } Least;

typedef struct {
  double seconds[LEAST_COUNT];
  double alone_s; /* PassPrice's, of the forward and the whole backward */
  double params, expert_params, narrow[2], saved_bytes;
  double working_bytes; /* that its backward needs: what its forward saved, kept or made again, and scratch */
  Frozen frozen[2];
} LeastLayer;

/* With a host that is never waited for, if `unhosted`: no pass takes less whatever part of its ops a graph records. */
LeastLayer least_layer(const LayerPrice *price, gboolean unhosted);

/* Layers of the model that have an entry: a spec of it, or, of specs with their products cast and, behind these, in 16
 * bits, one of both. */
typedef struct {
  int all;
  int inner;   /* between the first and the last */
  int blocks;
  int working; /* others than embeddings */
} LayerUses;

/* Of each spec, or of both; owned by the caller. */
LayerUses *layer_uses(const Model *model);
LayerUses *layer_uses_of_specs(const Model *model, const PassLayout *passes);

/* Blocks that take the same; of more kinds than that several count as the quickest of them. */
#define LEAST_KINDS 4
typedef struct {
  double seconds[LEAST_COUNT];
  int blocks;
} LeastBlocks;

/* Of all layers, as a PriceTable has them. */
typedef struct {
  const LeastLayer *layers; /* [node type][entry] */
  const LayerUses *uses;    /* [entry] */
  int n;
} LeastLayers;

typedef struct {
  double seconds[LEAST_COUNT][2]; /* [without the embedding and the head]; on a mixed cluster of its mean device */
  double block_s;                 /* forward and backward of the quickest block; 0 on a mixed cluster */
  double alone_s;                 /* of all layers, both ways */
  int n_kinds;                    /* 0 on a mixed cluster */
  LeastBlocks kinds[LEAST_KINDS];
  double params, expert_params, narrow[2], saved_bytes;
  double working_bytes;            /* the least of any layer but the embedding */
  Frozen frozen[2];
} LeastWork;

LeastWork least_work(const LeastLayers *layers, const Cluster *cluster);

/*
 * Seconds of a step from its passes alone, however layers are split.
 *
 * With whole backwards in a loop of stages a rank waits for all stages before its first one, both ways, for p seconds,
 * and runs m micro-batches of w seconds: it ends at p + m w. With one chunk a rank p is the sum of w of the ranks
 * before it: if no rank ends behind T, T - p falls by no more than a factor of 1 - 1/m from rank to rank, and what all
 * take is at most T (1 - (1 - 1/m)^ranks). With more chunks each stage but the first and the last has one block at least.
 *
 * Passes that no other runs beside take longer: with one stage the first forward and the last backward.
 *
 * Blocks are whole: of n that take t seconds or more some rank holds n over the ranks, rounded up, and takes m times as
 * much; where the model stands there several times, each copy of a block takes its part of the micro-batches.
 */
double least_step_s(const LeastWork *work, const Schedule *schedule, const ScheduleShape *shape);

#endif
