tdp-plan --model tiny --cluster dgx --gpus 2 --tokens 1e9 --top 1 --fix tp=1,pp=1
