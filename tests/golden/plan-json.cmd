tdp-plan --model gpt2 --cluster dgx --gpus 4 --global-batch 16 --top 1 --json
