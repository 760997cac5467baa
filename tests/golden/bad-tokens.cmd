for tokens in many 15TT 0 1e30 10001T; do tdp-plan --model tiny --cluster dgx --tokens $tokens; done
tdp-plan --model tiny --cluster dgx --question training --tokens 1T --job tiny:1e17
