#!/bin/bash
# Written by tdp for Megatron-LM core 0.20: llama-3.1-70b on dgx-h100, 32 nodes x 8 GPUs
# Notes:
# - overlap: pipeline: true: Megatron-LM overlaps it only when it interleaves
#SBATCH --nodes=32
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
set -eu

MODEL=(
  --num-layers 80 --hidden-size 8192 --num-attention-heads 64
  --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope
  --group-query-attention --num-query-groups 8 --swiglu --ffn-hidden-size 28672
  --normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear
  --rotary-base 500000 --norm-epsilon 1e-05
  --attention-dropout 0 --hidden-dropout 0 --no-create-attention-mask-in-dataloader
)
PLAN=(
  --tensor-model-parallel-size 8 --sequence-parallel
  --pipeline-model-parallel-size 4
  --use-distributed-optimizer
  --overlap-grad-reduce --overlap-param-gather
  --attention-backend flash
  --micro-batch-size 1 --global-batch-size 512 --bf16
)
# Not the plan's: put your data, tokenizer, steps and learning rate here.
OTHER=(
  --train-iters 10 --lr 6.0e-5 --min-lr 6.0e-6
  --mock-data --tokenizer-type NullTokenizer --vocab-size 128256
  --log-interval 1 --log-throughput
)

export CUDA_DEVICE_MAX_CONNECTIONS=1
: "${SLURM_JOB_NODELIST:?start this script with sbatch}"
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
srun --kill-on-bad-exit=1 torchrun --nnodes 32 --nproc-per-node 8 \
  --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$head_node:29500" \
  pretrain_gpt.py "${MODEL[@]}" "${PLAN[@]}" "${OTHER[@]}" "$@"
