tdp-plan --model tiny --cluster dgx --gpus 4 --gpus-from 2 --tokens 1e9 --price 2.5
