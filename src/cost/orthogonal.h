/*
 * What optimizers do beyond a stream over each parameter: factored and partial states, and Muon's
 * orthogonalisation.
 *
 * Muon makes the momentum of each matrix of a block orthogonal by Newton-Schulz steps in bf16, usually five
 * (Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv 2502.16982). A step on m x n,
 * m <= n, is three products: A = X X^T, B = b A + c A A, X = a X + B X, of 4 m^2 n + 2 m^3 FLOPs. Queries, keys and
 * values are matrices of their own (Megatron Core's muon_split_qkv, on by default; elsewhere they are layers of their
 * own), and so are gate and up but in Megatron (Framework.fused_weights). Models whose own code has one matrix for
 * these outside Megatron, too (GPT-2, BLOOM, Falcon, GPT-NeoX, Phi-3), are not told apart.
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
 * DeepSpeed's steps go on the m x m square of a matrix that is not square itself (Framework.muon_gram, its ns_method
 * "gram"): of five, 4 products with m^2 n and 14 with m^3, where the others have 10 and 5. Under its stage 3
 * (Framework.muon_by_bucket) all of it is done with every micro-batch and bucket of gradients, which are summed on all
 * ranks: momentum is gathered, each rank makes some of the updates, and updates and momentum are gathered again, all in
 * the gradients' format. What each micro-batch adds is timed behind the last one, not beside backwards.
 *
 * There, the gathers are one of a bucket's momentum, and two for each matrix that ranks make at once; elsewhere one of all
 * momentum, and one of the results. Parts of DeepSpeed's stages
 * 1 and 2 end within matrices, which the ranks on both sides orthogonalise (Framework.muon_cuts): of each part one more.
 *
 * Not priced, of Megatron: that gradients were summed on all ranks before May 2026 (Megatron-LM @c1e938b).
 */
#ifndef TDP_COST_ORTHOGONAL_H
#define TDP_COST_ORTHOGONAL_H

#include "cost/price.h"

/* Of a layer; `experts`: of those that are apart. */
OptimizerWork optimizer_work(const LayerWork *work, gboolean experts, const PassLayout *passes, const Cluster *cluster);

void optimizer_work_add(OptimizerWork *sum, const OptimizerWork *layer);

/* What it adds to the step, of so many micro-batches, of a rank that has so much of it. */
OptimizerPrice optimizer_work_price(const OptimizerWork *work, const StateLayout *states, double micro,
                                    const Cluster *cluster);

/* Bytes that are gathered over the ranks that ZeRO divides over for it; 0 = nothing. In so many collectives. */
double optimizer_gather_bytes(const OptimizerWork *work, const StateLayout *states, double micro);
double optimizer_gathers(const OptimizerWork *work, const StateLayout *states, double micro);

#endif
