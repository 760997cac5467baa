/*
 * Numbers that --vary sets, each for a training of its own: of the cluster, for
 * which the best plan is searched anew, or of its operations, with which the same
 * plan runs. To add one: a row of the table in vary.c.
 */
#ifndef TDP_ASK_VARY_H
#define TDP_ASK_VARY_H

#include "ask/question.h"

/* Sets the number in copies of the cluster and of its operations. */
void varied_set(const Varied *varied, Cluster *cluster, Operations *operations);

/* Whether plans depend on it: it is of the cluster. */
gboolean varied_plans(const Varied *varied);

/* As "memory 141 GiB", newly allocated. */
char *varied_text(const Varied *varied);

#endif
