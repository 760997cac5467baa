tdp-plan --model llama-2-7b --cluster dgx-a100-80gb --gpus 16 --global-batch 256 --top 3 --explain
