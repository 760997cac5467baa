/*
 * The nearest plan that a framework runs, and how plans differ, key by key. What a framework runs is in its file: its
 * rules in plan_check, its schedules, and what it excludes (plan/feature.h); so what changes on the way follows from
 * that file, and stands nowhere else.
 */
#ifndef TDP_PLAN_NEAREST_H
#define TDP_PLAN_NEAREST_H

#include "hardware/cluster.h"
#include "model/model.h"
#include "plan/framework.h"

typedef struct Plan Plan; /* plan/plan.h */

/* Hears of each key of a plan file that changes: `key` with its object before it, "overlap: tensor", and its values in
 * one line. `before` is NULL where no file said the key, or where its value is a list of objects; `after` is NULL where
 * it is left out; `reason` is what the framework expects, NULL where nothing says why. */
typedef struct {
  void (*changed)(gpointer data, const char *key, const char *before, const char *after, const char *reason);
  gpointer data;
} PlanListener;

/* A key of plans, named as above, that a reader of something else than a plan file is told. An object stands for all of
 * its keys. */
typedef struct {
  const char *key;     /* NULL ends an array */
  const char *instead; /* what it is told, in a file's words; "" = nothing, NULL = what the plan says */
} ToldKey;

/* A copy of a legal plan, changed until `own` runs it; its framework stays. Free it with g_free(). NULL and
 * TDP_ERROR_INFEASIBLE where nothing but other degrees or another model would do. */
Plan *plan_nearest(const Plan *plan, const Model *model, const Cluster *cluster, const Framework *own,
                   const PlanListener *listener, GError **error);

/* What a tool may have none of. */
typedef enum {
  WITHOUT_CONTEXT,          /* each context-parallel rank has sequences of its own, of more of which a step then consists
                               where they do not divide it */
  WITHOUT_ADAPTER,          /* all weights are trained */
  WITHOUT_GRAPH,            /* kernels are not recorded */
  WITHOUT_NARROW_GATHERS,   /* weights are gathered in 16 bits */
  WITHOUT_EARLY_GRADIENTS,  /* they are summed behind the passes, */
  WITHOUT_EARLY_PARAMETERS, /* and weights gathered before them */
  WITHOUT_WHOLE_WEIGHTS,    /* they are divided, and what passes gather of them stays for the backward */
} PlanWithout;

/* The same plan without it; g_free it. */
Plan *plan_without(const Plan *plan, PlanWithout what);

/* Tells each key in which two plans differ. */
void plan_compare(const Plan *before, const Plan *after, const char *reason, const PlanListener *listener);

/* Whether they differ in none. */
gboolean plan_same(const Plan *a, const Plan *b);

/* Tells each key in which what a reader knows differs from the plan: one that is not told has its default. The first
 * entry of a key counts. */
void plan_compare_told(const Plan *plan, const Model *model, const ToldKey *told, const PlanListener *listener);

#endif
