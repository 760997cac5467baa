/*
 * A claim of tests/claims/ID.json, tried on the simulator.
 *
 *   id, claim, source  what is said, and by whom
 *   verdict    what the simulator says of it: "reproduced", "contradicted", or
 *              "out of scope" (what it needs is not modelled: no runs)
 *   reason     why it is contradicted or out of scope; of others, a remark
 *   defaults   object that every run starts from; objects are merged key by key
 *   runs       object of runs by name (claim_run.h)
 *   sweep      optional: `variable`, `values`, `title`, `axis`, `y`, `series` (array of `name`, `title`, `value`),
 *              `find` (array of `name` and one of: `least`, an expression, whose least point it is; `value` and
 *              `crosses`, the point where it passes that; `value` and `at`, what it is there), `picture` of docs/.
 *              Strings "=EXPRESSION" of runs are computed from the variable
 *   figures    array of `what`, `value` (an expression of RUN.METRIC, of names of `find` and, in a
 *              sweep, of NAME.first and NAME.last of series), and one of `expect` with `tolerance_pct`,
 *              `above`, `below`, or none: shown only. `says`: what the claim has for the table
 *
 * A claim is reproduced if all its figures are. claim_try fails with
 * TDP_ERROR_INPUT where the file cannot be understood or the verdict that it
 * states is not the one found.
 */
#ifndef TDP_TESTS_PAGES_CLAIM_H
#define TDP_TESTS_PAGES_CLAIM_H

#include "base/json.h"

typedef struct {
  const char *what;   /* of the file */
  double value, expect, tolerance_pct, above, below; /* NAN = not stated */
  const char *says;
  gboolean holds;
} Figure;

typedef struct {
  const char *name, *title; /* of the file */
  GArray *values;           /* double, one a point */
} Series;

typedef struct {
  JsonDoc *doc;
  const char *id, *claim, *source, *verdict, *reason;
  GArray *figures;  /* Figure */
  GArray *points;   /* double: the sweep's values; empty without one */
  GArray *series;   /* Series */
  GArray *found;    /* double: of `find` */
  const cJSON *sweep;
} Claim;

Claim *claim_try(const char *path, GError **error);
void claim_free(Claim *claim);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Claim, claim_free)

/* Appends the claim as Markdown. */
void claim_write(const Claim *claim, GString *out);

/* Draws the sweep as FOLDER/ID.png and .svg through plots/curves.gp; nothing without one. */
gboolean claim_plot(const Claim *claim, const char *folder, GError **error);

#endif
