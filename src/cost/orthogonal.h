/*
 * What optimizers do beyond a stream over each parameter: factored and partial states, and Muon's
 * orthogonalisation.
 *
 * Muon makes the momentum of each matrix of a block orthogonal by Newton-Schulz steps in bf16, usually five
 * (Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv 2502.16982). A step on m x n,
 * m <= n, is three products: A = X X^T, B = b A + c A A, X = a X + B X, of 4 m^2 n + 2 m^3 FLOPs. Queries, keys and
 * values, and their gate, are matrices of their own (Megatron Core's muon_split_qkv, on by default; elsewhere they are
 * layers of their own).
 *
 * Tensor-parallel ranks that share a matrix (Megatron Core's --muon-tp-mode): blockwise, each takes its block
 * for a matrix; duplicated, the matrix is gathered in fp32 and each does all of it (newton_schulz_tp of NVIDIA's
 * Emerging-Optimizers casts behind); distributed, A is summed in bf16 over them each step, so that only X is divided.
 *
 * ZeRO: a rank orthogonalises what overlaps its part of the states, at least one matrix. Where parts cut matrices, as
 * FSDP's do, their momentum is gathered in bf16 before (algorithm 1 of arXiv 2502.16982), and under ZeRO-3 the results
 * behind (DeepSpeed's pull request 7919). Ranks that hold whole matrices gather neither (Framework.muon_whole_zero_max:
 * Megatron Core's ZeRO-1, DeepSpeed's stages 1 and 2; Framework.whole_tensors).
 *
 * Not priced, of DeepSpeed: the matrices of stages 1 and 2 that lie on two ranks, which both orthogonalise; under
 * stage 3 the sum of gradients on all ranks, the momentum that comes back with the results, and that all of it is done
 * with each micro-batch. Of Megatron, that gradients were summed on all ranks before May 2026 (Megatron-LM @c1e938b).
 */
#ifndef TDP_COST_ORTHOGONAL_H
#define TDP_COST_ORTHOGONAL_H

#include "cost/price.h"

/* Of a layer; `experts`: of those that are apart. */
OptimizerWork optimizer_work(const LayerWork *work, gboolean experts, const PassLayout *passes, const Cluster *cluster);

void optimizer_work_add(OptimizerWork *sum, const OptimizerWork *layer);

/* What it adds to the step of a rank that has so much of it. */
OptimizerPrice optimizer_work_price(const OptimizerWork *work, const StateLayout *states, const Cluster *cluster);

/* Bytes that are gathered over the ranks that ZeRO divides over before they can start; 0 = nothing. */
double optimizer_gather_bytes(const OptimizerWork *work, const StateLayout *states);

#endif
