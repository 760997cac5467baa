for n in 64 72 128 144; do tdp-plan --model llama-3.1-8b --cluster gb200-nvl72 --gpus $n --global-batch 1152 --top 1 --fix tp=4,pp=1,cp=1,zero=1,mbs=1 2>&1 | grep "^nvlink"; done
