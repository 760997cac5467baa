/*
 * What a rank was told to do, as text that rank 0 shares with all: lines "key: value"
 * of the options, the model's and the cluster's digest and every key of the plan. Ranks
 * that were told different things would wait for one another, or add up numbers of different models.
 */
#ifndef TDP_CLI_RUN_FINGERPRINT_H
#define TDP_CLI_RUN_FINGERPRINT_H

#include "plan/plan.h"

typedef struct {
  const char *key;
  char *value; /* NULL = not given */
} Stated;

/* Newly allocated; frees the values. */
char *fingerprint_new(const Stated *stated, gsize n, const Plan *plan);

/* The length of a file, which other ranks may have at another path; NULL for NULL. */
char *fingerprint_of_file(const char *path);

/* TDP_ERROR_INPUT naming the first key whose value is another than rank 0's, and both. */
gboolean fingerprint_check(const char *own, const char *first, GError **error);

#endif
