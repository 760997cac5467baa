#include "cost/chunks.h"

#include "cost/kernel.h"

#include <math.h>

/* The product that rows are gathered for, or scattered behind: the next op of its kind of pass, or the one before,
 * kernels bound by memory aside. */
static const Op *product_of(const Op *op, const GArray *ops)
{
  const Op *first = (const Op *)(gpointer)ops->data, *end = first + ops->len;
  Collective what = op->collective.what;
  int step = what == COLLECTIVE_ALL_GATHER ? 1 : -1;

  if (op->kind != OP_COLLECTIVE || op->collective.axis != AXIS_TENSOR ||
      (what != COLLECTIVE_ALL_GATHER && what != COLLECTIVE_REDUCE_SCATTER))
    return NULL;
  for (const Op *next = op + step; next >= first && next < end; next += step)
    if (next->pass == op->pass && next->kind != OP_MEMORY)
      return next->kind == OP_MATMUL ? next : NULL;
  return NULL;
}

static Op in_chunks(const Op *product, int n)
{
  Op chunks = *product;
  double *rows = product->pass == PASS_WEIGHT ? &chunks.matmul.k : &chunks.matmul.m;

  if (product->matmul.batch == 1)
    chunks.matmul.loops = 1; /* not by a grouped kernel */
  *rows /= n;
  chunks.matmul.batch *= n;
  return chunks;
}

static double copies_s(const Op *op, const Device *device)
{
  double n = op->collective.group.size, bytes = op->collective.bytes;
  gboolean gathers = op->collective.what == COLLECTIVE_ALL_GATHER;

  return memory_s(device, gathers ? 2 * bytes / n : bytes * (1 + 1 / n), 1);
}

void chunks_time(const GArray *ops, const PassLayout *passes, const Cluster *cluster, OpTimes *known, OpTime *times)
{
  for (guint i = 0; i < ops->len && passes->comm_chunks; i++) {
    const Op *op = &g_array_index(ops, Op, i), *product = product_of(op, ops);
    if (!product)
      continue;
    Op chunks = in_chunks(product, op->collective.group.size);
    double whole_s = times[product - (const Op *)(gpointer)ops->data].seconds;
    times[i].chunks_s = fmax(whole_s, op_times_s(known, &chunks, passes, cluster));
    times[i].added_s = times[i].chunks_s - whole_s + copies_s(op, &cluster->device);
  }
}

double chunks_hidden_s(const OpTime *time, int n)
{
  double beside_s = MIN(time->seconds / time->slowdown, (n - 1.0) / n * time->chunks_s);

  return MAX(0, beside_s - time->added_s);
}
