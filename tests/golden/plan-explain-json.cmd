tdp-plan --model llama-2-7b --cluster dgx --gpus 16 --top 1 --explain --json
