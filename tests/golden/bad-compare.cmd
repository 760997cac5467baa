tdp-sim --model tiny --cluster dgx --compare tiny-1f1b no-such-plan
