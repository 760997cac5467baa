/*
 * A strategy for each layer under a memory limit, exactly (the search of
 * Galvatron, Miao et al. 2022, arXiv 2211.13878, section 3.3, without rounding
 * memory to steps).
 *
 * Layers run one after the other on the same devices. Each has some time and
 * takes some memory under each strategy; between neighbours with different
 * strategies a change of layout takes time. Before the first and behind the last
 * layer stands the strategy `outside`. Least time in the room there is: labels of
 * time and memory go from layer to layer, for each layout behind the last layer
 * those that no other beats in both, and from which a price for memory does not show
 * that nothing better than a known choice follows.
 *
 * layerwise_of_stage() makes the problem of the blocks of one pipeline stage of a
 * plan: times are of a whole step, micro-batches times passes, with the optimizer
 * and what data-parallel communication adds: alone all of it, beside passes what
 * they are slowed by while it runs, and what is left of it behind them; memory is
 * states and the activations in flight. What a stage's layers share, as Muon's
 * gathers and the matrices that the ends of parts cut, each bears as if all had its
 * strategy. It leaves out the order of tasks, and of experts that are apart all but
 * their passes.
 * layerwise_step_s() puts the stages of a pipeline together: (micro-batches - 1) x
 * slowest + sum of all, and what ends a step of the slowest.
 * The plan that says the choices (layerwise_append) is then simulated.
 */
#ifndef TDP_SEARCH_LAYERWISE_H
#define TDP_SEARCH_LAYERWISE_H

#include "base/stop.h"
#include "cost/price.h"

typedef struct {
  int layers, strategies;
  double *seconds;  /* [layer][strategy] */
  double *bytes;    /* [layer][strategy] */
  double *change_s; /* [strategy before][strategy behind] */
  int outside;
  double room;      /* bytes */
  const gboolean *barred; /* [strategy]: no layer takes it; NULL = any may be taken */
  /* of a stage alone */
  double *pass_s;   /* [layer][strategy]: of `seconds`, one micro-batch's passes */
  double end_pass_s, end_once_s; /* of the embedding and the head: of a micro-batch, of a step */
  double fixed_bytes; /* of the device, beside the room */
  Stop *stop; /* asked before each layer; NULL = never */
} LayerwiseProblem;

/* The same of a stage's problem, in the room that communicators of the strategies taken leave: those of each tensor degree
 * but the plan's own, as many as any of its variants has. Exact, too. */
gboolean layerwise_solve_stage(const LayerwiseProblem *problem, const GArray *variants, int *choice, double *seconds);

/* Bytes of the device under a choice: fixed ones, layers and communicators. */
double layerwise_stage_bytes(const LayerwiseProblem *problem, const GArray *variants, const int *choice);

/* What a stage takes under a choice: of a micro-batch, and once a step. */
typedef struct {
  double pass_s, once_s;
} StageTime;

StageTime layerwise_stage_time(const LayerwiseProblem *problem, const int *choice, int micro_batches);

/* Seconds of a step of a pipeline of such stages. */
double layerwise_step_s(const Layout *layout, const StageTime *stages);

/* Appends the choice as runs of the variants' strategies; FALSE if a plan cannot hold so many. */
gboolean layerwise_append(const LayerwiseProblem *problem, const int *choice, const GArray *variants,
                          LayerStrategies *out);

/* The best strategy of each layer and the time of all; FALSE if nothing fits, or a stop came first. */
gboolean layerwise_solve(const LayerwiseProblem *problem, int *choice, double *seconds);

/* Time and bytes of a choice. */
double layerwise_seconds(const LayerwiseProblem *problem, const int *choice);
double layerwise_bytes(const LayerwiseProblem *problem, const int *choice);

/* A stage's blocks with every legal tensor degree, sequence parallelism, ZeRO
 * stage and recomputation of the plan's devices. Strategy `outside` is the plan's
 * own. `variants` gets a plan for each strategy. What a stop (NULL = none) cut short is no problem to solve, and nothing
 * solves it. */
LayerwiseProblem *layerwise_of_stage(const Model *model, const Cluster *cluster, const Plan *plan, int stage,
                                     GArray *variants, Stop *stop);
void layerwise_problem_free(LayerwiseProblem *problem);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LayerwiseProblem, layerwise_problem_free)

#endif
