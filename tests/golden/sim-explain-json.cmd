tdp-sim --model tiny --cluster dgx --plan tiny-tp2-dp2 --explain --json
