/*
 * Lower bounds of a plan's step time and peak memory from its prices alone.
 *
 * Time: a pipeline rank cannot start before the first micro-batch has reached
 * it, must run all its passes, and after its last backward the gradient still
 * has to pass the stages before it; where a rank's forwards wait for backwards of
 * micro-batches before them (Schedule.ahead), these turns through the stages
 * behind it follow each other; what the data lane alone has to carry is a
 * bound too; gradients of the last piece, the norm, the optimizer and the
 * gathering of parameters follow. Where backwards are split, only the input
 * gradients have to pass on; where passes may overlap, only computation counts,
 * as an overlapped pair takes no less. A vocabulary that is spread over all
 * ranks is left out. Memory: states and the schedule's peak of activations of
 * the smallest chunk. Neither can exceed what simulate() finds;
 * tests/test_search.c compares them over random plans.
 */
#ifndef TDP_SEARCH_BOUND_H
#define TDP_SEARCH_BOUND_H

#include "cost/price.h"

/* Prices of all plans of a search that share tensor parallelism, micro-batch,
 * sequence parallelism, expert degrees and recomputation, with running sums over the layers. */
typedef struct {
  PriceTable *prices;
  const Cluster *cluster; /* that they are of */
  /* Running sums over the layers, n_layers + 1 entries each, for each node type of a mixed cluster; one block of
   * memory, which begins with the first. */
  double *forward_s, *backward_s;
  double *remade_s;      /* backwards without what they wait for the host: no more than those that make nothing again and
                          * forwards of their own, where the host may be in the way of neither */
  double *input_s, *weight_s; /* input gradients, weight gradients */
  double *either_s;      /* backwards, split or not */
  double *least_s;       /* computation of a forward and a backward, split or not */
  double *least_input_s; /* computation of a forward and an input gradient */
  double *alone_s[PASS_INPUT + 1]; /* PassPrice's, of forwards and of backwards, whole or of the input alone */
  double *params, *expert_params; /* expert_params: of experts that are apart */
  double *narrow, *expert_narrow; /* of them, those of products in 8 or 4 bits */
  double *frozen, *expert_frozen; /* bytes of weights that are not trained */
  double *saved;
  double *deferred;      /* what is saved, or what a weight gradient needs if that is less */
  gboolean alike;   /* all blocks are of one kind */
  double scratch[2]; /* of the backward of the least demanding block, [1] of the last layer */
  double placeholder_bytes; /* LayerPrice's, that a rank with a block keeps at least for the whole step */
} PriceSums;

PriceSums *price_sums_new(const Model *model, const Layout *layout, const Cluster *cluster);
/* The same of prices that it owns. */
PriceSums *price_sums_of(const Model *model, const PassLayout *passes, const Cluster *cluster, PriceTable *prices);
void price_sums_free(PriceSums *sums);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PriceSums, price_sums_free)
gsize price_sums_bytes(const Model *model, const PriceSums *sums); /* that they take, beside the prices */

/* Weights of a rank, [1] those of experts that are apart: parameters that are trained, of them those of products in 8 or
 * 4 bits, bytes of those that are not trained, and ranks that share a node's memory where the optimizer is there, else
 * 0. */
typedef struct {
  double params[2], narrow[2], frozen[2], sharers[2];
} BoundWeights;

/* What comes behind the passes of a rank that holds such weights and runs so many micro-batches through each chunk. */
typedef struct {
  const Cluster *site; /* where it runs */
  BoundWeights weights;
  double micro;
  double lane;   /* all that the data lane carries */
  double last;   /* from the norm to the end of the step */
  double tail;   /* gradients that wait for the last backward */
  double slowed; /* by reductions of every micro-batch */
} RankEnd;

/* Those of plans that differ in what changes passes, in schedule and chunks only; starts as zeros. */
#define BOUND_ENDS 8
typedef struct {
  int n;
  RankEnd ends[BOUND_ENDS];
} BoundEnds;

/* `ends` remembers from call to call; NULL = nothing. */
double bound_time(const Model *model, const Layout *layout, const Cluster *cluster, const PriceSums *sums,
                  BoundEnds *ends);

/* From the passes alone, whatever becomes of states: no more than that of any plan with them. */
double bound_time_of_passes(const Model *model, const Layout *layout, const Cluster *cluster, const PriceSums *sums);

/*
 * The same as bound_time(), closer where stages stand in a loop or are folded back and no passes run as one: a sweep
 * over every rank's order of passes, each of which starts once its rank is free and what the neighbouring stage sends
 * has arrived. 0 where the order or what is sent depends on more. Tests find it a few hundred-thousandths below the
 * simulation where the gradients go once a step.
 *
 * What data-parallel collectives add. Those of the step's start run one after the other from time 0, and pieces of a
 * chunk's first forward wait for theirs. A piece's gradients are summed once its backward and the sums before it are
 * over; from the backward's end to the end of the sum the data lane is never idle. While it is busy passes are slowed
 * by no less than the least slowdown of its gathers and sums; once it has sums over copies of a part that slow less, what
 * comes behind these counts as not slowed. So whatever holds a pass up in the simulation, it can only
 * start later than in the sweep, be slowed for longer, and end later: all that the sweep does rises with what it is
 * given.
 *
 * ZeRO-3's gather for a use, a piece of a pass that needs weights, comes behind the use before it or, where gathers
 * overlap passes, behind the one before that; in the lane it stands behind the sums of the use that it waits for and
 * before those of the use between. A weight gradient by itself needs no weights. When a use starts, its gather
 * has ended and what the lane has next waits for nothing any more: the lane is busy from then on to the end of the gather
 * ahead, as above. It need not be where weights come up from the host first or a second copy's gathers slow otherwise:
 * there, and where frameworks bound what is gathered ahead by its size (whose gathers are left out), nothing is slowed.
 * A pass that makes gradients of each micro-batch waits until the framework's queue of sums is as short as it has it.
 * Copies to the host and back are left out.
 *
 * Passes that no other runs beside wait for their exchanges of tokens (schedule_order_alone, PassPrice.alone_s): bounds
 * from prices alone have those that schedule_alone() counts.
 */
double bound_time_by_order(const Model *model, const Layout *layout, const Cluster *cluster, const PriceSums *sums);

/* What a rank holds at least: weights, and bytes beside states and buckets of them. */
typedef struct {
  BoundWeights weights;
  double dynamic;
  double beside;      /* the same, without what is lost to fragments, where a layer's backward runs, beside its weights
                         and gradients; 0 = not known */
  BoundWeights layer; /* of that layer */
  double behind;      /* the same where the backward of the layer before it runs, while the gradients of both may be
                         there; 0 = not known */
  BoundWeights both;  /* of both layers */
  double placeholder_bytes; /* PriceSums', of a rank with a block; else 0 */
  double room;        /* of `dynamic`, what memory_in_room adds */
  const Device *device; /* where they are */
} RankBytes;

/* The ranks of which one needs most memory, whatever becomes of states. */
#define BOUND_RANKS 8
typedef struct {
  int n;
  RankBytes ranks[BOUND_RANKS];
} BoundRanks;

BoundRanks bound_ranks(const Model *model, const Layout *layout, const PriceSums *sums);
double bound_memory(const Layout *layout, const BoundRanks *ranks);

/* On a mixed cluster bounds of memory, and what search compares of a simulated
 * plan, are counted in room: as if every device had the memory of Cluster.device. */
double memory_in_room(const Cluster *cluster, double bytes, double capacity_bytes);

/* The same, closer where bound_time_by_order() sweeps orders: walks each rank's order of passes with the sizes of its
 * chunks, of which an input gradient leaves what the weight gradient needs. What data-parallel
 * communication holds beside them is left out. */
double bound_memory_by_order(const Model *model, const Layout *layout, const PriceSums *sums);

#endif
