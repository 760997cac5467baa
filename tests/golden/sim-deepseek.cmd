tdp-sim --model deepseek-v3-mtp --cluster dgx-h100 --plan deepseek-v3
