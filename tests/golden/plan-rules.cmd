rule() { tdp-plan --top 1 --explain "$@" | sed -n '/^Rule of thumb/,/^$/p'; }
rule --model gpt2 --cluster titan-rtx-pair --global-batch 32
rule --model llama-2-7b --cluster dgx-a100-80gb --gpus 8 --global-batch 64
rule --model llama-2-7b --cluster aws-p3-16xlarge --gpus 16 --global-batch 64
rule --model bloom --cluster jean-zay-a100
rule --model llama-2-13b --cluster hgx-h200 --gpus 64 --global-batch 256
# Plan 1 is of a strategy of the rule: over a part of the ranks, and the most robust of those that tie.
rule --model llama-3.1-405b --cluster dgx-h100 --gpus 16384 --seq 131072 --global-batch 128
rule --model gpt3 --cluster dgx --gpus 1024
tdp-plan --model llama-3.1-8b --cluster gb200-nvl72 --gpus 64 --seq 8192 --global-batch 512 --fix mbs=1,cp=1,pp=1 --explain 2>/dev/null | sed -n "/^Rule/,/^$/p" # nodes of one rack: no network between them
