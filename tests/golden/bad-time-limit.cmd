tdp-plan --model tiny --cluster dgx --time-limit -1
