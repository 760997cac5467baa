tdp-plan --model tiny --cluster dgx --question scaling --why-not tp=2
