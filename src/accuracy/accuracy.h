/*
 * How far predictions of this project were from what was measured, and what that says of a plan: an interval of its
 * step time, its chance of fitting in memory, what of it lies beyond all measured runs. The figures are data: files of
 * accuracy/, computed by tdp-validate --write-accuracy from the case files of tests/validation (make accuracy), each of
 * which says from how many runs of how many publishers and what its coverage is where a publisher is left out.
 *
 * Time. With r = log(measured / predicted), a run's scale is
 *   s = (0.05 + 0.075 e, or 0.1 + 0.4 e of models with experts)
 *       x 3 (the software's version was not known or measured) x 1.2 (beyond the other publishers' runs),
 * where e is the share of the step in which the critical stage does not compute: waiting and communication, whose rates
 * depend on more than one device. The interval is predicted x exp(low s) to predicted x exp(high s), with low and high
 * the quantiles of r / s over the runs, each publisher counting as the root of its runs. The shape was chosen on the whole
 * table; low and high are what is found anew with each publisher left out.
 *
 * Memory. A plan that needs P of a card of C fits with the share of runs whose measured peak was at most C / P of the
 * predicted one: that of what the allocator reserved, where a run has both. Runs of the same engine's software count by
 * publisher, each publisher alike; beside them those of all software count as ACCURACY_OTHERS publishers, since the next
 * publisher differs from an engine's few as those of all engines differ from each other. The margin is the least share
 * of the card to keep free with which at most a tenth, predicted to fill the rest, measured more than the card holds.
 * Runs that were predicted to need less than a quarter of their card are left out: fixed parts, not the plan, decide
 * those.
 *
 * Differences. What plans of one sweep differ by in r (correlated errors cancel), by what the plans differ in.
 */
#ifndef TDP_ACCURACY_ACCURACY_H
#define TDP_ACCURACY_ACCURACY_H

#include "accuracy/domain.h"

typedef enum { LEVEL_80, LEVEL_90, LEVEL_COUNT } AccuracyLevel;
extern const double accuracy_levels[LEVEL_COUNT]; /* 0.8, 0.9 */

/* Quantiles of r / s of the level's interval. */
typedef struct {
  double low, high;
} AccuracyTails;

/* The scale s of a run. */
double accuracy_scale(const RunKind *kind, gboolean version_unknown, gboolean outside);

/* Share of a card that a run must have been predicted to need to count among those of memory. */
#define ACCURACY_SHARE_MIN 0.25
/* Runs of an engine that are enough to speak for it; of others all runs do. */
#define ACCURACY_RUNS_MIN 10
/* Runs that may measure more than the card holds, of those that fill it but for the margin. */
#define ACCURACY_EXCEEDING 0.1

/* Publishers that the runs of all software count as, beside those of one engine. */
#define ACCURACY_OTHERS 5.0

/* A ratio measured / predicted, and what it counts. */
typedef struct {
  double ratio, weight;
} RatioWeight;

/* Ratios of an engine and of all software (RatioWeight), as they count for a plan of the engine; ratios rise. */
GArray *accuracy_mixed(const GArray *own, const GArray *all);

/* The share of rising ratios, by weight, that are at most `ratio`, of one run more than there are: than equal ones that
 * say as much. */
double accuracy_share(const GArray *ratios, double ratio);

/* The margin for such ratios, rounded up to a thousandth. */
double accuracy_margin_of(const GArray *ratios);

typedef struct Accuracy Accuracy;

/* Reads accuracy/domain.json, memory.json and time.json of the data directory. TDP_ERROR_INPUT. */
Accuracy *accuracy_load(GError **error);
void accuracy_free(Accuracy *accuracy);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Accuracy, accuracy_free)

/* The default share of the card's memory to keep free for plans of this engine's software. */
double accuracy_margin(const Accuracy *accuracy, const char *engine);

typedef struct {
  double low_s, high_s;   /* the step, in eight of ten runs like it */
  double fit_probability; /* from 0 to 1 */
  const char *outside;    /* what of the plan is beyond all measured runs, interned; NULL = nothing */
} Estimate;

/* Of a plan's layout that was simulated with these metrics. */
Estimate accuracy_estimate(const Accuracy *accuracy, const Model *model, const Layout *layout, const Cluster *cluster,
                           const Metrics *metrics);

/* The same of a run whose kind is known, with what is known of its software's version; `need` is the predicted peak
 * over what the device holds. */
Estimate accuracy_estimate_kind(const Accuracy *accuracy, const RunKind *kind, gboolean version_unknown,
                                double iteration_s, double need);

/* How many of a plan's properties, those that do not follow from its step, no measured run has, or too few (domain.h). */
int accuracy_beyond(const Accuracy *accuracy, const Model *model, const Layout *layout, const Cluster *cluster);

#endif
