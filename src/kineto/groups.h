/* Communicators as torch names them: which ranks a rank talks to; private to src/kineto. */
#ifndef TDP_KINETO_GROUPS_H
#define TDP_KINETO_GROUPS_H

#include "base/json.h"
#include "program/program.h"

typedef enum {
  GROUP_WORLD, GROUP_TENSOR, GROUP_DATA, GROUP_PIPELINE,
  GROUP_EMBEDDING, /* the two ends of the pipeline */
  GROUP_CONTEXT,
  GROUP_SHARDS,        /* of the data group, those over which ZeRO divides */
  GROUP_SHARD_COPIES,  /* and those that hold the same part */
  GROUP_COPIES,    /* two ranks that hold the same stages of two copies of the model */
  GROUP_COUNT,
} ProcessGroup;

/* The group whose ranks a task of a segment joins. */
ProcessGroup group_of_segment(const Layout *layout, const Segment *segment);

/* The group as the arguments of an event. */
void group_put_args(JsonWriter *w, const Layout *layout, ProcessGroup group, int rank);

/* Whether ranks are in a group of that kind: all in that of all, else if it has more than one rank. */
gboolean group_is_there(const Layout *layout, ProcessGroup group);

/* All groups that a rank is in, as members of an open array; backend: "cuda:nccl". */
void group_put_all(JsonWriter *w, const Layout *layout, const char *backend, int rank);

#endif
