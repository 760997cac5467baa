/*
 * Strategies of their own for runs of layers within pipeline stages, as
 * Galvatron's plans have them (Miao et al. 2022, arXiv 2211.13878): tensor and
 * data parallelism, sequence parallelism, ZeRO stage and recomputation of each
 * layer. `layer_strategies` of a plan file is a list of objects, each with
 * `layers`, the number of blocks in a row in model order that it holds for, and
 * those of the plan's keys that differ; the counts add up to the blocks.
 *
 * A stage's devices and its micro-batches' sequences are the same for all of its
 * layers: with tensor degree t a device sees micro_batch t / tp sequences, and
 * data_parallel_size is tp dp / t. Embedding, head and what travels between
 * stages are laid out as the plan itself says. Between neighbours with unlike
 * layouts activations change places (cost/redistribute.h).
 *
 * plan_of_run() gives the plan as a run's layers see it; it is an ordinary plan, and
 * what is legal, priced and held follows from it. Values only: nothing to free.
 */
#ifndef TDP_PLAN_STRATEGIES_H
#define TDP_PLAN_STRATEGIES_H

#include "base/json.h"

#define STRATEGY_RUNS_MAX 64

typedef struct {
  guint16 tp;
  guint8 layers; /* blocks in a row */
  guint8 sequence_parallel, zero, recompute;
} StrategyRun;

typedef struct {
  int n; /* runs; 0 = all layers as the plan says */
  StrategyRun runs[STRATEGY_RUNS_MAX];
} LayerStrategies;

/* Whether two runs differ in more than their counts. */
gboolean strategies_differ(const StrategyRun *a, const StrategyRun *b);

/* Appends blocks to the last run or a new one; FALSE if there is no room. */
gboolean strategies_append(LayerStrategies *strategies, StrategyRun run);

/* Blocks of all runs. */
int strategies_layers(const LayerStrategies *strategies);

/* A list of runs; `plan` is what they leave unsaid. Writes nothing where there are none. */
gboolean strategies_read(const JsonDoc *doc, const cJSON *list, StrategyRun plan, LayerStrategies *out, GError **error);
void strategies_write(const LayerStrategies *strategies, JsonWriter *writer, const char *key);

#endif
