# What is explained is the file's plan, and the one that is written where that is another; a refused plan is not.
tdp-plan --cluster dgx-h100 --improve tests/data/launch/llama-1b.log --explain | grep -E '^(Why|Communication): '
tdp-plan --cluster dgx-h100 --improve tests/data/launch/llama-1b.log --explain --json | jq -c '[.explain_own, .explain] | map([.communication[] | select(.for == "parameters") | .ranks])'
tdp-plan --cluster dgx-h100 --improve tests/data/launch/llama-1b.log --json | jq -c '[.explain_own, .explain]'
printf '{"gpus": 8, "global_batch_size": 16, "tensor_model_parallel_size": 3}' >$TMP/p.json
tdp-plan --cluster dgx --model tiny --improve $TMP/p.json --explain --json | jq -c '[.refused != null, .explain_own, (.explain.why | length > 0)]'
