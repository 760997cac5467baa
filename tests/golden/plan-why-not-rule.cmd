tdp-plan --model gpt3 --cluster dgx --gpus 512 --why-not tp=64
