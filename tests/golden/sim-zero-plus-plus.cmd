tdp-sim --model llama-2-7b --cluster dgx --plan plans/zero-plus-plus.json
