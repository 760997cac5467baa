tdp-plan --model gpt2 --cluster dgx-2 --gpus 4 --precision bf16
