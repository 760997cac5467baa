tdp-sim --model gpt3 --cluster dgx --plan gpt3-128 --draws 10 --contention
