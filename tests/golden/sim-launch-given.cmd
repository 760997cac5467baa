# What another tool's file leaves open is told beside it: GPUs, tokens of a sequence, what a script is started with; a file that says it itself is not overruled.
tdp-sim --cluster dgx-h100 --plan tests/data/launch/llama3_8b.toml --gpus 16 --json 2>$TMP/notes | jq '.plan.gpus, (.notes | map(select(test("gpus"))))'
tdp-sim --cluster dgx-h100 --model llama-3.2-1b --plan tests/data/launch/zero2.json --gpus 8 --seq 4k --json 2>>$TMP/notes | jq '.plan.gpus, .plan.seq_length'
printf 'MICRO=$1\npretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --micro-batch-size $MICRO --bf16\n' >$TMP/run.sh
tdp-sim --cluster dgx-h100 --plan $TMP/run.sh --gpus 8 --script-args 4 --json 2>>$TMP/notes | jq .plan.micro_batch_size
tdp-sim --cluster dgx-h100 --plan - --gpus 4 --json <tests/data/launch/llama3_8b.toml 2>>$TMP/notes | jq .plan.gpus
tdp-sim --cluster dgx --model gpt3 --plan gpt3-128 --gpus 64
tdp-sim --cluster dgx --model gpt3 --plan gpt3-128 --seq 4096
tdp-sim --cluster dgx-h100 --plan tests/data/launch/llama3_8b.toml --script-args 4
tdp-sim --cluster dgx-h100 --plan tests/data/launch/llama3_8b.toml --gpus 5
