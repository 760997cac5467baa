tdp-sim --plan plans/gpt3-128.json --cluster dgx --gpus 0
