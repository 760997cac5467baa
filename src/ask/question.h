/*
 * Questions that people ask beside "which plan is best". Each is answered by
 * further searches, exact like the first, on a changed cluster, model or batch.
 * To add one: a function and a line of the table in question.c.
 */
#ifndef TDP_ASK_QUESTION_H
#define TDP_ASK_QUESTION_H

#include "hardware/operations.h"
#include "report/answer.h"
#include "report/report.h"
#include "search/search.h"

/* A number of the cluster, and what it is set to. */
typedef struct {
  const struct VaryKey *key;
  double value;
} Varied;

/* Reads lists as "memory=80,141 network=400,800"; values of what cannot be set so on the cluster are refused.
 * TDP_ERROR_INPUT. */
GArray *vary_parse(char **lists, const Cluster *cluster, GError **error);

/* Another training on the same cluster. */
typedef struct {
  Model *model; /* owned by the list that it stands in */
  Plan base;
  double tokens;
} Job;

typedef struct {
  const Model *model;
  const Cluster *cluster;
  const SearchOptions *options; /* without audit and state */
  double tokens; /* to train on, for answer_counts() and answer_training(); 0 = not asked */
  const Accuracy *accuracy; /* how far predictions hold; NULL = not known */
  const Operations *operations; /* for answer_training() and answer_jitter() */
  int from;                     /* fewest GPUs for answer_training(); 0 = those of the cluster alone */
  double deadline_s;            /* of a training; 0 = none */
  const GArray *vary;           /* Varied, for answer_training(); NULL = nothing varies */
  const GArray *jobs;           /* Job, beside the training, for answer_training(); NULL = none */
} Asked;

typedef struct {
  const char *name;
  const char *title;
  Answer *(*answer)(const Asked *asked); /* after a stop what was known by then, which it says */
  gboolean tokens; /* it needs Asked.tokens */
  gboolean operations; /* it reads Asked.operations */
  gboolean alike; /* it is of clusters of alike nodes alone */
  gboolean deepens; /* it adds blocks, which means nothing where these share weights */
  PlanKeyId sets;   /* the key that it looks for a value of, which cannot be held; KEY_OTHER = none */
} Question;

extern const Question questions[]; /* ends with a NULL name */

const Question *question_find(const char *name);
char *question_list(void); /* names, newly allocated */
char *question_meant(const char *name); /* names_meant() of them */

/* The best plan when devices and options are these, the best so far if a stop came first; FALSE if none fits, none was
 * found before a stop, or the cluster cannot have so many devices. */
gboolean ask_best(const Model *model, const Cluster *cluster, const SearchOptions *options, int devices, Found *out);

/* Within which share plans tie, and the plan that is recommended then: other objectives than time rank by their value. */
double ask_tie(const SearchOptions *options);
const Found *ask_recommended(const SearchResult *found, double tie);

/* A value for SearchOptions.known: what the plan of another cluster's space, or of a like question's, comes to, with its
 * layers split as here, where it fits and the space may have it, or else, if `more`, one with more modules made again; else
 * 0. Plans that this simulates are added to what was `simulated` (Simulation) on this cluster. */
double ask_known(const Model *model, const Cluster *cluster, const SearchOptions *options, const Plan *plan, gboolean more,
                 GArray *simulated);

/* The same on all devices, and SearchResult.bounds, the caller's to free; untouched where none fits. */
gboolean ask_bounded(const Model *model, const Cluster *cluster, const SearchOptions *options, Found *out,
                     Floors **bounds);

/* What was found for the model, or a changed one, with how far it holds on as many devices as the plan has; it refers to
 * the model and what was asked about. */
Result ask_result(const Asked *asked, const Model *model, const Found *found);

/* Of rows that are searches: what is said of them after a stop. */
#define ANSWER_STOPPED " Stopped: rows are missing, and the last may not be the best of its kind."

/* Columns for the interval of a step and for its chance of fitting, and their cells; NULL = nothing was found. */
#define INTERVAL_COLUMNS { "iteration_s_low", NULL, CELL_SECONDS }, { "iteration_s_high", NULL, CELL_SECONDS }, \
                         { NULL, "80 % between", CELL_TEXT }
#define FIT_COLUMN { "fit_probability", "P(fits)", CELL_SHARE }
void answer_add_interval(Answer *answer, const Result *result);
void answer_add_fit(Answer *answer, const Result *result);

/* Whether any plan fits these devices: plans that may need least come first, and the first one found ends the search.
 * `tried`: those of a micro-batch of one sequence, with full recomputation and nothing beside computation where that is
 * free, which are few and fit where any does but rarely; all. Without these FALSE proves nothing. `likely`, a plan that
 * fitted a like question, is tried before all others; what fits is left in it. It starts as zeros. A stop is FALSE too,
 * and proves nothing. */
enum { TRY_LEAN = 1, TRY_ALL = 2 };
gboolean ask_fits(const Model *model, const Cluster *cluster, const SearchOptions *options, int devices, guint tried,
                  Plan *likely);

/* What changes when a number of the hardware does; how plans scale (what_if.c). */
Answer *answer_sensitivity(const Asked *asked);
Answer *answer_scaling(const Asked *asked);

/* What training on the tokens takes in all: days, failures, checkpoints, money, energy (training_run.c); on several
 * numbers of GPUs or on a cluster that varies: training_table.c. */
Answer *answer_training(const Asked *asked);

/* The best plans by the 95th percentile of drawn steps (jitter.c). */
Answer *answer_jitter(const Asked *asked);

/* The best plan while nodes are away, and how many are best kept in reserve (lost_nodes.c). */
Answer *answer_lost_nodes(const Asked *asked);

/* The best plan of each number of devices, doubling from `from` to the cluster's,
 * or the front of two objectives over all of them (counts.c). */
Answer *answer_counts(const Asked *asked, int from);
Answer *answer_front(const Asked *asked, int from);

#endif
