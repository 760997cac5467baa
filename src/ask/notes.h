/* What a plan says that does not do what its words promise: lines for stderr. */
#ifndef TDP_ASK_NOTES_H
#define TDP_ASK_NOTES_H

#include "layout/layout.h"
#include "search/search.h"

/* "recompute_granularity: selective: saves 8 MiB of 1.2 GiB a layer ..." if what a
 * plan recomputes frees almost nothing; newly allocated, NULL if there is nothing to say. */
char *note_recompute(const Model *model, const Layout *layout, const Cluster *cluster);

/* "pipeline_schedule: zb-h1: not among what megatron-core runs (1f1b, ...) ..." if the plan names another software than
 * the schedule's; newly allocated, NULL if there is nothing to say. On one stage all schedules are alike, and what is
 * read from a file says by itself what runs it. */
char *note_schedule(const Layout *layout);

/* "zero_1: not among what torchtitan runs: FSDP2 shards ..." of the first exclusion of its framework (plan/feature.h)
 * that the plan has; newly allocated, NULL if it has none. */
char *note_excluded(const Model *model, const Cluster *cluster, const Plan *plan);

/* "--fix: dispatcher means nothing: llama-3.1-8b has no experts" of the keys that are fixed and mean nothing to any plan of
 * the model or, of a plan that is no NULL, to this one alone; newly allocated, NULL if there are none. */
char *note_fixed(const Fixed *fixed, const Model *model, const Plan *plan);

#endif
