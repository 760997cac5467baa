tdp-sim --model tiny --cluster dgx --plan tiny-tp2-dp2 --ranks all --straggler 3=1.5
