tdp-plan --model tiny --cluster dgx --gpus 8 --gpus-from 16
