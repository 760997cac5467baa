tdp-plan --model tiny --cluster dgx --question why
