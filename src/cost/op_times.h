/*
 * Times of ops, remembered from one price table to the next: plans of a search
 * have most ops in common. What comes back is op_s() to the last bit. A matrix
 * product, attention or collective is known again by all that op_s() reads of
 * it, of the layout and of the cluster (new members of Op count by themselves);
 * kernels bound by memory cost no more to price than to find. Not thread-safe; clusters and frameworks must outlive it
 * as they are.
 */
#ifndef TDP_COST_OP_TIMES_H
#define TDP_COST_OP_TIMES_H

#include "op/op.h"

typedef struct OpTimes OpTimes;

OpTimes *op_times_new(void);
void op_times_free(OpTimes *times);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(OpTimes, op_times_free)

/* NULL remembers nothing. */
double op_times_s(OpTimes *times, const Op *op, const PassLayout *passes, const Cluster *cluster);

#endif
