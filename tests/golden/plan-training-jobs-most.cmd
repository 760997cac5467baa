tdp-plan --model tiny --cluster dgx-h100 --gpus 16 --global-batch 64 --tokens 1e12 --question training --job tiny:1e15:2147483647 --threads 1
