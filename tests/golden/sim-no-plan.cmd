tdp-sim --model gpt3 --cluster dgx
