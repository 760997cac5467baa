tdp-plan --model gpt3 --cluster dgx --gpus 128 --gpus-from 32 --objective gpu-hours
