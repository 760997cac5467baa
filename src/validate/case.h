/*
 * One row of a case file as a model, a plan, a framework and a cluster.
 *
 * An empty cell means unknown. Where the framework's generation (habits.h)
 * or the model's family (family.h) has a default, the row takes it
 * and `defaulted` names the column; a cell that says nothing of this run (ZeRO
 * of a single replica, sequence parallelism of a single rank) needs none.
 * Overlap that is not stated is the generation's own. What saves memory and is not
 * stated follows from what the run needs to fit (unstated.h). A cluster that
 * hardware/ does not hold is one of servers of this name, and counts as a default.
 */
#ifndef TDP_VALIDATE_CASE_H
#define TDP_VALIDATE_CASE_H

#include "base/csv.h"
#include "plan/plan.h"
#include "validate/family.h"
#include "validate/habits.h"

typedef struct {
  Model *model;
  Framework *framework;
  Habits unstated;      /* of the framework's generation */
  Cluster *cluster;
  Plan plan;
  const CaseFamily *family;
  MemoryCount memory;   /* what the measured memory counts, if it was measured */
  gboolean doubles;     /* the micro-batch, else the ranks of experts, is not stated, and its default may be doubled */
  gboolean chunks_open; /* interleaving is not stated, of software whose runs were tuned for it */
  int chunks_most;      /* chunks of a rank that it may then have, of models without experts; 1 = no choice */
  gboolean blocks_open; /* which blocks are recomputed is not stated */
  GPtrArray *defaulted; /* const char *: columns that were empty and took a default */
} Case;

/* Every column that is read must be there. */
gboolean case_check_columns(const Csv *csv, GError **error);

/* What is made of cells that a row leaves open, beside the defaults. */
typedef struct {
  int steps;     /* lighter in memory, at most (unstated.h) */
  int doublings; /* of the micro-batch, else of the ranks that experts are divided over */
  int chunks;    /* of a pipeline rank; 0 = 1 */
} OpenChoice;

/* Reads row `row`. FALSE with an error on bad input; TRUE with `skipped` set (newly allocated) where the row needs what
 * is not simulated or leaves open. */
gboolean case_init(Case *c, const Csv *csv, int row, OpenChoice choice, char **skipped, GError **error);

/* A report of tdp-run --json as a case: model and cluster from the files that it
 * names, the plan from what it measured. `seconds` and `bytes` are what it measured:
 * the mean of the steps but the first, and the fullest rank. TDP_ERROR_INPUT. */
gboolean case_init_report(Case *c, const char *text, gsize length, const char *name, double *seconds, double *bytes,
                          GError **error);

/* Notes a column that took a default. */
void case_say_default(Case *c, const char *column);

gboolean case_has_default(const Case *c, const char *column);

/* The defaulted columns, blanks between. Newly allocated. */
char *case_defaulted(const Case *c);
void case_clear(Case *c);

#endif
