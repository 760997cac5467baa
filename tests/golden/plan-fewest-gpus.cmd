tdp-plan --model gpt3 --cluster dgx --question fewest-gpus
