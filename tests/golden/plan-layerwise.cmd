tdp-plan --model llama-30b --cluster dgx-a100-40gb --gpus 32 --global-batch 64 --fix schedule=1f1b,pp=4,mbs=1,recompute=full --top 1 --framework galvatron --memory-margin 0 --layerwise
