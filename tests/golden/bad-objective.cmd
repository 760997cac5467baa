tdp-plan --model tiny --cluster dgx --objective speed
