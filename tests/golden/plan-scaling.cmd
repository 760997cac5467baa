tdp-plan --model tiny --cluster dgx --gpus 2 --question scaling --json
