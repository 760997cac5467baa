tdp-plan --model gtp3 --cluster dgx
