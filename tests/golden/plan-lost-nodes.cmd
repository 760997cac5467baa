tdp-plan --model llama-3.1-70b --cluster dgx-h100 --gpus 1024 --global-batch 2048 --question lost-nodes; tdp-plan --model llama-2-7b --cluster dgx-h100 --gpus 8 --question lost-nodes
