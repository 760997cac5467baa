#ifndef TDP_COST_CHUNKS_H
#define TDP_COST_CHUNKS_H

#include "cost/price.h"

/* Rows that tensor-parallel ranks gather or scatter in chunks beside a product (plan key tp_comm_overlap).
 *
 * n ranks run n products of 1/n of the rows each. A gather begins with the rank's own rows, and a scatter ends with
 * them, so that each of n - 1 transfers has a product beside it and none is exposed of its own accord (Transformer
 * Engine 2.x, comm_gemm_overlap.cpp, CommOverlapP2PBase::split_overlap_ag and split_overlap_rs; PyTorch,
 * torch/distributed/_symmetric_memory/__init__.py, _pipelined_multi_all_gather_and_consume and
 * _pipelined_produce_and_all2all). Chunks add three costs:
 *  - each of the n products pads its own tiles and reads the weights again. Two or three streams let one product fill
 *    the multiprocessors that the end of another leaves idle, which both sources aim at, so that the n products cost
 *    what a batch of n costs.
 *  - a gather first copies the rank's own rows to where others read them: 2/n of the gathered bytes, in memory.
 *  - a scatter leaves n partial sums, which a kernel at the end adds up: it reads all rows and writes 1/n of them
 *    (Transformer Engine's reduce_bf16; torch.sum over stacked partials, exposed as pytorch/pytorch#191803 says).
 */

/* Fills chunks_s and added_s of the collectives among `ops` that may run in chunks under the layout, from the seconds
 * of all ops in `times`. `known` as for op_times_s(). */
void chunks_time(const GArray *ops, const PassLayout *passes, const Cluster *cluster, OpTimes *known, OpTime *times);

/* Seconds that products hide of a collective with these times among n ranks; 0 where it runs whole. Chunks that would
 * take longer than the whole are not run. */
double chunks_hidden_s(const OpTime *time, int n);

#endif
