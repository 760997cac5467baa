tdp-plan --model tiny --cluster dgx --question scaling --output x.json
