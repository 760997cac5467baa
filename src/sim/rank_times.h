/* How long a task takes on each rank of its row. Private to src/sim. */
#ifndef TDP_SIM_RANK_TIMES_H
#define TDP_SIM_RANK_TIMES_H

#include "sim/ranks.h"

/* Ranks that start a task together, by their places in a row: blocks of
 * neighbours, one in `stride` of each block. */
typedef struct {
  int size, stride;
} RankJoin;

typedef struct {
  const Program *program;
  const Layout *layout;
  const Cluster *cluster;
  int replicas;
  double *factor;   /* by row, then by place of a rank: of computation */
  double **seconds; /* [segment][row]: by replica; NULL where all take the segment's */
} RankTimes;

void rank_times_init(RankTimes *times, const Program *program, const Layout *layout, const Cluster *cluster,
                     const Straggler *stragglers, int n_stragglers);
void rank_times_clear(RankTimes *times);

/* By replica, or NULL where all take Segment.seconds. */
const double *rank_times_of(const RankTimes *times, int task);

/* Of a segment's tasks. Size 1 = nobody else. */
RankJoin rank_join_of(const RankTimes *times, const Segment *segment);

#endif
