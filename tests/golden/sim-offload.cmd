tdp-sim --model llama-2-13b --cluster dgx-a100-80gb --plan offload
