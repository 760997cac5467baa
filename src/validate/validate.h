/*
 * Published runs through the simulator: each row of a case file becomes a
 * model, a plan and a cluster, is simulated, and stands beside what was
 * measured. The columns are the contract's. A row that cannot be simulated is
 * skipped with a named reason and counted. Columns that a row leaves open take
 * documented defaults (case.h) and are named; a row that does so is simulated
 * but not fully stated, and summaries are given with and without such rows. A
 * row of which only memory was measured counts in the memory errors alone. One of
 * which nothing is known but whether it ran or ran out of memory (`outcome`)
 * counts in whether we say the same: what it leaves open stays at its defaults.
 *
 * Beside our prediction stands the naive one: the row's model FLOPs (4/3 of
 * them under full recomputation) over one constant efficiency for each cluster
 * and precision, the median over the rows. A row alone of its cluster and precision has none:
 * it would be compared with itself.
 */
#ifndef TDP_VALIDATE_VALIDATE_H
#define TDP_VALIDATE_VALIDATE_H

#include "accuracy/accuracy.h"
#include "base/csv.h"
#include "base/json.h"
#include "base/table.h"

/* What became of a run: whether it fitted its devices is not said of every one. */
typedef enum { OUTCOME_UNSAID, OUTCOME_RAN, OUTCOME_OOM, OUTCOME_COUNT } Outcome;

typedef struct {
  char *id, *sweep, *file; /* file: the case file's name without folder and ending */
  char *key;               /* cluster and precision, for the naive predictor */
  char *skipped;           /* why the row was not simulated; NULL if it was */
  char *defaulted;         /* columns that took a default, blanks between; "" = fully stated */
  int chunks_most;         /* the row does not state its interleaving: the fastest up to these chunks was taken */
  gboolean doubles;        /* the row does not state its micro-batch or its experts' ranks: the fastest were taken */
  double measured_s, predicted_s, naive_s; /* measured 0 = not measured, naive 0 = no other row is of its key */
  double flops_per_gpu;     /* of a step, as the naive predictor counts them */
  double peak_flops_per_s;
  double measured_memory_bytes, predicted_memory_bytes; /* 0 = not measured */
  double measured_reserved_bytes, predicted_reserved_bytes; /* the same of what the allocator reserved, where both are known */
  double memory_need; /* predicted peak over what the device holds: a run that was made is refused above 1 */
  char *publisher;          /* first word of the source column, else the file: whose runs share what we do not know */
  MemoryCount memory;       /* what the measured memory counts */
  RunKind kind;             /* of what was simulated */
  char *software, *simulated; /* as the row names it; the generation that was simulated; both NULL if none was */
  gboolean version_unknown; /* the software's generation took a default */
  Estimate estimate;        /* where Validation.accuracy is */
  Outcome outcome;
} CaseResult;

/* Errors of a set of rows, in percent. */
typedef struct {
  int count;          /* rows with a measured time */
  int skipped;        /* 0 of the fully stated ones: what is skipped was not read to the end */
  int defaulted;      /* simulated rows that took a default */
  double mape_pct, median_ape_pct, max_ape_pct, bias_pct;
  int naive_count;    /* of `count`, those that have a naive prediction */
  double naive_mape_pct, naive_median_ape_pct;
  int memory_count;
  double memory_mape_pct;
  int refused;        /* simulated rows of runs that were made that are predicted not to fit */
} CaseSummary;

/* One sweep of at least five simulated rows. */
typedef struct {
  const char *sweep;
  int count;
  double spearman;        /* NAN where all are predicted, or measured, alike */
  double top1_regret_pct; /* time lost by running the plan predicted fastest; of rows predicted alike, in the mean */
} SweepSummary;

typedef struct {
  GPtrArray *cases; /* CaseResult */
  int ablation;     /* as ablation_name() counts, -1 = none */
  const Accuracy *accuracy; /* that estimates are by; not owned, NULL = there are none */
  char *path;       /* of the file that the first row is of; without a row that of the last file, NULL = there was
                       none */
  gboolean timed_passes; /* passes take what the rows' notes say (passes.h); other rows are skipped */
} Validation;

Validation *validation_new(int ablation);
void validation_free(Validation *validation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Validation, validation_free)

/* A physical effect that can be left out, to see what it is worth, counted from
 * 0; NULL behind the last. -1 leaves nothing out. */
const char *ablation_name(int ablation);

/* Simulates every row of a file, or the run of a report of tdp-run --json. A row of which a cell makes no sense or whose
 * cluster is unknown is skipped with that as the reason; a file that has no other rows is bad input, and so is one
 * without a column. */
gboolean validation_add_file(Validation *validation, const char *path, GError **error);

/* Whether any row was simulated. FALSE with an error of bad input, which names the file, its first row and why that was
 * skipped. */
gboolean validation_check_runs(const Validation *validation, GError **error);

/* Fills in the naive predictions, and estimates; after all files. */
void validation_finish(Validation *validation);

/* Of all rows (NULL), of the fully stated ones (CASES_STATED), or of one file's. */
#define CASES_STATED "fully stated"
CaseSummary validation_summary(const Validation *validation, const char *file);

/* "; naive predictor 14.1 %", "" where no row has one; newly allocated. */
char *validation_naive_text(const CaseSummary *summary);

/* SweepSummary in order of first appearance; the caller unrefs. */
GArray *validation_sweeps(const Validation *validation);

/* Rows simulated of those with an outcome, and of how many the prediction says the same: that it fits where it ran,
 * that it does not where it ran out of memory; and of how many with the default margin kept free, as plans are made
 * (Validation.accuracy; without it the margin is 0). */
typedef struct {
  int count, right, right_kept;
} OutcomeSummary;

OutcomeSummary validation_outcomes(const Validation *validation, Outcome outcome);

/* Whether the row was simulated and has a measured time to compare with. */
gboolean case_is_timed(const CaseResult *result);

/* The same of its memory. */
static inline gboolean case_has_memory(const CaseResult *result)
{
  return !result->skipped && result->measured_memory_bytes > 0;
}

static inline const CaseResult *case_at(const Validation *validation, guint i)
{
  return g_ptr_array_index(validation->cases, i);
}

double case_error_pct(const CaseResult *result);

/* The contract's JSON, and one CSV line a row. Newly allocated. */
char *validation_json(const Validation *validation);
char *validation_csv(const Validation *validation);
/*
 * Accuracy that must not be lost: a CSV of source, rows simulated, mean error
 * and mean memory error in percent. The check fails with TDP_ERROR_TOLERANCE
 * if a source has fewer rows or is worse by more than 0.05 points.
 */
char *validation_baseline(const Validation *validation);
gboolean validation_check(const Validation *validation, const char *baseline_path, GError **error);

/* Each simulated row with its errors; newly allocated. */
Table *validation_rows(const Validation *validation);

/* A row for each file, one for all runs that are fully stated and one for all. Why rows were skipped, and which columns
 * took a default, in order of first appearance, with how many rows each. Newly allocated. */
Table *validation_sources(const Validation *validation);
Table *validation_skipped(const Validation *validation);

Table *validation_defaulted(const Validation *validation);

/* Runs said to have fitted or not beside what is predicted, and each sweep's rank correlation and regret; empty without
 * any. Newly allocated. */
char *validation_checks(const Validation *validation);

/* All of the above, each row (if `rows`) before. */
char *validation_text(const Validation *validation, gboolean rows);

#endif
