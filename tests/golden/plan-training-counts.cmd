tdp-plan --model llama-2-7b --cluster dgx-h100 --gpus 256 --gpus-from 64 --global-batch 1024 --tokens 2T --price 2.5 --question training --deadline 20
