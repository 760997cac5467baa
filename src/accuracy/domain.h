/*
 * What measured runs were made of: how many runs had each device, format, schedule ..., and the largest that any run
 * was, and the largest share of the peak that runs of a device, format and software family reached, those of models with
 * experts apart. A plan beyond that is extrapolated. File: accuracy/domain.json.
 */
#ifndef TDP_ACCURACY_DOMAIN_H
#define TDP_ACCURACY_DOMAIN_H

#include "accuracy/run_kind.h"

/* Runs that a name needs to count as measured. */
#define DOMAIN_RUNS_MIN 10

typedef struct Domain Domain;

Domain *domain_new(void);
void domain_free(Domain *domain);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Domain, domain_free)

/* A measured run, with the share of the peak that it was measured at. */
void domain_add(Domain *domain, const RunKind *kind);

/* How many runs have the kind's name of this sort; those that have none do not count. */
int domain_runs(const Domain *domain, KindName name, const char *value);

/* What of the kind is beyond the runs, as "schedule zb-v (no published run), 16384 GPUs (6144 at most in published
 * runs), MFU without masked work 65.5 % (56.7 % at most in 54 published runs of megatron in bf16 on a100-sxm4-80gb)";
 * NULL = nothing. Newly allocated. */
char *domain_outside(const Domain *domain, const RunKind *kind);

/* How many of the kind's names and sizes are; of MFU, which follows from the step, nothing is asked. */
int domain_beyond(const Domain *domain, const RunKind *kind);

/* The keys `names`, `sizes` and `mfu` of an open object; files without the last know no limit of MFU. */
void domain_write(const Domain *domain, JsonWriter *writer);
Domain *domain_read(const JsonDoc *doc, const cJSON *object, GError **error);

#endif
