/*
 * A plan with what it is made for, what comes of it and checks of both: what
 * tests of plans share. A check that fails ends the test with a line of what was
 * found and what was expected.
 *
 *   Planned p;
 *   planned_init(&p, fixture_model(8, 512, 8, 128, 1024), fixture_cluster("dgx", 8), "megatron-core");
 *   p.plan.gpus = p.plan.dp = 8;
 *   Metrics m = planned_run(&p);
 *   planned_clear(&p);
 */
#ifndef TDP_TESTS_PLANNED_H
#define TDP_TESTS_PLANNED_H

#include "fixture.h"
#include "program/program.h"
#include "trace/trace.h"

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan plan;
  PriceTable *prices; /* those and the program are NULL until planned_build */
  Program *program;
} Planned;

/* Takes model and cluster; the framework's default plan. */
void planned_init(Planned *p, Model *model, Cluster *cluster, const char *framework);
void planned_clear(Planned *p);

/* Data parallel over all of the cluster, `each` samples of a step to a rank. */
void planned_spread(Planned *p, int each);

/* These degrees over all of the cluster, which gets as many devices. */
void planned_divide(Planned *p, int tp, int pp, int dp);

/* The plan is legal. */
void planned_accept(const Planned *p);

/* The plan breaks this rule first; `message` says so, as bad input. */
void planned_refuse(const Planned *p, PlanRule rule, const char *message);

/* What passes of a layer need beside what they keep. */
double planned_transient(const Planned *p, int layer);

/* Prices and program of a legal plan, in place of earlier ones; the program is sound. */
void planned_build(Planned *p);
void planned_build_with(Planned *p, PriceTable *prices); /* takes them */

/* Builds and simulates: the parts of the step add up, and bounds of time and memory are below what comes out. */
Metrics planned_run(Planned *p);

/* What a layer's ops come to on a rank, forward and backward together. */
typedef struct {
  double flops, attention_s;
  double params, expert_params, saved_bytes;
  double sent[AXIS_EXPERT + 1];       /* bytes to other ranks of an axis */
  double sent_again[AXIS_EXPERT + 1]; /* of them what recomputing sends */
} LayerSums;

LayerSums planned_layer(const Planned *p, int layer);

/* Bytes of a layer's ops of a name, of its forward or its backward, all added up: that travel, or that a kernel moves. */
double planned_op_bytes(const Planned *p, int layer, const char *name, gboolean backward);

/* Operations of the host for them, likewise. */
double planned_op_operations(const Planned *p, int layer, const char *name, gboolean backward);

#endif
