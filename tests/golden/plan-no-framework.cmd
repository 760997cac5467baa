tdp-plan --model llama-3.1-8b --cluster dgx-h100 --gpus 8 --framework torchtitan --global-batch 32 --fix tp=8
