tdp-plan --model tiny --cluster dgx --gpus 8 --pareto time,memory
