echo "{\"tensor_model_parallel_size\": 8}" | tdp-sim --model tiny --cluster dgx --plan -
