/*
 * Walking the declared space. A group shares degrees and batch; its members differ
 * in schedule and chunks, in what changes passes (PassChoice) and in what becomes of
 * states (StateChoice). A rule is checked once for all plans that share what it
 * reads (PlanPart), and turns all of them down at once; rules of states are checked for
 * each choice of passes whose activations go to the host, or that has what the framework
 * excludes with some states (excluded.h). Schedules are those that the framework runs, or the one that is fixed.
 * An encoder-decoder's stages are cut by layers, and where the encoder ends on each rank that leaves both
 * stacks equal stages (pipeline_model_parallel_split_rank). Where equal stages break a rule of layers, the plan gets
 * the best split by time. On a mixed cluster groups also differ in the order of the node types along the
 * pipeline, and each plan gets the best split that fits (as Metis, ATC 2024, orders
 * types and splits layers by what they do).
 *
 * To add a choice: a field of one of the two, its values in space_passes() or
 * space_states(), and its place in the plan in space_choose() (space_states.c).
 */
#ifndef TDP_SEARCH_SPACE_H
#define TDP_SEARCH_SPACE_H

#include "plan/plan.h"
#include "search/price_cache.h"
#include "search/search.h"

/* The plan that the others start from: the caller's, with what is fixed. */
Plan space_base(const SearchOptions *options);

/* Whether the space has plans that divide sequences of so many tokens over so many ranks. */
gboolean space_has_context(const SearchOptions *options, int seq, int cp);

/* Plans that differ in what they overlap alone. */
enum { VARIANTS_MAX = OVERLAP_SWITCHES + 1 };

/* Overlaps of a plan that it may do without, as bits. */
guint space_switches(const Plan *plan);

/* Turns off what is in `off`. */
void space_switch_off(Plan *plan, guint off);

/* Whether what blocks of a plan keep may go to the host: over links that published runs do it over, over others where that
 * is asked for. */
gboolean space_offers_layers(const SearchOptions *options, const Cluster *cluster, const Plan *plan);

/* The blocks of each such choice, 1 .. OFFLOAD_CHOICES: even steps up to all but one. */
int space_offloaded(const Model *model, int choice);

/* Sets of modules that the space has for selective recomputation, beside the attention core: each has all of the one
 * before it, so that it takes no less time in any pass and keeps no more of a layer. */
typedef struct {
  int n;
  guint8 sets[MODULE_COUNT]; /* RecomputeScope.modules */
  gboolean always;           /* the framework makes something again always: no plan stands before the first set */
} ModuleSets;

/* Those that the framework has for such plans of the model: what it excludes is asked of the base plan. */
ModuleSets space_module_sets(const Model *model, const Cluster *cluster, const Plan *base);

/* Gives a plan of the space the next of these sets, where the space has that too; FALSE if it has none. */
gboolean space_next_set(const SearchOptions *options, const Model *model, const Cluster *cluster, Plan *plan);

typedef struct {
  guint8 sequence_parallel, recompute;
  guint8 modules;          /* of selective recomputation; 0 = the framework's */
  guint8 after;            /* sets of modules behind this one, or behind none at all (ModuleSets) */
  guint8 recompute_layers; /* of each stage, the others are kept; 0 = no count */
  guint8 exchange;    /* tokens travel to experts beside passes of other micro-batches */
  guint8 graph, graph_modules; /* CudaGraph, and the plan's */
  guint8 activations; /* what full recomputation keeps goes to the host; the states' rules read it too */
  guint8 offload_layers; /* what so many blocks keep goes there; likewise */
  guint8 switches; /* bit i: plan_pass_switches()[i] is on */
} PassChoice;

/* Whether plans are tried with such CUDA graphs: those of models with experts, whose many small kernels the host launches,
 * with all that the framework runs; with whole steps where rows are kept in pages, as any number of rows goes then. */
gboolean space_tries_graph(const Framework *framework, const Model *model, CudaGraph kind);

/* Those of a group whose degrees `plan` has, at most PASS_CHOICES; behind each its `after` sets. Returns how many. */
#define COUNT_CHOICES 24 /* of recomputed layers */
#define OFFLOAD_CHOICES 8 /* of offloaded layers */
#define GRAPH_CHOICES (GRAPH_COUNT + 1) /* parts of two sets of modules */
#define PASS_CHOICES (2 * 2 * GRAPH_CHOICES * (4 + COUNT_CHOICES + OFFLOAD_CHOICES + MODULE_COUNT))
int space_passes(const SearchOptions *options, const Model *model, const Cluster *cluster, const ModuleSets *sets,
                 const Plan *plan, PassChoice *passes);

typedef struct {
  guint8 zero, offload; /* offload: index into what --fix takes for it */
  int shard_group;
  int secondary; /* ranks of ZeRO++'s second copy, with its collectives on fewer bits; 0 = none */
  guint8 formats; /* of optimizer states: index into space.c's list; 0 = the base plan's */
  guint8 gather;  /* ParamGather */
  guint8 kept;    /* whether weights of ZeRO-3 stay gathered from forward to backward */
} StateChoice;

/* Those of a group whose degrees `plan` has, at most STATE_CHOICES; returns how many. */
#define STATE_CHOICES 132
int space_states(const SearchOptions *options, const Model *model, const Cluster *cluster, const Plan *plan,
                 StateChoice *states);

/* Sets what a member of a group chooses. */
void space_choose(Plan *plan, const PassChoice *pass, const StateChoice *state);

/* Whether a plan may do without the tensor overlap and take less; passes of it then. And their prices, else NULL. */
gboolean space_without(const SearchOptions *options, PriceCache *prices, const Plan *plan, PassLayout *without);
const PriceSums *space_sums_without(const SearchOptions *options, PriceCache *prices, const Plan *plan);

/* A legal plan of the space; all of it lives only during the call. */
typedef struct {
  const Plan *plan;
  const Layout *layout;
  const Plan *group; /* the same without its choices and its split; one address a group, schedule and chunk count */
  gboolean first;    /* of that group, schedule and chunk count */
  PassChoice pass;
  StateChoice state;
  gboolean behind;         /* a set of modules, with those behind it: prices are of the plan before it, which takes no
                              more time; `ranks` is of what any of them holds at least */
  const PriceSums *sums;
  const PriceSums *without; /* the same without the tensor overlap where that may be off and take less, else NULL */
  BoundEnds *ends;         /* for bound_time */
  const BoundRanks *ranks; /* for bound_memory */
  guint switches;  /* overlaps of which each may be on or off: the leaf is so many plans */
  gint64 family;   /* the index of the same plan without the sets of modules behind it */
  gint64 index;    /* of the first of them in the space; those of the next set of modules come behind all of them */
} SpaceLeaf;

/* Plans of some degrees and a micro-batch that a part holds: all, those that make whole blocks again, or the others. */
typedef enum { HALF_BOTH, HALF_MADE, HALF_KEPT } PartHalf;

/*
 * Plans that are bounded as one before any of them is looked at: all of some degrees and a micro-batch, or of these
 * the ones of a schedule, chunk count and choice of passes, with every state. The bounds are below those of each of
 * its plans.
 */
typedef struct {
  gint64 index, plans; /* place of the first in the space; how many there are, but those that rules turn down */
  double bound_s, memory_bytes;
  double any_s;        /* bound_s whatever memory there is; of a part of degrees and a micro-batch */
  double kept_bytes;   /* what those that make no whole blocks again need at least; 0: not known; likewise */
  double state_bytes;  /* of memory_bytes, states alone; of a part of degrees and a micro-batch */
  double compute_s;    /* what computes at least of the passes; of a part of degrees and a micro-batch */
  double split_s;      /* of an uneven choice of passes: bound_s with the splits that the cluster's rates make, as a
                          like search knows; 0: not known */
  guint64 split;       /* those splits, hashed, once they were asked for */
  guint batch;         /* a part of degrees and a micro-batch: which of all that the space has */
  guint degrees;       /* private to the walk, as what follows */
  int micro_batch;
  gint16 pass;         /* choice of passes; -1 = all of the degrees and micro-batch */
  guint16 chunks;
  guint8 order, dispatch, schedule, split_rank;
  guint8 floored;      /* its bounds are those that a like search knows; space_bound_part() may raise them */
  guint8 uneven;       /* its plans have the split that is best under the cluster's rates */
  guint8 recompute;    /* of its choice of passes; where that is open, 0 */
  guint8 half;         /* PartHalf; of a part of degrees and a micro-batch */
} SpacePart;

typedef struct {
  /* TRUE: the leaf is too large for a device, and stands for its own plan alone; else for those with the sets of
   * modules behind it too. These come next, all at once, with bounds that hold for each of them (`behind`), or one by
   * one where the visitor wants `each`. */
  gboolean (*legal)(gpointer data, const SpaceLeaf *leaf);
  gboolean each;
  /* `plans` of them break the rule, this one among them. */
  void (*rejected)(gpointer data, const Plan *plan, int rule, gint64 plans);
  gpointer data;
  gboolean (*stops)(gpointer data); /* asked for each part and choice of passes; TRUE ends the walk; NULL = never */
  void (*part)(gpointer data, const SpacePart *part); /* what is in it comes once it is entered; NULL = at once */
  /* A part of degrees and a micro-batch of which a rule turns down all; NULL = nobody asks. */
  void (*broken)(gpointer data, guint batch, gint64 plans);
  double timed_bytes; /* parts that need more are not asked how long they take: bound_s and compute_s are 0 */
} SpaceVisitor;

/* A walk that meets parts, which may be entered in any order, later or not at all. What it is given must outlive it,
 * the visitor too. */
typedef struct SpaceWalk SpaceWalk;
SpaceWalk *space_walk_new(const Model *model, const Cluster *cluster, const SearchOptions *options, PriceCache *prices,
                          const SpaceVisitor *visitor);
void space_walk_free(SpaceWalk *walk);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SpaceWalk, space_walk_free)

/* Meets all parts of degrees and micro-batches, in the order of the space; returns how many plans it has, of a walk
 * that was ended, how many it met. */
gint64 space_walk_all(SpaceWalk *walk);

/* Meets what is in a part: smaller ones, or plans. FALSE if the visitor ended that halfway. */
gboolean space_walk_enter(SpaceWalk *walk, const SpacePart *part);

/* SpacePart.split of the choice of passes that was entered last; 0 where splits go by more than rates. */
guint64 space_walk_splits(const SpaceWalk *walk);

/* Bounds of a part of degrees and a micro-batch of its own, where they are above those that are known of it. */
void space_bound_part(SpaceWalk *walk, SpacePart *part);

/* Divides a part of degrees and a micro-batch where memory forbids all of its plans that make no whole blocks again:
 * these are `others` then, with the bytes that they need at least, and what is left has bounds of its own. FALSE: some
 * of them may fit, or nobody knows. */
gboolean space_divide_part(SpaceWalk *walk, SpacePart *part, SpacePart *others);

/* Bytes that those plans need at least that make nothing again: of `others` of a part that was divided, or of a choice
 * of passes that keeps everything but for sets of modules behind it. No less than memory_bytes. */
double space_all_kept_bytes(SpaceWalk *walk, const SpacePart *part);

/* One of its plans, which may break a rule. */
Plan space_part_plan(SpaceWalk *walk, const SpacePart *part);

/* Visits the whole space in its order; returns how many plans it has, of a walk that was ended, how many it met. */
gint64 space_walk(const Model *model, const Cluster *cluster, const SearchOptions *options, PriceCache *prices,
                  const SpaceVisitor *visitor);

#endif
