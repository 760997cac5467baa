tdp-sim --model mixtral-8x7b --cluster dgx-h100 --plan experts-folded
