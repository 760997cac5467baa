tdp-plan --model tiny --cluster dgx --gpus 8 --top 2 --objective memory
