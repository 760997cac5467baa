tdp-plan --model llama-2-7b --cluster dgx-a100-80gb --gpus 32 --global-batch 256 --question jitter
