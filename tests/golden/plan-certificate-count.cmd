tdp-plan --model tiny --cluster dgx --gpus 1 --fix recompute=full:2,mbs=8 --certificate - --top 1 --json | head -3
