#!/bin/bash
# Written by tdp for Megatron-LM core 0.20: llama-3.1-8b on dgx-h100, 8 nodes x 8 GPUs
#SBATCH --nodes=8
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
set -eu

MODEL=(
  --num-layers 32 --hidden-size 4096 --num-attention-heads 32
  --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope
  --group-query-attention --num-query-groups 8 --swiglu --ffn-hidden-size 14336
  --normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear
  --rotary-base 500000 --norm-epsilon 1e-05
  --attention-dropout 0 --hidden-dropout 0 --no-create-attention-mask-in-dataloader
)
PLAN=(
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 1
  --use-distributed-optimizer --no-gradient-accumulation-fusion --ckpt-format fsdp_dtensor
  --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params
  --overlap-grad-reduce --overlap-param-gather
  --megatron-fsdp-main-grads-dtype fp32
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
  --attention-backend flash
  --micro-batch-size 1 --global-batch-size 128 --bf16
)
# Not the plan's: put your data, tokenizer, steps and learning rate here.
OTHER=(
  --train-iters 10 --lr 6.0e-5 --min-lr 6.0e-6
  --mock-data --tokenizer-type NullTokenizer --vocab-size 128256
  --log-interval 1 --log-throughput
)

unset CUDA_DEVICE_MAX_CONNECTIONS
: "${SLURM_JOB_NODELIST:?start this script with sbatch}"
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
srun --kill-on-bad-exit=1 torchrun --nnodes 8 --nproc-per-node 8 \
  --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$head_node:29500" \
  pretrain_gpt.py "${MODEL[@]}" "${PLAN[@]}" "${OTHER[@]}" "$@"
