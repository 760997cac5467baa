tdp-plan --model llama-2-13b --cluster dgx --gpus 1 --global-batch 16 --question fewest-gpus
