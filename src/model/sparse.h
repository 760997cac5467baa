/*
 * Block-sparse attention: which blocks of the square of queries and keys a layer computes.
 *
 * The layouts and the keys of the object `sparse_attention` are DeepSpeed's (deepspeed/ops/sparse_attention/
 * sparsity_config.py; tutorial deepspeed.ai/tutorials/sparse-attention): `fixed` (Child et al. 2019, arXiv 1904.10509),
 * `variable`, `bigbird` (Zaheer et al. 2020, arXiv 2007.14062), `bslongformer` (Beltagy et al. 2020, arXiv 2004.05150),
 * `local` and `dense`; and `layout`, rows of 0 and 1 that a user gives. README.md beside this file lists the keys.
 *
 * A layout has seq / block rows and columns for each head. Its blocks are counted exactly; random blocks, which may
 * fall on others, by their expectation. A layout of a user is cut to its first rows and columns.
 *
 * sparse_read fails with TDP_ERROR_INPUT; the caller frees what it returns. To add a kind: its name in sparse_keys.c,
 * its columns in sparse.c.
 */
#ifndef TDP_MODEL_SPARSE_H
#define TDP_MODEL_SPARSE_H

#include "base/json.h"

typedef enum {
  SPARSE_DENSE, SPARSE_FIXED, SPARSE_VARIABLE, SPARSE_BIGBIRD, SPARSE_BSLONGFORMER, SPARSE_LOCAL, SPARSE_LAYOUT,
  SPARSE_MODE_COUNT,
} SparseMode;

extern const char *const sparse_mode_names[];

/* Sizes in blocks. */
typedef struct {
  SparseMode mode;
  int block;           /* tokens of a side */
  int patterns;        /* different layouts, which heads take in turn */
  int local, global;   /* of a window, and of them seen by all (fixed); first columns seen by all (bigbird) */
  int random;          /* of a row */
  int sliding;         /* of the window around a row */
  int *windows;        /* one after the other, the last one repeated (variable); owned */
  int n_windows;
  int *first, *end;    /* ranges seen by all (variable, bslongformer); owned */
  int n_ranges;
  gboolean per_head;   /* heads may have different layouts */
  gboolean horizontal; /* what all see, sees all */
  gboolean unidirectional; /* no block behind the row's */
  guint8 *cells;       /* rows x rows of a given layout; owned */
  int rows;
} SparseAttention;

/* The object `sparse_attention` of a model file; `causal` models take unidirectional layouts. */
SparseAttention *sparse_read(const JsonDoc *doc, const cJSON *object, gboolean causal, GError **error);
void sparse_free(SparseAttention *sparse);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SparseAttention, sparse_free)

/* NULL if sequences of this length have a layout, else what was expected; newly allocated. */
char *sparse_refusal(const SparseAttention *sparse, int seq);

/* Whether they have one. */
gboolean sparse_fits(const SparseAttention *sparse, int seq);

/* Blocks of all heads for one sequence, which sparse_fits accepts. */
double sparse_blocks(const SparseAttention *sparse, int heads, int seq);

/* Keys that a query of one head sees on average: tokens, whole blocks counted. */
double sparse_keys_seen(const SparseAttention *sparse, int heads, int seq);

#endif
