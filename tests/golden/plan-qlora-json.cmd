tdp-plan --model llama-3.1-8b --cluster dgx-h100 --gpus 8 --global-batch 8 --seq 2048 --framework fsdp-2024 --adapter qlora:r=8 --fix mbs=1,zero=3,recompute=full --json --top 1
