#!/bin/sh
# Whole runs on the emulated CUDA device (make EMULATED=1): what a step says of the time that it communicates and of
# its memory, steps longer than the watch's patience, a rank that hangs, kernels that are loaded late, few queues.
set -u

run=$BUILD/emulated/tdp-run
if [ ! -x "$run" ]; then
  echo "skip runs on the emulated device: not built"
  exit 0
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export EMULATED_TIMEOUT_S=20

model() { # model NAME MORE: two layers, and what else it has
  echo "{ \"name\": \"$1\", \"source\": \"made up\", \"layers\": 2, \"hidden\": 32, \"heads\": 4, \"vocab\": 64, \"seq\": 16,
    \"norm\": \"layernorm\", \"positions\": \"learned\", \"tied_embeddings\": true, \"dropout\": false, $2 }" >"$work/$1.json"
}
plan() { # plan NAME GPUS KEYS
  echo "{ \"gpus\": $2, \"global_batch_size\": 4, \"micro_batch_size\": 1, \"precision\": \"fp32\",
    \"framework\": \"tdp-run\", $3 }" >"$work/$1.json"
}
start() { # start RANKS MODEL PLAN ARGS...: output in $work/out and $work/err
  ranks=$1 files="-m $work/$2.json -c cpu -p $work/$3.json"
  shift 3
  # shellcheck disable=SC2086 # several words
  PORT=$((28900 + $$ % 1000)) timeout -k 1 120 tests/ranks "$ranks" "$run" --backend cuda $files "$@" \
    >"$work/out" 2>"$work/err"
}
judge() { # judge NAME STATUS: 0 = as it should be
  if [ "$2" -eq 0 ]; then
    echo "ok $1"
  else
    echo "not ok $1"
    cat "$work/out" "$work/err"
  fi
}

# shares NAME KEYS: of the measured step's breakdown KEYS are above 0, the other communication in passes is 0, and all
# parts add up to the step.
shares() {
  awk -v wanted=" $2 " '
    /"measured": / { measured = 1 }
    measured && /"iteration_s"/ { split($0, part, "[:,]"); step = part[2] }
    measured && /"breakdown"/ { inside = 1; next }
    inside && /}/ { inside = measured = 0 }
    inside {
      split($0, part, "[\":,]+")
      sum += part[3]
      if (part[2] ~ /^(tensor|context|expert)_comm_s/ && (part[3] > 0) != (index(wanted, " " part[2] " ") > 0)) {
        print part[2], part[3]
        wrong = 1
      }
      if (part[3] < 0) wrong = 1
    }
    END { d = sum - step; exit !(step > 0 && !wrong && d < 1e-6 * step && d > -1e-6 * step) }' "$work/out"
  judge "exposed communication of $1" $?
}

# What tasks held at most, within what the device handed out; at least half of what it handed out was theirs.
memory() {
  awk '
    function number(line) { split(line, part, "[:,]"); return part[2] }
    /"used_bytes"/ { used = number($0) }
    /"reserved_bytes"/ { reserved = number($0) }
    /"device_bytes"/ { device = number($0) }
    /"measured": / { measured = 1 }
    measured && peak == "" && /"peak_memory_bytes"/ { peak = number($0) }
    END { exit !(peak > 0 && used >= 0.9 * peak && used < 2 * peak && reserved >= used && device > reserved) }' "$work/out"
  judge "memory by the device of $1" $?
}

dense='"mlp": "gelu", "bias": true'
model dense "$dense"
model moe '"mlp": "gelu", "bias": false, "experts": 4, "experts_per_token": 2, "expert_ffn_hidden": 32'
plan one 1 '"zero_stage": 0'
plan tp2 2 '"tensor_model_parallel_size": 2, "sequence_parallel": true'
plan tp2-beside 2 '"tensor_model_parallel_size": 2, "overlap": { "tensor": true }'
plan cp2 2 '"context_parallel_size": 2'
plan ep2 2 '"expert_model_parallel_size": 2'
plan chimera2 2 '"pipeline_model_parallel_size": 2, "pipeline_schedule": "chimera"'
plan pp2 2 '"pipeline_model_parallel_size": 2, "pipeline_schedule": "1f1b"'

while read -r model plan keys; do
  if start 2 "$model" "$plan" --steps 2 --json; then
    shares "$plan" "$keys"
  else
    judge "exposed communication of $plan" 1
  fi
done <<END
dense tp2 tensor_comm_s
dense tp2-beside tensor_comm_s
dense cp2 context_comm_s
moe ep2 expert_comm_s
dense pp2
END
start 1 dense one --steps 2 --json
memory one

# Kernels of 60 ms, which run while the host waits: for more than 6 s, in which they alone show that something moves.
EMULATED_ORDER=lazy EMULATED_DELAY_MS=60 start 1 dense one --steps 1 --json &&
  awk -F '[:,]' '/"measured": / { inside = 1 } inside && /"iteration_s"/ { step = $2; exit } END { exit !(step > 6) }' \
    "$work/out"
judge "a step of more than 6 s" $?

# Kernels that are loaded at their first launch wait for all that runs: nothing that waits for others may run before.
CUDA_MODULE_LOADING=LAZY start 2 dense pp2 --steps 2
judge "kernels loaded late, with a pipeline" $?

# Each rank sends before it receives: a first message would hold both.
start 2 dense chimera2 --steps 2
judge "ranks that send to each other first" $?

CUDA_DEVICE_MAX_CONNECTIONS=2 start 2 dense pp2 --steps 1
! grep -q '^step' "$work/err" && grep -q 'streams: more than 2 at once' "$work/err"
judge "too few queues for the streams" $?

EMULATED_ORDER=lazy start 2 dense pp2 --steps 3 --fault hang:1:20
[ $? -ne 0 ] && grep -q 'tdp-run: rank 1 hangs: nothing has moved for 6 s' "$work/err"
judge "a rank that hangs" $?
