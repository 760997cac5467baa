/*
 * Lower bounds of a plan's step time and peak memory from its prices alone.
 *
 * Time: a pipeline rank cannot start before the first micro-batch has reached
 * it, must run all its passes, and after its last backward the gradient still
 * has to pass the stages before it; what the data lane alone has to carry is a
 * bound too; gradients of the last piece, the norm, the optimizer and the
 * gathering of parameters follow. Memory: states and the schedule's peak of
 * activations of the smallest chunk. Neither can exceed what simulate() finds;
 * tests/test_search.c compares them over random plans.
 */
#ifndef TDP_SEARCH_BOUND_H
#define TDP_SEARCH_BOUND_H

#include "search/space.h"

/* Prices of all plans of a search that share tensor parallelism, micro-batch,
 * sequence parallelism and recomputation, with running sums over the layers. */
typedef struct {
  PriceTable *prices;
  double *forward_s, *backward_s, *params, *saved; /* n_layers + 1 running sums */
  double transient; /* scratch of a backward, of the least demanding block or head */
} PriceSums;

PriceSums *price_sums_new(const Model *model, const Plan *plan, const Cluster *cluster);
void price_sums_free(PriceSums *sums);

double bound_time(const Model *model, const Plan *plan, const Cluster *cluster, const PriceSums *sums);
double bound_memory(const Model *model, const Plan *plan, const PriceSums *sums);

/* The same, closer: walks each rank's order of passes with the sizes of its
 * chunks. What data-parallel communication holds beside them is left out. */
double bound_memory_by_order(const Model *model, const Plan *plan, const PriceSums *sums);

#endif
