tdp-plan --model tiny --cluster dgx --pareto time
