tdp-sim --model llama-3.1-8b --cluster dgx-h100 --plan long-context
