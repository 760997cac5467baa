printf '{"gpus": 48, "global_batch_size": 48, "data_parallel_size": 48, "precision": "fp16"}' >$TMP/p.json; tdp-sim --model gpt2-xl --cluster a100-v100-mixed --plan $TMP/p.json
