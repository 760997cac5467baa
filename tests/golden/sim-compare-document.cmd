tdp-sim --model tiny --cluster dgx --compare tiny-1f1b tiny-tp2-dp2 --json
