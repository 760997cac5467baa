tdp-plan --model tiny.json --cluster dgx.json --gpus 8 --top 3
