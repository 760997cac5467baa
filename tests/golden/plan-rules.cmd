rule() { tdp-plan --top 1 --explain "$@" | sed -n '/^Rule of thumb/,/^$/p'; }
rule --model gpt2 --cluster titan-rtx-pair --global-batch 32
rule --model llama-2-7b --cluster dgx-a100-80gb --gpus 8 --global-batch 64
rule --model llama-2-7b --cluster aws-p3-16xlarge --gpus 16 --global-batch 64
rule --model bloom --cluster jean-zay-a100
rule --model llama-2-13b --cluster hgx-h200 --gpus 64 --global-batch 256
