tdp-plan --model gpt3 --cluster dgx --gpus 64 --question largest-batch --json
