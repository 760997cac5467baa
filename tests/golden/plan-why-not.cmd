tdp-plan --model gpt3 --cluster dgx --gpus 512 --why-not tp=4,pp=16
