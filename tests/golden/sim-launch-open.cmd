# What another tool's file leaves open is said where it is simulated as well, with what of it is not simulated; GPUs that nobody counted are said beside JSON, too.
tdp-sim --cluster dgx-h100 --plan tests/data/launch/llama3_8b.toml --json | jq '.plan.gpus, .notes[0]'
tdp-plan --cluster dgx-h100 --improve tests/data/launch/llama3_8b.toml --json | jq .own.plan.gpus
tdp-plan --cluster dgx-h100 --improve tests/data/launch/llama3_8b.toml --gpus 16 --json | jq .own.plan.gpus
tdp-plan --cluster dgx-h100 --model llama-3.2-1b --improve tests/data/launch/zero2.json --json | jq .own.plan.gpus
