tdp-sim --model gpt3 --cluster dgx-2 --plan plans/zero-infinity.json
