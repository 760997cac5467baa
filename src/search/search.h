/*
 * The best plans of a declared space, exactly.
 *
 * The space is every split of the devices into tensor, context, data and pipeline
 * parallelism (context where the framework runs it and leaves a rank at least
 * CONTEXT_TOKENS_MIN tokens, with each exchange that it runs), every chunk count and micro-batch that divides, every schedule
 * that the framework runs (or the fixed one), ZeRO stage (over all ranks or, where the
 * framework can, over those of a node), recomputation and sequence parallelism on or off, less what the
 * caller fixed. The optimizer is offloaded only where that is fixed. Each plan of it is settled in one of three ways and counted:
 * rejected by a named rule, skipped because a lower bound of its time is no
 * better than the best found, or simulated. Bounds come from the same prices
 * as the simulation and never exceed its time (bound.h), so nothing better is
 * missed.
 *
 * Plans are simulated in rounds of fixed size in order of their bounds, the
 * incumbent frozen within each: the answer and the counts are the same for any
 * number of threads. Of plans with equal times the one with the lower bound
 * stays first, and of those the one that comes first in the space.
 */
#ifndef TDP_SEARCH_SEARCH_H
#define TDP_SEARCH_SEARCH_H

#include "trace/trace.h"

/* Tokens of a sequence that context parallelism leaves a rank at least, unless it is fixed. */
#define CONTEXT_TOKENS_MIN 2048

/* Values that a plan of the space must have; -1 (NULL) = any. */
typedef struct {
  int tp, pp, vpp, dp, cp, micro_batch, zero, shard_group, offload, sequence_parallel, recompute;
  const Schedule *schedule;
} Fixed;

Fixed fixed_none(void);

/* Reads "tp=8,zero=1": short names of the contract. TDP_ERROR_INPUT. */
gboolean fixed_parse(const char *text, Fixed *out, GError **error);

/* Why a plan was turned down: a rule of plan_check, or memory. */
enum { REJECT_MEMORY = RULE_COUNT, REJECT_FIXED, REJECT_COUNT };
const char *reject_name(int reason);

typedef struct {
  Plan plan;
  Metrics metrics;
  double bound_s;
} Found;

typedef struct {
  GArray *best;      /* Found, fastest first, at most `top` */
  gint64 space;      /* plans in the declared space */
  gint64 rejected[REJECT_COUNT];
  Plan sample[REJECT_COUNT]; /* the first plan that each reason turned down */
  gint64 bounded;    /* skipped by a bound */
  gint64 simulated;
  gboolean has_over;  /* a faster plan was found that does not fit */
  Found over;         /* of those tried, the one that needs least memory */
  gboolean has_least; /* set when nothing fits: the plan that needs least memory */
  Found least;
} SearchResult;

typedef struct {
  const Plan *base; /* gpus, batch, sequence, precision, framework, overlap of all plans */
  Fixed fixed;
  int top;
  int threads;   /* 0 = one for each processor */
  gboolean over; /* look for a faster plan that memory forbids */
} SearchOptions;

SearchResult *search(const Model *model, const Cluster *cluster, const SearchOptions *options);
void search_result_free(SearchResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SearchResult, search_result_free)

#endif
