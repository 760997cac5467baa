tdp-plan --model opt-13b --cluster dgx-2 --gpus 1 --framework deepspeed --precision fp16 --global-batch 16 --top 1 --json | grep -A8 '"offload": {'
