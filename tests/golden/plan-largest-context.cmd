tdp-plan --model llama-2-7b --cluster dgx --gpus 8 --question largest-context --global-batch 8
