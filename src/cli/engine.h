/* tdp-sim's options of the event engine, and the simulation that they ask for. */
#ifndef TDP_CLI_ENGINE_H
#define TDP_CLI_ENGINE_H

#include "report/draws.h"
#include "sim/ranks.h"
#include "sim/simulate.h"

typedef struct {
  char *ranks;        /* "all" or NULL */
  char **stragglers;  /* "RANK=FACTOR" */
  gboolean contention;
  int receive_buffers; /* CLI_ABSENT = no limit */
  int draws;           /* of the step; CLI_ABSENT = none */
  char *operations;    /* what varies in a draw; NULL = the usual */
} EngineOptions;

void engine_options_clear(EngineOptions *options);

/* Whether the options go together. Makes an absent count 0. */
gboolean engine_options_check(EngineOptions *options, GError **error);

/* With --ranks all `run` is that of all ranks, whose trace is the caller's, else NULL. */
Trace *engine_simulate(const EngineOptions *options, const Model *model, const Cluster *cluster, const Plan *plan,
                       RankRun **run, GError **error);

/* A run as tables of ranks show it: as the object `ranks`, with --straggler. */
void engine_write_ranks(const EngineOptions *options, const RankRun *run, const Layout *layout, JsonWriter *writer);

/* Draws the step as often as is asked for; count 0 = not asked. */
gboolean engine_draw(const EngineOptions *options, const Model *model, const Cluster *cluster, const Plan *plan,
                     Draws *draws, GError **error);

#endif
