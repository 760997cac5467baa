/*
 * The walk through the space. Private to src/search/space*.c: space.c visits plans in order, space_parts.c and
 * space_choices.c bound many of them as one, and the former comes back to those that are asked for.
 */
#ifndef TDP_SEARCH_SPACE_WALK_H
#define TDP_SEARCH_SPACE_WALK_H

#include "search/fullest_rank.h"
#include "search/space.h"

/* Prices of the last plan under a choice of passes: most plans that come behind it have the same. */
typedef struct {
  PassLayout passes; /* without ranks: none was asked for yet */
  const PriceSums *sums, *without; /* as of SpaceLeaf */
} PassSums;

/* What the plans of some degrees pass through: nothing is made again, or all, under each choice that changes prices. */
typedef struct {
  PassLayout passes;
  guint schedules;   /* bit i: of schedules[i] */
  gboolean unhosted; /* stands for whatever graphs record of these passes */
} LeastPasses;

/* A schedule and chunk count of the space. */
typedef struct {
  int schedule, chunks;
} LeastShape;

/* What those of some degrees that make no whole block again need at least. */
typedef struct {
  guint of;         /* one more than the degrees */
  HeldBlocks held;  /* of all states; saved: of the choices of passes and micro-batch that were asked for last */
  double bytes;     /* of a micro-batch of which they fill more than the device; 0: of none so far */
  int steady;       /* micro-batches with which, or with more of which, a larger one needs no less */
} KeepingBytes;

typedef struct {
  GArray *least[2];  /* LeastPasses: [1] those that make whole blocks again, once they are asked for */
  GArray *shapes;    /* LeastShape */
  guint of, made_of; /* one more than the degrees that these are of */
  gint64 plans;      /* of a micro-batch */
  double state_bytes; /* that a rank holds at least on average; negative: not known yet */
  KeepingBytes keeping;
  double working_bytes; /* of a micro-batch, of which one layer alone fills more than the device wherever its input and
                           states are; 0: of none so far */
} DegreesBound;

/* Whether blocks keep their inputs at least, of what divides these: one more than that, 0 = nothing. */
#define KEPT_INPUTS 64
typedef struct {
  int of;
  gboolean keeps;
} KeptInputs;

struct SpaceWalk {
  const Model *model;
  const Cluster *cluster;
  const SearchOptions *options;
  PriceCache *prices;
  HeldTable *held;
  const SpaceVisitor *visitor;
  gint64 space;      /* place of the next plan */
  guint met;         /* micro-batches of degrees */
  GArray *degrees;   /* Plan: degrees that parts have */
  guint at;          /* of them, one more than those that choices are of */
  DegreesBound bound;
  PartHalf half;      /* of the part that is walked */
  int order;          /* of node types, that is walked */
  PassChoice passes[PASS_CHOICES];
  StateChoice states[STATE_CHOICES];
  BoundEnds ends[STATE_CHOICES];
  PassSums pass_sums[PASS_CHOICES];
  guint switches[STATE_CHOICES];
  int n_passes, n_states;
  gint64 variants; /* plans of all states of one choice of passes */
  int experts;   /* of the model's layers, the fewest; 1 if it has none */
  ModuleSets sets;
  gboolean beaten[PASS_CHOICES]; /* choices of no use with the dispatcher that is walked */
  KeptInputs kept[KEPT_INPUTS];
  guint64 splits; /* of the choice of passes that was walked last (space_splits) */
  guint64 asked; /* exclusions that are fixed as they stand */
  gboolean stopped;
};

typedef struct SpaceWalk Walk;

/* The states of plans of one schedule and chunk count, under one choice of passes. */
typedef struct {
  const Plan *group;
  int pass;
  const int *rules; /* of each state: which one turns it down */
  gboolean uneven;  /* layers are split by what they take */
} PassStates;

/* Choices of passes and states that plans of these degrees have. */
void space_choices(Walk *walk, const Plan *plan);

/* Calls for each schedule, chunk count and split rank of the space. */
typedef void (*SpaceGroupFunc)(Walk *walk, const Plan *group, gconstpointer data);
void space_each_group(Walk *walk, Plan plan, SpaceGroupFunc each, gconstpointer data);
void space_set_schedule(Walk *walk, Plan *plan, const Schedule *schedule, int chunks);

/* The i-th order of a mixed cluster's node types in the plan; the first is the cluster's own. */
int space_count_orders(const Walk *walk);
void space_set_order(const Walk *walk, Plan *plan, int i);

/* Whether a choice of passes is of such a half. */
gboolean space_in_half(const Walk *walk, PartHalf half, int pass);

int space_check_part(const Walk *walk, const Plan *plan, PlanPart part);
gboolean space_stops(Walk *walk);

/* Walks all of a micro-batch; and one choice of passes of a group. Prices that plans before them had are to be
 * forgotten. */
void space_walk_orders(Walk *walk, Plan plan);
void space_walk_choice(Walk *walk, const Plan *group, int pass);
double space_pass_bytes(Walk *walk, const Plan *group, int pass); /* space_choice_bytes() of it */
void space_forget(Walk *walk);

/* ---- space_parts.c ---- */

/* Ways for tokens to reach experts that are apart: bit i is ExpertDispatch i. */
guint space_dispatchers(const Walk *walk, const Plan *plan);

/* Of these, those that another one beats under the plan's degrees and micro-batch. */
guint space_beaten(const Walk *walk, const Plan *plan, guint open);

/* Notes which choices of passes are of no use for plans of these degrees, micro-batch and dispatcher, which `rule`
 * turns down or not. */
void space_find_beaten(Walk *walk, const Plan *plan, int rule);

/* Whether a rule turns down a state of the plan's degrees under any choice of passes: the framework runs no such ZeRO
 * stage. */
gboolean space_zero_broken(const Walk *walk, const Plan *plan);

/* Meets a micro-batch of the last of `degrees`. */
void space_meet_batch(Walk *walk, const Plan *plan);

/* Bytes of what becomes of weights, and of what is held beside it, on the average rank; and what the average rank needs
 * at least as if every device had the memory of Cluster.device. */
double space_mean_state_bytes(const Walk *walk, const Layout *layout, const LeastWork *work);
double space_mean_in_room(const Cluster *cluster, double bytes);

/* ---- space_choices.c ---- */

/* Behind the last of the states from `from` on that have its prices, under a choice of passes. */
int space_alike_states(const Walk *walk, Plan group, int pass, int from);

/* The splits of an uneven choice of passes, one of each of these, hashed, those that the framework cannot run too:
 * equal where all are. 0 on a mixed cluster, where splits go by memory too. */
guint64 space_splits(const Walk *walk, const PassStates *states);

/* Bytes that plans of a choice of passes need at least, without those of the sets of modules behind it. */
double space_choice_bytes(Walk *walk, const PassStates *states);

/* Meets a choice of passes of a group, but for the states that rules turn down. */
void space_meet_choice(Walk *walk, const PassStates *states);

/* ---- space_kept.c ---- */

/* Bytes that the average rank keeps at least of a micro-batch beside what the backward of one layer needs: the inputs of
 * its other blocks, whatever these make again. While the first of its backwards runs, a rank holds what the forward of
 * that micro-batch left of all its layers, and each block its input at least, in whole plans or parts. 0 where that may
 * be elsewhere. Behind the choices and schedules of the plan's degrees. */
double space_kept_bytes(Walk *walk, const Plan *plan);

/* Bytes that some rank needs at least in plans of the degrees and micro-batch that make no whole blocks again, whatever
 * rates are; 0: not known. Micro-batches of the same degrees come in rising order. */
double space_keeping_bytes(Walk *walk, Plan plan, guint degrees);

/* The same of those of them that make nothing again. */
double space_keeping_all_bytes(Walk *walk, Plan plan, guint degrees);

/* Bytes of a block's input that each rank keeps, of all but the encoder's blocks: the part that it has where `divided`,
 * as the tensor-parallel ranks may divide it, else the whole. The first is the least, the second the most. */
double space_input_bytes(const Walk *walk, const Plan *plan, gboolean divided);

#endif
