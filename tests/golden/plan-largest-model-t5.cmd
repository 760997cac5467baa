tdp-plan --model t5-small --cluster dgx --gpus 1 --question largest-model --fix recompute=full,mbs=1,schedule=1f1b
