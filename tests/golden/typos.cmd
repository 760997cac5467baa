# Slips of the hand, and what is answered.
ask() { echo "\$ $*"; "$@" 2>&1 >"$TMP/out" | sed 1q; }
p() { printf '{ "gpus": 8, %s }' "$1" >"$TMP/plan.json"; ask tdp-sim --model tiny --cluster dgx --plan "$TMP/plan.json"; }
m() { printf '{ %s }' "$1" >"$TMP/model.json"; ask tdp-plan --model "$TMP/model.json" --cluster dgx; }
q() { ask tdp-plan --model tiny --cluster dgx "$@"; }
r() { ask tdp-plan --cluster dgx "$@"; }
s() { ask tdp-plan --model tiny "$@"; }
r --model llama3-8b
r --model gtp3
r --model mixtral-8x7
r --model qwen3-30b
s --cluster dgx-h10
s --cluster azure-nd96
s --cluster h1000
q --glbal-batch 8
q --gpu 8
q --top3
q --global-batch 8x
q --seq 8kk
q --fix tpp=8
q --fix tp=eight
q --fix recompute=ful
q --fix schedule=1f2b
q --fix dispatcher=deeppe
q --framework megatorn-core
q --space ofload
q --question trainin
q --list model
p '"tensor_paralel_size": 2'
p '"pipeline_schedule": "1fb1"'
p '"precision": "bf61"'
p '"recompute_granularity": "ful"'
p '"optimizer": "adamv"'
p '"overlap": { "gradient": true }'
p '"framework": "mgatron-core"'
m '"layers": 2, "hiden": 64'
m '"model_type": "lama"'
ask tdp-sim --model tiny --cluster dgx --plan tiny-1fb1
ask tdp-sim --model tiny --cluster dgx --plan tiny-1f1b --export megtron=x.sh
q --nodes 4
q --tp 8
q --sequence-length 4k
q --exact=no
q --gpus 8 -g 16
q --gpus 8 --gpus=8 --top 3 --top 1 --exakt
q --fix tp=8 --fix pp=2
q --plots --exact
q --output --help
q --colour
r --model meta-llama/Llama-3.1-8B
s --cluster tpu-v5
q --fix tensor_parallel=8
q --framework megatron-lm
q --question fewest-gpu
q --export megatorn=x.sh
q --memory-margin 110%
cp tests/validation/b200.csv "$TMP/cases.csv"
ask tdp-validate --csv --rows "$TMP/cases.csv"
ask tdp-validate --csv "$TMP/cases.csv" "$TMP/cases.csv"
cmp tests/validation/b200.csv "$TMP/cases.csv"
ask tdp-validate --write-baseline "$TMP/cases.csv" tests/validation/b200.csv
ask tdp-plan --cluster dgx --improve "$TMP/none.sh" --script-args --seq=4096
ask tdp-plan -m -c dgx
ask tdp-plan --report -m tiny -c dgx
ask tdp-plan -m tiny -c -h
ask tdp-plan -m tiny -c dgx -g --json
