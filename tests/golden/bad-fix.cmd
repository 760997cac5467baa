tdp-plan --model gpt3 --cluster dgx --fix zero=7
