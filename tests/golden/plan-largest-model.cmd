tdp-plan --model tiny --cluster dgx --gpus 1 --question largest-model --fix recompute=full,mbs=1
