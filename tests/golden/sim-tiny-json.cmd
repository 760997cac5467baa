tdp-sim --model tiny --cluster dgx --plan tiny-1f1b --json
