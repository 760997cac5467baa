/*
 * What a run is like, as far as it tells how well a prediction of it holds: names of what it is made of, its sizes, and
 * what its predicted step is spent on. Measured runs of case files and plans that programs answer with are described
 * alike, so that the one can be looked for among the other.
 *
 * To add a property: an enumerator, its key and its line in run_kind().
 */
#ifndef TDP_ACCURACY_RUN_KIND_H
#define TDP_ACCURACY_RUN_KIND_H

#include "layout/layout.h"
#include "trace/trace.h"

typedef enum {
  KIND_DEVICE, KIND_FORMAT, KIND_ENGINE, KIND_SCHEDULE, KIND_ATTENTION, KIND_DISPATCH, KIND_CONTEXT, KIND_ZERO,
  KIND_RECOMPUTE, KIND_TENSOR, KIND_OFFLOAD, KIND_ADAPTER, KIND_NAMES,
} KindName;

typedef enum { KIND_GPUS, KIND_TP, KIND_PP, KIND_VPP, KIND_CP, KIND_EP, KIND_SEQ, KIND_PARAMS, KIND_SIZES } KindSize;

/* Keys in files, and what people read. */
extern const char *const kind_name_keys[KIND_NAMES + 1], *const kind_size_keys[KIND_SIZES + 1];
extern const char *const kind_name_titles[KIND_NAMES], *const kind_size_titles[KIND_SIZES];

typedef struct {
  const char *names[KIND_NAMES]; /* interned; NULL = the run has none, as a schedule without a pipeline */
  double sizes[KIND_SIZES];
  double exposed;   /* share of the step in which the critical stage does not compute */
  double mfu;       /* of its predicted step, or of its measured one where it stands for that */
  gboolean experts; /* some layer has experts */
} RunKind;

/* Of a plan's layout, with the metrics of its step. */
RunKind run_kind(const Model *model, const Layout *layout, const Cluster *cluster, const Metrics *metrics);

#endif
