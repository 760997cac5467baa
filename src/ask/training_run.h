/* A whole training run on the best plan of a cluster: what training_run.c tells of one, training_table.c of several. */
#ifndef TDP_ASK_TRAINING_RUN_H
#define TDP_ASK_TRAINING_RUN_H

#include "ask/question.h"
#include "training/campaign.h"

typedef struct {
  const Model *model;
  const Cluster *cluster;
  double tokens;           /* to train on */
  Operations operations;   /* failures, restarts and storage of the cluster */
  Found best;
  Result result;           /* of the plan that is recommended; refers to `best` */
  Campaign campaign;       /* what the run is made of: steps, checkpoints, failures */
  CampaignSummary summary; /* and what it comes to */
  double checkpoint_bytes; /* of one checkpoint, over all ranks */
} Run;

typedef enum { RUN_ENDS, RUN_ENDLESS, RUN_NO_PLAN } RunEnd;

/* The run on all of a cluster, which it refers to; `halted` is set to whether the search stopped before it had looked
 * at all plans. */
RunEnd run_of(const Asked *asked, const Cluster *cluster, Run *run, gboolean *halted);

/* The same of a plan that was found. */
RunEnd run_with(const Asked *asked, const Cluster *cluster, const Found *best, Run *run);

double run_gpu_hours(const Run *run); /* spare nodes' too */
double run_goodput(const Run *run); /* share of the time in steps that last */
double run_usd(const Run *run);     /* 0: the cluster has no price */
double run_joules(const Run *run);  /* 0: its power is not known */

/* The run on so many devices of a cluster, of which it has a copy; NULL if none ends. */
Run *run_on(const Asked *asked, const Cluster *cluster, int devices);
void run_free(gpointer run);

/* The runs of several numbers of GPUs, from Asked.from on, and on a cluster that varies. */
Answer *answer_training_counts(const Asked *asked);
Answer *answer_training_varied(const Asked *asked);

/* Several at once on parts of the cluster, so that the last ends soonest: jobs.c. */
Answer *answer_training_jobs(const Asked *asked);

#endif
