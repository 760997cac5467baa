tdp-plan --model gpt3 --cluster dgx --fix tp=3
