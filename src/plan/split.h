/*
 * How many transformer layers each stage of a pipeline holds, in model order
 * with chunks counted; the embedding stands before the first stage's layers,
 * the head after the last one's. A split is a small value that lies in the
 * plan, so that plans stay plain data which search copies and nobody frees:
 * at most SPLIT_STAGES_MAX stages of SPLIT_LAYERS_MAX layers. Without stages
 * it means equal ones.
 *
 * split_balance() finds the split whose slowest stage is fastest, exactly, by
 * dynamic programming over contiguous stages: best[k][i], the least possible
 * slowest stage of the first i layers on k stages, is the least over j of
 * max(best[k-1][j], time of layers j..i-1). Of the splits that reach it, it
 * takes the one with the least sum of squared times. Where `repeats` is given it
 * finds instead the least repeats x (slowest stage) + (sum of all stages), a
 * pipeline's time without transfers when repeats is its micro-batches less one
 * (Metis, ATC 2024; Piper, NeurIPS 2021): for each stage time that may be the
 * slowest, the least sum of stages none of which is slower. Stages may stand on devices
 * of different types, on each of which a layer takes its own time. Where all
 * blocks take the same and any stage may hold them, giving each to the stage that takes least so
 * far finds both at once.
 */
#ifndef TDP_PLAN_SPLIT_H
#define TDP_PLAN_SPLIT_H

#include "base/json.h"
#include "model/model.h"

#define SPLIT_STAGES_MAX 128
#define SPLIT_LAYERS_MAX 255

typedef struct {
  int stages; /* 0 = every stage holds the same number */
  guint8 layers[SPLIT_STAGES_MAX];
} LayerSplit;

/* Which splits a framework can run. */
typedef enum {
  SPLITS_EVEN, /* equal stages */
  SPLITS_COSTS, /* split_by_cost() alone; searches and balances take it for equal stages */
  SPLITS_ENDS, /* the first and the last stage apart, equal ones between */
  SPLITS_FILL, /* what counting layers gives: full stages, the rest on the last;
                  the embedding and the head count as layers too, or not */
  SPLITS_ANY,
} SplitKind;

extern const char *const split_kind_names[];

/* What split_balance works on. Layers are counted as in Model.layers: 0 is the
 * embedding, the last one the head, which the ends hold in any case. */
typedef struct {
  const double *seconds; /* running sum over the layers: n_layers + 1 entries, for each type of devices */
  const guint8 *types;   /* type of the devices of each stage; NULL = all stages are of the first */
  const double *extra_s; /* seconds of each stage beside its layers'; NULL = none */
  double repeats;        /* above 0: least repeats x slowest + sum, of splits of any kind; else least slowest */
  int n_layers;
  int blocks;            /* of them, behind the embedding; what stands behind them stays with the head */
  int stages;
  int least_at_ends; /* 0 where a first or last stage may be without layers, else 1 */
  /* Whether a stage may hold these layers; NULL = always. */
  gboolean (*fits)(gconstpointer data, int stage, int first_layer, int end_layer);
  gconstpointer data;
  const double *known; /* private to split.c: stage times by stage, first and end block */
} SplitProblem;

/* FALSE if no split of the kind is possible. */
gboolean split_balance(const SplitProblem *problem, SplitKind kind, LayerSplit *out);

/* Whether a split of the kind is possible by the numbers of blocks and stages alone: TRUE where it may be. */
gboolean split_may_be(SplitKind kind, int blocks, int stages, int least_at_ends);

/* Full stages and the rest on the last, the embedding and the head counted as
 * `ends` layers each; FALSE if a stage would be without any. */
gboolean split_fill(int layers, int stages, int ends, LayerSplit *out);

/* nanotron's cut: each stage takes blocks until what these cost, with those before, exceeds its stages' share of the
 * whole, of which the head is a part: 4 h^2 + 3 f h of a block, v h of the head (get_block_compute_costs). FALSE if the
 * last stage's head is left without a stage, or there are too many. */
gboolean split_by_cost(const Model *model, int stages, LayerSplit *out);

/* First layer of a stage in model order, as an index into Model.layers; stage `stages` is the end. Stage 0 also holds
 * the embedding, the last one the head. A split without stages means equal ones; with `split_rank` the first so many
 * stages hold an encoder-decoder's encoder, and either stack is cut into equal stages. */
int split_first_layer(const LayerSplit *split, int stages, int split_rank, const Model *model, int stage);

/* Layers of all stages. */
int split_layers(const LayerSplit *split);

gboolean split_is_kind(const LayerSplit *split, SplitKind kind);

/* In files: whether an item is a list of 1 to SPLIT_STAGES_MAX entries; its layers; the list under `key`, on one
 * line, or nothing for equal stages. */
gboolean split_is_list(const cJSON *item);
gboolean split_read(const JsonDoc *doc, const cJSON *list, LayerSplit *out, GError **error);
void split_write(const LayerSplit *split, JsonWriter *writer, const char *key);

#endif
