tdp-plan --model llama-2-7b --cluster dgx --gpus 8 --global-batch 64 --space states --fix zero=1,tp=1,pp=1,recompute=full --top 3
