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
  int fold;         /* neighbours of a row that do all things together stand for one place */
  int places;       /* of a row */
  int replicas;     /* places of all steps, step by step; one step but for draws */
  double *factor;   /* by row, then by replica: of computation */
  double *link;     /* likewise, of transfers; NULL = 1 */
  double **seconds; /* [segment][row]: by replica; NULL where all take the segment's */
} RankTimes;

/* Of one step, of which each rank has a place. */
void rank_times_init(RankTimes *times, const Program *program, const Layout *layout, const Cluster *cluster,
                     const Straggler *stragglers, int n_stragglers);

/* Of several steps beside one another, with `most` replicas in all or one step, folded as far as the program lets;
 * `links`: transfers have factors too, unset. rank_times_price makes times of what factors are set to, as often as they
 * are. */
void rank_times_init_steps(RankTimes *times, const Program *program, const Layout *layout, const Cluster *cluster,
                           int most, gboolean links);
void rank_times_price(RankTimes *times);
void rank_times_clear(RankTimes *times);

/* By replica, or NULL where all take Segment.seconds. */
const double *rank_times_of(const RankTimes *times, int task);

/* Where a rank's factors stand. */
gsize rank_times_slot(const RankTimes *times, int rank, int step);

/* All of a group get its largest value. */
void rank_join_slowest(double *values, int replicas, RankJoin group);

/* Of a segment's tasks, in places. Size 1 = nobody else. */
RankJoin rank_join_of(const RankTimes *times, const Segment *segment);

#endif
