# What is asked for is what is recommended: no table of the same plan twice.
tdp-plan --model llama-3.1-8b --cluster dgx-h100 --gpus 8 --global-batch 64 --seq 4096 --fix tp=1,pp=1,recompute=none --why-not dp=8 | sed -n 1,2p
