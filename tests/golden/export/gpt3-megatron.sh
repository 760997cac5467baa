#!/bin/bash
# Written by tdp for Megatron-LM core 0.20: gpt3 on dgx, 128 nodes x 8 GPUs
# Notes:
# - model: norm_epsilon: not in its file, so Megatron-LM takes 1e-05
#SBATCH --nodes=128
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
set -eu

MODEL=(
  --num-layers 96 --hidden-size 12288 --num-attention-heads 96
  --seq-length 2048 --max-position-embeddings 2048
  --no-create-attention-mask-in-dataloader
)
PLAN=(
  --tensor-model-parallel-size 8 --sequence-parallel
  --pipeline-model-parallel-size 8 --num-layers-per-virtual-pipeline-stage 6
  --use-distributed-optimizer
  --overlap-grad-reduce --overlap-param-gather
  --recompute-granularity selective --recompute-modules core_attn
  --attention-backend flash
  --micro-batch-size 1 --global-batch-size 1536 --bf16
)
# Not the plan's: put your data, tokenizer, steps and learning rate here.
OTHER=(
  --train-iters 10 --lr 6.0e-5 --min-lr 6.0e-6
  --mock-data --tokenizer-type NullTokenizer --vocab-size 50257
  --log-interval 1 --log-throughput
)

export CUDA_DEVICE_MAX_CONNECTIONS=1
: "${SLURM_JOB_NODELIST:?start this script with sbatch}"
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
srun --kill-on-bad-exit=1 torchrun --nnodes 128 --nproc-per-node 8 \
  --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$head_node:29500" \
  pretrain_gpt.py "${MODEL[@]}" "${PLAN[@]}" "${OTHER[@]}" "$@"
