/*
 * What tdp-plan --improve answers: the plan of a file as it is, against what a log measured; what each single change of
 * it gains; a few changes, one after the other; the best plan of all; and what of the file is not read.
 */
#ifndef TDP_ASK_IMPROVE_H
#define TDP_ASK_IMPROVE_H

#include "import/launch.h"
#include "report/report.h"
#include "search/nearby.h"
#include "search/search.h"

typedef struct {
  const char *file;
  const Launch *launch; /* NULL: the file is a plan file of ours */
  const Model *model;
  const Cluster *cluster;
  const Accuracy *accuracy;
  const Plan *plan;         /* the file's */
  const char *refused;      /* why that is none; NULL = it is one */
  const NearbyPlans *near;  /* of it */
  const SearchResult *found;
  const Trace *own;         /* of `plan`, whose time is explained; NULL = not asked for, or it is no plan */
  const Trace *changed;     /* likewise of `chosen`; NULL also where that is `plan` */
  const Plan *chosen;       /* what is recommended */
  const char *chose;        /* what that is: "the few changes" */
} Improvement;

/* Newly allocated. */
char *improvement_text(const Improvement *improvement);

/* The same as an object. */
void improvement_write(const Improvement *improvement, JsonWriter *writer);

#endif
