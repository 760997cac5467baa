tdp-plan --model llama-2-7b --cluster dgx --gpus 8 --global-batch 64 --framework fsdp --fix optimizer=muon,zero=1,tp=1,pp=1,recompute=full --top 1
