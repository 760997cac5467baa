/*
 * What a step communicates and what a layer keeps, summed from a trace and
 * from the layers' work, for comparison with closed forms.
 */
#ifndef TDP_TESTS_PAGES_VOLUME_H
#define TDP_TESTS_PAGES_VOLUME_H

#include "trace/trace.h"

/*
 * Bytes that a device of a row sends over its data lane in a step, as papers
 * count them: the buffer once for an all-gather or a reduce-scatter, twice for an
 * all-reduce, without the factor (n-1)/n of a ring. The gradient norm's 4 bytes
 * and tied embeddings are left out.
 */
typedef struct {
  double gathered_bytes, reduced_bytes;
  gint64 calls;
} DataVolume;

DataVolume data_volume(const Trace *trace, int row);

/* Bytes over the data lane in the largest domain that crosses nodes: the same, of groups that leave a node. */
double data_bytes_across_nodes(const Trace *trace, int row, const Cluster *cluster);

/* Bytes that a row sends to other stages. */
double pipeline_bytes(const Trace *trace, int row);

/* Bytes of what else a row communicates between passes, the gradient norm left out. */
double other_bytes(const Trace *trace, int row);

/* Collectives of one axis in one forward and backward of a block: how many of each
 * kind, and bytes counted as above. */
typedef struct {
  int calls[COLLECTIVE_COUNT];
  double bytes;
} BlockVolume;

BlockVolume block_volume(const Model *model, const Plan *plan, const Cluster *cluster, Axis axis);

/* Bytes that a block keeps for its backward. */
double block_saved_bytes(const Model *model, const Plan *plan, const Cluster *cluster);

#endif
