/*
 * What measured runs were made of: how many runs had each device, format, schedule ..., and the largest that any run
 * was. A plan beyond that is extrapolated. File: accuracy/domain.json.
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
void domain_add(Domain *domain, const RunKind *kind);

/* How many runs have the kind's name of this sort; those that have none do not count. */
int domain_runs(const Domain *domain, KindName name, const char *value);

/* What of the kind is beyond the runs, as "schedule zb-v (no run), 16384 GPUs (6144 at most)"; NULL = nothing. Newly
 * allocated. */
char *domain_outside(const Domain *domain, const RunKind *kind);

/* The keys `names` and `sizes` of an open object. */
void domain_write(const Domain *domain, JsonWriter *writer);
Domain *domain_read(const JsonDoc *doc, const cJSON *object, GError **error);

#endif
