/*
 * What published runs of a generation of software did that their rows do not say: the object `unstated` of its file in
 * plans/frameworks/, which nothing else reads. `source` in it gives the reason of each key; a file that is like another
 * has the keys that differ.
 */
#ifndef TDP_VALIDATE_HABITS_H
#define TDP_VALIDATE_HABITS_H

#include "plan/framework.h"

/* Of a pipeline's stages: the one that has least room left, the first, or the last. */
typedef enum { MEMORY_FULLEST, MEMORY_FIRST, MEMORY_LAST } MemoryStage;

typedef struct {
  Recompute recompute;
  guint recompute_modules;    /* of selective; 0 = attention's core; behind others come those of the framework */
  CudaGraph graph;            /* of models with experts, */
  char *graph_arch;           /* on devices whose architecture begins with this; NULL = on all */
  gboolean graph_overlaps;    /* in steps that are one graph tokens travel beside passes of other micro-batches */
  char *hybrid_device;        /* tokens travel by HybridEP on devices whose name begins with this; NULL = on none */
  int micro_batch;            /* 0 = the rank's batch over the pipeline's stages */
  int vocab, zero;
  gboolean sequence_parallel;
  gboolean selective_blocks;  /* "selective" made a share of whole blocks again */
  gboolean pipeline_gathered; /* in pipelines ZeRO-3 keeps weights gathered */
  gboolean sums_once;         /* gradients of several micro-batches, where ZeRO divides them, are summed once */
  gboolean bf16_states;       /* weights in bf16 are trained as they are: no main copies, moments in bf16 */
  gboolean dropout;           /* of models that were trained with dropout */
  MemoryCount memory;
  MemoryStage memory_stage;   /* whose figures of memory are published */
  gboolean chunks_tuned;      /* of interleaved schedules: as many as are fastest */
  gboolean node_shards;       /* ZeRO divides over a node, or as many as a run needs to fit */
  char *family;               /* files that a generation without one takes where it is nearest to this; NULL = this */
} Habits;

/* The file's; FALSE and TDP_ERROR_INPUT where a key or its reason is missing. habits_clear() after either. */
gboolean habits_read(const char *framework, Habits *out, GError **error);
void habits_clear(Habits *habits);

#endif
