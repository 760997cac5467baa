tdp-plan --model tiny --cluster dgx --tokens many
