/*
 * A whole training run, drawn many times: how long it takes, what stops it and
 * what that costs. Failures, restarts and lost steps are drawn event by event;
 * what we do not know of the step and of the cluster is drawn once a run. Seeded:
 * the same numbers each time.
 */
#ifndef TDP_TRAINING_CAMPAIGN_H
#define TDP_TRAINING_CAMPAIGN_H

#include "hardware/operations.h"
#include "training/goodput.h"

/* What goes into it. Low and high are what eight of ten runs, or clusters, have. */
typedef struct {
  double steps;
  double step_s, step_low_s, step_high_s;
  Interruptions interruptions;
  double between_low_s, between_high_s;
  double interval_s;
  double slow_share, slow_share_low, slow_share_high; /* that slow devices and links add to the steps */
  double whole_low, whole_high; /* what else lengthens or shortens all steps of a run, about 1; 0 = nothing is known */
  int spares;           /* nodes that stand by; -1 = as many as are needed */
  double node_share;    /* of failures take a node away, */
  double repair_s;      /* for so long; without one to spare the job waits for the first that comes back */
  double planned_per_s; /* stops for upkeep: of each a restart, nothing is lost */
} Campaign;

typedef enum { SPENT_STEPS, SPENT_SLOW, SPENT_COPIES, SPENT_LOST, SPENT_RESTARTS, SPENT_WAITING, SPENT_PLANNED,
               SPENT_COUNT } Spent;

/* One run: seconds by what they went into, and how often it failed. */
typedef struct {
  double spent_s[SPENT_COUNT];
  double total_s;
  int failures;
} CampaignRun;

#define CAMPAIGN_FAILURES_MAX 1000000 /* of one run: a job that fails more often does not end */

#define CAMPAIGN_RUNS 1000

/* The mean over so many runs, and of the total and of the failures what eight of ten have. FALSE if runs do not end. */
typedef struct {
  CampaignRun mean;
  double failures_mean;
  double total_low_s, total_high_s;
  double failures_low, failures_high;
} CampaignSummary;

gboolean campaign_summary(const Campaign *campaign, CampaignSummary *out);

#endif
