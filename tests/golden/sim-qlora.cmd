tdp-sim --model llama-3.1-70b --cluster dgx-h100 --plan llama-70b-qlora --ops
