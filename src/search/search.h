/*
 * The best plans of a declared space, exactly.
 *
 * The space is every split of the devices into tensor, context, data and pipeline
 * parallelism (context where the framework runs it and leaves a rank at least
 * CONTEXT_TOKENS_MIN tokens or, under SPACE_CONTEXT, any number, with each exchange that it runs), every chunk count and
 * micro-batch that divides, every schedule that the framework runs (or the fixed
 * one), ZeRO stage (over all ranks or, where the framework can, over those of a
 * node), recomputation and sequence parallelism on or off, and each overlap that the framework has on or off, less
 * what the caller fixed. Offload (of activations, with full recomputation), ZeRO++, narrower formats of Adam's states
 * and both orders of ranks (mesh.h) are in it where SearchOptions.space asks for them. Of a model with experts, where
 * the framework divides them over ranks: every expert parallelism that divides the experts and a stage's ranks, an
 * expert's matrices over the tensor-parallel ranks or whole, the exchange of tokens beside passes of other
 * micro-batches or not, the CUDA graphs of space_tries_graph(), and every dispatcher of tokens that the
 * framework runs but those that are no faster in any pass, and no smaller, than another with the same degrees and
 * micro-batch (price_cache_never_better): a plan with one of these is never better than the same with the other.
 * Selective recomputation is of the attention core, where that is of use, and of each set of modules that the
 * framework's file leads to (ModuleSets in space.h): such plans have the split of layers that is best where everything
 * is kept. On a mixed cluster also every order of the node types along the pipeline.
 *
 * Each plan of it is settled in one of three ways and counted: rejected by a
 * named rule, skipped because lower bounds of its time and memory show that it
 * cannot be among the best, or simulated. Bounds come from the same prices as the
 * simulation and never exceed what it finds (bound.h), so nothing better is
 * missed: that is the certificate, and SearchOptions.audit hands it out plan by plan.
 * Rules that a whole group of plans breaks settle it at once, with its count.
 *
 * With `refine`, plans that recompute some layers of each stage, and ZeRO-2 and 3 over halves, quarters ... of the ranks, are
 * tried beside the exact answer: they lie beyond the space, and only replace it where better.
 *
 * Plans are simulated in rounds of fixed size in order of their bounds by order of
 * passes, which are closer and asked for only where those from prices promise
 * something; the incumbent is frozen within each round: the answer and the counts
 * are the same for any number of threads. Of plans with equal values those with all
 * overlaps come first, then the one with the lower bound from prices, then the one
 * that comes first in the space.
 *
 * With a second objective the result is the whole front: the plans that no other
 * one beats in both.
 *
 * A search may be stopped anywhere, and says then how far from the best
 * its answer can be at most. With a journal it goes on another time. One that is
 * stopped by its watch while it walks the space simulates what it met, without a journal.
 */
#ifndef TDP_SEARCH_SEARCH_H
#define TDP_SEARCH_SEARCH_H

#include "accuracy/accuracy.h"
#include "base/stop.h"
#include "plan/keys.h"
#include "search/floors.h"
#include "search/objective.h"
#include "trace/trace.h"

/*
 * Share of a step within which plans tie unless the caller says otherwise. Predictions tell no such plans apart: of two
 * measured runs of one sweep, they are off against each other in half of the pairs by more than 3.5 % where degrees and
 * schedule are the same, 5.6 % where the schedules differ, 4.9 % where the degrees do and 7.6 % where both do (medians
 * of accuracy/differences.json). Simplicity costs no more than that 1 % of the predicted step.
 */
#define TIE_SHARE 0.01

/* Share of the best plan's step by which one that the memory margin alone forbids has to be shorter to be worth a word. */
#define TIGHT_SHARE 0.05

/* Tokens of a sequence that context parallelism leaves a rank at least, unless it is fixed or SPACE_CONTEXT is asked for:
 * half of the fewest of any run with context parallelism in tests/validation, 4,096. Degrees that leave half as many cost
 * a search 1.2 to 2.7 times the instructions. */
#define CONTEXT_TOKENS_MIN 2048

/* Values that a plan of the space must have, by PlanKeyId; -1 = any. Names are indices into the key's; offload one into
 * what --fix takes for it, order whether the pipeline counts before data, schedule one into schedules[], overlap 0 for
 * none and 1 for all. Layers of each stage that are made again: 0 = any number; bits
 * of modules that are, 0 = any set that the space has. */
typedef struct {
  int value[KEY_COUNT];
} Fixed;

Fixed fixed_none(void);

/* NULL = any. */
const Schedule *fixed_schedule(const Fixed *fixed);

/* Choices that the space has only on demand; beside SPACE_OFFLOAD SPACE_HOST_ALONE leaves out states on the device where the
 * framework leaves activations there too: plans that the space has without SPACE_OFFLOAD. */
typedef enum {
  SPACE_OFFLOAD = 1, SPACE_ZERO_PP = 2, SPACE_STATES = 4, SPACE_ORDER = 8, SPACE_CONTEXT = 16, SPACE_HOST_ALONE = 32
} SpaceExtra;

/* Whether a framework runs what `extra` adds, at least in part. */
gboolean space_can(const Framework *framework, SpaceExtra extra);

/* Adds "offload,zero++,states,order,context" to what the space has. The error begins with the option's
 * name: TDP_ERROR_INPUT. */
gboolean space_parse(const char *option, const char *text, guint *space, GError **error);

/* Adds "tp=8,zero=1" to what is fixed: short names of the contract. The error
 * begins with the option's name: TDP_ERROR_INPUT. */
gboolean fixed_parse(const char *option, const char *text, Fixed *fixed, GError **error);

/* Appends every key with its number, -1 where it is free: what tells one question from another. */
void fixed_write(const Fixed *fixed, GString *text);

/* Why a plan was turned down: a rule of plan_check, memory, or that the same plan with another
 * dispatcher, or set of modules, is no worse. */
enum { REJECT_MEMORY = RULE_COUNT, REJECT_BEATEN, REJECT_COUNT };
const char *reject_name(int reason); /* a key of JSON and of certificates */
const char *reject_text(int reason); /* the same, for people */

typedef struct {
  Plan plan;
  Metrics metrics;
  double bound_s;
  double value, second; /* of the objectives */
  gint64 index;         /* in the space */
  gint64 family;        /* the same for plans that differ in overlaps only */
} Found;

/* Values that differ by no more of themselves are the same: sums of one step's times in another order. */
#define VALUE_ROUNDING 1e-9

/* Whether two plans are worth the same and differ in nothing but how many layers keep their activations on the host. */
gboolean found_same_but_offload(const Found *a, const Found *b);

/* How a plan was settled, beside the rules that reject (0 .. REJECT_COUNT - 1). */
enum { SETTLED_BOUNDED = REJECT_COUNT, SETTLED_SIMULATED, SETTLED_OPEN, SETTLED_COUNT };
const char *settled_name(int how);

typedef struct {
  GArray *best;      /* Found, best first, at most `top`, the best of each family, and of plans of one value that differ
                        in offloaded layers alone the one with fewest; with a second objective the whole front */
  gint64 space;      /* plans in the declared space */
  gint64 rejected[REJECT_COUNT];
  gint64 grouped;    /* of those rejected or bounded, members of a group that was settled at once */
  Plan sample[REJECT_COUNT]; /* the first plan that each reason turned down */
  gint64 bounded;    /* skipped by a bound */
  gint64 simulated;
  gint64 refined;    /* plans beyond the space that were better: counts of recomputed layers, groups of ZeRO-2 and 3 */
  gint64 open;       /* neither, because the search was stopped */
  Floors *bounds;    /* of each part of degrees and a micro-batch: closer where it was looked into, infinite where none of
                        it fits or a rule turns it down; where the search was brief, of choices too. Owned */
  double least_bound; /* of the objective, over those skipped by a bound or open; infinite if none */
  struct {
    double passes_s, compute_s; /* of all legal plans but those of which one layer fills more than a device */
    double fitting_s;           /* computation of those whose states may fit */
  } floors;          /* seconds of a step that none of its plans goes below, infinite if there is none; where floors
                        were given, of parts that they spare it counts no computation: 0 */
  gboolean cut;      /* stopped before the whole space was walked: `space` is what was met of it */
  gboolean halted;   /* SearchOptions.stop was heard: what comes behind the proof, as ties, may be missing too */
  double gap;        /* the best is better by at most this share; 0 if the search is complete, 1 where it was cut */
  GError *unkept;     /* why the journal was not written to its end, of an answer that stands all the same; NULL = it was */
  Found robust;       /* the most robust of the plans that tie with the best; set where options.tie asks for it */
  gboolean has_tight; /* a plan was found that takes at least TIGHT_SHARE less, and fits with what is to be kept free */
  Found tight;
  gboolean has_over;  /* a faster plan was found that does not fit */
  Found over;         /* of those tried, the one that needs least memory */
  gboolean has_least; /* set when nothing fits and it is asked for: the plan that needs least memory, or 1 % more than
                           that at most */
  Found least;
} SearchResult;

/* How far a search is, between two rounds or, `walking`, on its way through the space. */
typedef struct {
  gboolean walking;
  gboolean entering; /* between rounds it looks into parts of the space; `simulated` counts what is picked, too */
  gint64 candidates, settled, simulated;
  const Found *best; /* NULL: none yet */
  double gap;
} SearchProgress;

typedef struct {
  const Plan *base; /* gpus, batch, sequence, precision, framework, overlap of all plans */
  Fixed fixed;
  guint space;   /* SpaceExtra */
  int top;
  int threads;   /* 0 = one for each processor */
  gboolean refine; /* counts of recomputed layers for the best and nearly fitting plans (recompute_counts.h), but for a
                      fixed recomputation; groups of ZeRO-2 and 3 for the best; not with `second` */
  gboolean over;  /* look for a faster plan that memory forbids */
  gboolean tight; /* look for a much faster plan that the memory margin alone forbids; of time and alike nodes */
  gboolean least; /* where nothing fits, look for the plan that needs least memory */
  gboolean brief; /* the best plans alone are asked for: none of these, and no `floors` */
  const Objective *objective; /* NULL = time */
  const Objective *second;    /* NULL = none */
  double known;      /* value of some plan of the space that fits: what is worse need not be simulated, and the answer
                        is the same; 0 = none is known. With top 1, and not with `second` */
  const Floors *floors; /* what is known of the parts, as from `bounds` of a like search; those of which it is
                           above `known` are asked nothing more. NULL = nothing is. Of time, where the space has the same
                           parts; not with `refine`, which looks at what does not fit */
  const GArray *simulated; /* Simulation (rounds.h), in full, of plans on this cluster: they are not simulated again.
                               NULL = none is */
  double tie;        /* plans that take longer than the best by at most this share tie with it (ties.h); 0 = none does */
  const Accuracy *accuracy; /* what was measured, for ties; NULL = not known */
  const char *state; /* path of the journal; NULL = none */
  Stop *stop;        /* asked before each part of the space, bounds of a few plans and each simulation; NULL = never */
  /* Called between rounds and often while the space is walked; TRUE ends the search. NULL = never. */
  gboolean (*watch)(gpointer data, const SearchProgress *progress);
  /* Called for each plan once it is settled, in the same order each time; `value` is its bound or value. Of a group
   * that is settled at once, for one of its `plans` members: they have what PlanParts before `open` read in common (but
   * dispatcher and order of node types where that is PLAN_SCHEDULE), or differ in overlaps only. NULL = nobody asks. */
  void (*audit)(gpointer data, const Plan *plan, int how, double value, gint64 plans, int open);
  gpointer data; /* of watch and audit */
} SearchOptions;

/* NULL and an error only where a journal cannot be opened. */
SearchResult *search(const Model *model, const Cluster *cluster, const SearchOptions *options, GError **error);

/* FALSE if no plan of the space, nor any that refine tries, fits by what becomes of its states alone: the search would
 * find nothing. TRUE where some may, as soon as that is seen, or where options.stop was heard. */
gboolean search_states_fit(const Model *model, const Cluster *cluster, const SearchOptions *options);
void search_result_free(SearchResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SearchResult, search_result_free)

#endif
