for tokens in 1e3 1.6M; do tdp-plan --model tiny --cluster dgx --question training --tokens $tokens | grep -E 'steps of|checkpoint  |kept at once|written in all'; done
