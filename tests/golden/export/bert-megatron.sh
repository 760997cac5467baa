#!/bin/bash
# Written by tdp for Megatron-LM core 0.20: bert-large on dgx, 1 node x 8 GPUs
# Lost, because the target cannot say it:
# - model: norm behind the embedding: not in Megatron-LM core 0.20, left out
# - model: no norm before the head: not in Megatron-LM core 0.20, written with one
# - model: norms behind the sums: not in Megatron-LM core 0.20, written before attention and feed-forward
# Notes:
# - model: vocab: 30522: the vocabulary is the tokenizer's
# - overlap: pipeline: true: Megatron-LM overlaps it only when it interleaves
set -eu

MODEL=(
  --num-layers 24 --hidden-size 1024 --num-attention-heads 16
  --seq-length 512 --max-position-embeddings 512
  --norm-epsilon 1e-12
)
PLAN=(
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 2
  --overlap-grad-reduce
  --attention-backend flash
  --micro-batch-size 1 --global-batch-size 256 --bf16
)
# Not the plan's: put your data, tokenizer, steps and learning rate here.
OTHER=(
  --train-iters 10 --lr 6.0e-5 --min-lr 6.0e-6
  --data-path "${DATA_PATH:?prefix of preprocessed text}" --vocab-file "${VOCAB_FILE:?of WordPiece}"
  --log-interval 1 --log-throughput
)

export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --standalone --nproc-per-node 8 \
  examples/bert/pretrain_bert.py "${MODEL[@]}" "${PLAN[@]}" "${OTHER[@]}" "$@"
