# What states on the host free is not held where the search took them by itself: in text, page and JSON.
ask="tdp-plan --model opt-13b --cluster dgx-2 --gpus 1 --framework deepspeed --precision fp16 --global-batch 16 --top 1"
$ask --report $TMP/plan.md 2>/dev/null | sed -n '/^What the search held/,$p'
grep -c -e '--space offload' $TMP/plan.md
$ask --json 2>/dev/null | grep -c -e '--space offload' || true
