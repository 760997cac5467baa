tdp-plan --model mixtral-8x7b --cluster dgx-h100 --gpus 8 --global-batch 256 --fix ep=2,cp=1 --top 2 | grep -A 4 "^Best plans"
