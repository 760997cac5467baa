#!/bin/bash
# Written by tdp for Megatron-LM core 0.20: t5-3b on dgx, 2 nodes x 8 GPUs
# Notes:
# - model: vocab: 32128: the vocabulary is the tokenizer's
# - attention: flash: Megatron-LM chooses the kernel where attention has sinks, biases by distance, or keys of another width than values
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
set -eu

MODEL=(
  --encoder-num-layers 24 --decoder-num-layers 24 --hidden-size 1024 --num-attention-heads 32
  --encoder-seq-length 512 --decoder-seq-length 128 --max-position-embeddings 512 --position-embedding-type relative
  --kv-channels 128 --ffn-hidden-size 16384
  --normalization RMSNorm --disable-bias-linear
  --norm-epsilon 1e-06
)
PLAN=(
  --tensor-model-parallel-size 2
  --pipeline-model-parallel-size 1
  --use-distributed-optimizer
  --overlap-grad-reduce --overlap-param-gather
  --micro-batch-size 1 --global-batch-size 128 --bf16
)
# Not the plan's: put your data, tokenizer, steps and learning rate here.
OTHER=(
  --train-iters 10 --lr 6.0e-5 --min-lr 6.0e-6
  --data-path "${DATA_PATH:?prefix of preprocessed text}" --vocab-file "${VOCAB_FILE:?of WordPiece}" --tokenizer-type BertWordPieceCase --vocab-extra-ids 100
  --log-interval 1 --log-throughput
)

export CUDA_DEVICE_MAX_CONNECTIONS=1
: "${SLURM_JOB_NODELIST:?start this script with sbatch}"
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
srun --kill-on-bad-exit=1 torchrun --nnodes 2 --nproc-per-node 8 \
  --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$head_node:29500" \
  examples/t5/pretrain_t5.py "${MODEL[@]}" "${PLAN[@]}" "${OTHER[@]}" "$@"
