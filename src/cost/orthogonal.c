#include "cost/orthogonal.h"

#include "cost/kernel.h"

#include <math.h>

#define NEWTON_DTYPE DTYPE_BF16
#define GRAM_RESTART 2

static double product_s(const Cluster *c, double m, double n, double k, double batch)
{
  return matmul_s(&c->device, &(Matmul) { m, n, k, batch, NEWTON_DTYPE });
}

/* Products of a step on m x n. */
static double step_s(const Cluster *c, double m, double n, double count)
{
  return product_s(c, m, m, n, count) + product_s(c, m, m, m, count) + product_s(c, m, n, m, count);
}

/* All steps on the small square of m x n: it is made before them and again behind the second, as X is, and X once more
 * with the last; a step squares it, and takes one product for Q but where that begins anew, and two for the next square
 * but where that is made of X. */
static double gram_s(const Cluster *c, double m, double n, int steps)
{
  int wide = 2, square = 0;

  for (int i = 0; i < steps; i++) {
    gboolean anew = i == GRAM_RESTART, first = anew || i == 0, last = i == steps - 1 || i + 1 == GRAM_RESTART;
    wide += anew ? 2 : 0;
    square += 1 + !first + (last ? 0 : 2);
  }
  return wide / 2 * (product_s(c, m, m, n, 1) + product_s(c, m, n, m, 1)) + square * product_s(c, m, m, m, 1);
}

static double newton_s(const Cluster *c, const PassLayout *passes, double m, double n)
{
  int steps = passes->optimizer.newton_steps;

  return passes->framework->muon_gram && n > m ? gram_s(c, m, n, steps) : steps * step_s(c, m, n, 1);
}

/* The matrix as the rank works on it, and what it exchanges for that. */
typedef struct {
  double m, n; /* n is divided where ranks work together, else the longer side */
  Collective what;
  double bytes; /* of each exchange */
  int exchanges;
} Share;

static Share share_of(const OpMatrix *matrix, const Optimizer *optimizer, int ranks)
{
  double rows = matrix->rows, columns = matrix->columns;
  gboolean by_rows = matrix->split == LINEAR_ROW;

  if (ranks > 1 && matrix->split != LINEAR_REPLICATED && optimizer->muon_mode == MUON_DISTRIBUTED) {
    double m = by_rows ? columns : rows, n = by_rows ? rows : columns;
    return (Share) { m, n, COLLECTIVE_ALL_REDUCE, m * m * dtype_bytes[NEWTON_DTYPE], optimizer->newton_steps };
  }
  if (ranks > 1 && matrix->split != LINEAR_REPLICATED && optimizer->muon_mode == MUON_DUPLICATED) {
    rows *= by_rows ? ranks : 1;
    columns *= by_rows ? 1 : ranks;
    return (Share) { MIN(rows, columns), MAX(rows, columns), COLLECTIVE_ALL_GATHER,
                     rows * columns * dtype_bytes[DTYPE_FP32], 1 };
  }
  return (Share) { MIN(rows, columns), MAX(rows, columns), COLLECTIVE_ALL_GATHER, 0, 0 };
}

static void add_matrix(OptimizerWork *sum, const OpMatrix *matrix, const PassLayout *passes, const Cluster *cluster)
{
  int ranks = matrix->experts ? passes->etp : passes->tp;
  GroupShape group = pass_group(passes, cluster, matrix->experts ? RANKS_EXPERT_TENSOR : RANKS_TENSOR);
  Share share = share_of(matrix, &passes->optimizer, ranks);
  double newton = newton_s(cluster, passes, share.m, share.n);
  double once_s = share.exchanges ? collective_cost(cluster, share.what, share.bytes, &group).seconds : 0;
  double exchange = share.exchanges * once_s;

  sum->matrices += matrix->rows * matrix->columns * matrix->count;
  sum->count += matrix->count;
  sum->newton_s += newton * matrix->count;
  sum->tensor_s += exchange * matrix->count;
  sum->newton_most_s = MAX(sum->newton_most_s, newton + exchange);
}

OptimizerWork optimizer_work(const LayerWork *work, gboolean experts, const PassLayout *passes, const Cluster *cluster)
{
  OptimizerWork sum = { .state_bytes = work->state_bytes[experts] };

  for (guint i = 0; work->matrices && i < work->matrices->len; i++)
    if (!g_array_index(work->matrices, OpMatrix, i).experts == !experts)
      add_matrix(&sum, &g_array_index(work->matrices, OpMatrix, i), passes, cluster);
  return sum;
}

void optimizer_work_add(OptimizerWork *sum, const OptimizerWork *layer)
{
  sum->state_bytes += layer->state_bytes;
  sum->matrices += layer->matrices;
  sum->count += layer->count;
  sum->newton_s += layer->newton_s;
  sum->tensor_s += layer->tensor_s;
  sum->newton_most_s = MAX(sum->newton_most_s, layer->newton_most_s);
}

/* That a rank works on in turn. */
static double buckets_of(const OptimizerWork *w, const StateLayout *s)
{
  return s->works_by_bucket ? MAX(1, w->matrices / op_bucket_params(s)) : 1;
}

/* Ranks whose parts end within matrices; no part is more than all. */
static gboolean cuts_matrices(const StateLayout *s)
{
  return s->framework->muon_cuts && s->optimizer_parts > 1 && s->zero < 3;
}

/* Ranks share the matrices of a bucket, so that each takes at least one of each bucket; where parts cut matrices, half of
 * one more at either end. */
static double newton_of_step_s(const OptimizerWork *w, const StateLayout *s, double micro)
{
  double all = w->newton_s + w->tensor_s, shared = all / s->optimizer_parts;

  if (cuts_matrices(s))
    return MIN(all, shared + w->newton_most_s);
  return (s->works_by_bucket ? micro : 1) * MAX(shared, buckets_of(w, s) * w->newton_most_s);
}

OptimizerPrice optimizer_work_price(const OptimizerWork *w, const StateLayout *s, double micro, const Cluster *cluster)
{
  double shards = s->optimizer_parts, newton = newton_of_step_s(w, s, micro);
  double states = 2 * w->state_bytes / shards / (cluster->device.memory_bytes_per_s *
                                                 cluster->device.kernels.memory_fraction);

  return (OptimizerPrice) { .seconds = newton + states };
}

/* Whether a rank has what it needs for the matrices that it orthogonalises. */
static gboolean holds_matrices(const StateLayout *s)
{
  const Framework *f = s->framework;

  return !s->sums || s->zero <= MAX(f->muon_whole_zero_max, f->whole_tensors ? 2 : 0);
}

double optimizer_gathers(const OptimizerWork *w, const StateLayout *s, double micro)
{
  double buckets = buckets_of(w, s);

  if (s->works_by_bucket)
    return micro * buckets * (1 + 2 * ceil(w->count / buckets / s->optimizer_parts));
  return holds_matrices(s) ? 0 : s->zero == 3 ? 2 : 1;
}

double optimizer_gather_bytes(const OptimizerWork *w, const StateLayout *s, double micro)
{
  if (s->works_by_bucket)
    return 3 * micro * w->matrices * s->reduce_bytes;
  return optimizer_gathers(w, s, micro) * w->matrices * dtype_bytes[NEWTON_DTYPE];
}
