tdp-sim --model llama-2-7b --cluster a100-80gb-ib400 --plan llama-7b-hsdp
