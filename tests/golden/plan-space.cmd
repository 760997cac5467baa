tdp-plan --model opt-13b --cluster dgx-2 --gpus 1 --framework deepspeed --precision fp16 --space offload --global-batch 16 --top 2
