/*
 * Every rank of a plan on its own clock: stragglers and uneven placement.
 *
 * A program's row stands for tp x cp x dp alike ranks. Here each of them has
 * its own times, while the tasks are shared: the program is swept once in an
 * order in which each task comes behind what it waits for (program_order), and
 * each step of the sweep is a loop over the row's ranks, of whose times only
 * those that a later step reads are kept. Nothing is shared between transfers (as in simulate()).
 *
 * What joins ranks: a pass starts when all ranks of its tensor and context
 * groups are ready and takes as long as their slowest; a gather or reduction
 * starts when all of its data-parallel group are ready; the gradient norm when
 * all ranks of the plan are. Sends and the sum of tied embeddings join ranks
 * with the same coordinates in two rows. Waiting for a group counts as waiting,
 * its slowest computation as computation.
 *
 * What differs between ranks: `factor` times as long for computation of a
 * straggler, first in what it would stand still for its host (segment_behind); and
 * where a group lies on nodes otherwise than the folded row's (which is taken as spread as the worst), its own price. Tensor groups are
 * priced as in the folded row. Rows of an opportunistic program keep the order
 * that simulate() finds, whatever their ranks' times. Where ranks are alike the result is simulate()'s:
 * to the last bit where no pass runs beside a collective that slows it, within rounding (1e-12 of itself) where one
 * does. Devices of a node that slow one another (Program.crowds) are left out.
 *
 * A step as a distribution (simulate_draws): the same sweep through many steps
 * beside one another. What they draw are rates of devices and of their links for
 * the whole step, and each pass's by itself; ranks of which a pass waits for the
 * slowest anyway stand for one place, that draws the slowest of them. Tokens fall on
 * experts as routing.h says.
 */
#ifndef TDP_SIM_RANKS_H
#define TDP_SIM_RANKS_H

#include "sim/routing.h"
#include "trace/trace.h"

typedef struct {
  int rank;
  double factor; /* of its time for computation, > 0 */
} Straggler;

/* Ranks stand by row, then by their place in its stage (mesh.h): row x replicas + place. */
typedef struct {
  int n_rows, replicas;
  double end_s;     /* of the step, Program.step_s included */
  double *pass_s;   /* by row and place: time in passes */
  double *finish_s; /* by row and place: end of its last task */
  int slowest;      /* row and place of the rank with the most time in passes */
  Trace *trace;     /* the replica of the slowest rank in each row */
} RankRun;

/* NULL where one sweep cannot do it: more than one lane of a row slows its computation, or collectives that slow rows
 * wait for one another's passes across rows. */
RankRun *simulate_ranks(const Program *program, const Layout *layout, const Cluster *cluster,
                        const Straggler *stragglers, int n_stragglers);

/* Standard deviations, of what takes 1 on average; and loads of experts. */
typedef struct {
  double device; /* of computation, from one device to the next, over a step */
  double pass;   /* from one pass to the next */
  double link;   /* of a rank's transfers, over a step */
  const Routing *routing; /* how uneven the busiest experts' loads are; NULL = as even as the prices take them to be */
} Jitter;

/* Seconds of each of `n` steps, newly allocated, or NULL where simulate_ranks() is. Prices are of devices without
 * spread (Device.rate_spread 0), which is drawn here. Step i is the same whatever n is. */
double *simulate_draws(const Program *program, const Layout *layout, const Cluster *cluster, const Jitter *jitter,
                       const Straggler *stragglers, int n_stragglers, int n);

/* Prices a plan that plan_check accepts without spread and for passes that are alike (Device.rate_passing 0), and draws
 * it with the spread of its devices, the jitter's of passes, and with its experts' loads; the jitter's others are not
 * read. */
double *simulate_plan_draws(const Model *model, const Cluster *cluster, const Plan *plan, const Jitter *jitter,
                            const Straggler *stragglers, int n_stragglers, int n);

void rank_run_free(RankRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RankRun, rank_run_free)

#endif
