/*
 * What a search is made of. Private to src/search: search.c walks the space, orders and picks; families.c picks variants
 * of what was simulated; settle.c counts and keeps what is settled; beyond.c looks at what memory forbade, and at counts
 * of recomputed layers.
 */
#ifndef TDP_SEARCH_PARTS_H
#define TDP_SEARCH_PARTS_H

#include "search/queue.h"
#include "search/search.h"
#include "search/variants.h"

/* A candidate with the bound by order of its first variant. */
typedef struct {
  Candidate candidate;
  double order_s, value;
} Near;

/* What was met in a part: indices into Search.parts and Search.candidates, the ends behind. */
typedef struct {
  gboolean entered;
  guint part, parts_end, candidate, candidates_end;
} Within;

typedef struct {
  const Model *model;
  const Cluster *cluster;
  const SearchOptions *options;
  const Objective *objective;
  gboolean by_memory; /* more memory may make a plan worse: each set of modules has bounds of its own */
  SearchResult *result;
  SpaceVisitor visitor;
  SpaceWalk *walk;
  Layout layout;      /* of some plan, for what all plans have in common */
  GArray *parts;      /* SpacePart, as they were met */
  GArray *within;     /* Within, of each part */
  GArray *queue;      /* QueueItem: parts and candidates that nobody has looked into */
  GArray *candidates; /* Candidate */
  GArray *closest;    /* double, of each: seconds that all that it stands for and that fits takes at least, as settled */
  GArray *later;      /* Candidate: with the next set of modules, of those that were looked at; best last */
  GArray *near;       /* Near: those of the first candidates that promise something, best last */
  GArray *over;       /* Candidate: legal, but too large */
  GArray *over_queue; /* QueueItem: parts and candidates that are too large, by memory */
  gboolean halted;    /* a round was cut short */
  gboolean walked;    /* all parts of degrees were met: what is walked now is in one of them */
  gint64 halfway;     /* of `parts`: the one that a stop left halfway, and its value; -1 = none */
  double halfway_value;
  gboolean late;      /* what is met has been counted as too large */
  Candidates store;   /* what their plans are */
  PriceCache *prices;
  GArray *families;   /* Variants: of each candidate whose first variant is settled, while others are not */
  Journal *journal;
  Rounds *rounds;
} Search;

/* Whether somebody waits for what there is. */
gboolean search_stops(const Search *s);

/* Meets what is in a part; a stop leaves it halfway. */
void search_enter(Search *s, guint at, double value);

/* Divides a part where memory forbids plans that make no whole blocks again, which are put aside (space_divide_part).
 * TRUE: what is left of it has to wait for others. */
gboolean search_divide(Search *s, guint at);

/* Seconds that a plan takes at least by its order of passes: as a like search knows where that is too slow, else anew. */
double search_order_s(Search *s, const Plan *plan, const Layout *layout, const PriceSums *sums);

/* Notes that something that a candidate stands for was settled, which takes so many seconds at least, by bounds that fall
 * by no more than what they are made of. */
void search_note(Search *s, const Candidate *c, double bound_s);

/* Raises SearchResult.bounds to what was met in the parts that were looked into. While candidates are in their order. */
void search_raise_bounds(Search *s);

/* Settles the plans that nobody met in the part that was left halfway. */
void search_settle_halfway(Search *s);

Plan search_plan(const Search *s, const Candidate *c);
double search_value(const Search *s, const Objective *objective, const Layout *layout, double step_s,
                    double memory_bytes);
/* Of the second objective. */
double search_second(const Search *s, const Layout *layout, double bound_s, double memory_bytes);
double search_need(const Search *s, const Metrics *m); /* memory, in room (bound.h) */

/* Of SearchOptions.audit: members differ in overlaps only. */
#define OPEN_OVERLAPS (PLAN_STATES + 1)

/* `plans` that a rule turned down; one that is too large, with what is known of its need, `plan` NULL: counted already;
 * and a part of the space. */
void search_reject(Search *s, const Plan *plan, int reason, double value, gint64 plans, int open);
void search_put_over(Search *s, Candidate candidate, const Plan *plan, double memory_bytes);
void search_put_part_over(Search *s, guint at);

/* Gives a candidate the bounds of its own set of modules; FALSE if it is too large. */
gboolean search_bound(const Search *s, Candidate *candidate);

/* Plans passed over for a bound; `stopped`: because nobody looked. */
void search_skip(Search *s, const Plan *plan, double value, gboolean stopped, gint64 plans);
void search_skip_part(Search *s, const SpacePart *part, double value, gboolean stopped);
void search_skip_candidate(Search *s, const Candidate *c, double value, gboolean stopped);

/* Whether plans with these bounds may still be among the best, and a variant better than all (on a front, than those it
 * is beside). */
gboolean search_promises(const Search *s, double value, double second);
gboolean search_variant_promises(const Search *s, double value, double second);

/* Keeps a plan if it is among the best or may come to be, until the list is closed: then as many are left as were asked
 * for. */
void search_keep(const Search *s, const Found *found);
void search_close_list(const Search *s);

/* A simulated plan, counted and kept; FALSE if it does not fit. */
gboolean search_settle(Search *s, const Candidate *base, const Simulation *simulated);

/* A candidate's first variant, or a plan like it, simulated out of turn. */
Found search_evaluate(const Search *s, const Candidate *c, const Plan *plan);

/* Picks variants that may be better, at most ROUND, each with its place among the families; one that overlaps less waits
 * for those that overlap more, and others are settled. A stop ends it: told of it the next time (`stopped`), it settles
 * all that is left. */
int search_pick_variants(Search *s, gboolean stopped, guint *which, guint *offs, Simulation *simulations);

/* Once all is settled (search.h). */
void search_refine(Search *s);
void search_note_tight(Search *s);
void search_note_over(Search *s);

#endif
