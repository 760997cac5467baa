tdp-sim --model tiny --cluster dgx --plan tiny-1f1b --compare tiny-tp2-dp2
