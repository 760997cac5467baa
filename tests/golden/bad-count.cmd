tdp-plan --model gpt3 --cluster dgx --gpus 0
