echo '{"gpus": 8, "global_batch_size": 64, "recompute_granularity": "selective"}' >$TMP/plan.json
tdp-sim --model llama-2-7b --cluster dgx-a100-80gb --plan $TMP/plan.json >/dev/null
