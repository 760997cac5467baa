#!/bin/sh
# fp16 on the emulated CUDA device (make EMULATED=1): that it follows fp32 on cores where gradients are too small for
# fp16 unless the loss is scaled, and that steps with overflows are skipped on all ranks. STEPS (2).
set -u

if [ ! -x "$BUILD/emulated/tdp-run" ] || [ ! -x "$BUILD/emulated/tests/mpi/scaling" ]; then
  echo "skip fp16 on the emulated device: not built"
  exit 0
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export EMULATED_TIMEOUT_S=120 OPENBLAS_NUM_THREADS=1

# Probabilities of 2^-14 over 2^12 tokens: of the logits' gradients fp16 holds the labels' alone.
echo '{ "name": "wide", "source": "made up", "layers": 1, "hidden": 16, "heads": 1, "vocab": 16384, "seq": 16,
  "norm": "layernorm", "positions": "learned", "tied_embeddings": true, "dropout": false }' >"$work/wide.json"
for precision in fp32 fp16; do
  echo "{ \"gpus\": 1, \"global_batch_size\": 256, \"micro_batch_size\": 4, \"framework\": \"tdp-run\",
    \"precision\": \"$precision\" }" >"$work/$precision.json"
done

train() { # train PROGRAM BACKEND CLUSTER PRECISION NAME ARGS...
  program=$1 backend=$2 cluster=$3 precision=$4 name=$5
  shift 5
  "$program" --backend "$backend" -m "$work/wide.json" -c "$cluster" -p "$work/$precision.json" --steps "${STEPS:-2}" \
    --rate 0.06 --json "$@" >"$work/$name" 2>"$work/$name.err" || cat "$work/$name.err"
}

# values KEY REPORT
values() { awk -F '[:,]' -v key="\"$1\"" '$1 ~ key { print $2 }' "$work/$2"; }

# far REPORT: from fp32 on cores, the largest difference of losses, and that of the first step's norm, in which Adam has
# not yet amplified what fp16 rounds
far() {
  values loss "$1" >"$work/loss" && values loss fp32 | paste - "$work/loss" | awk -v steps="${STEPS:-2}" '
    { d = $1 / $2 - 1; d = d < 0 ? -d : d; if (!(d <= worst)) worst = d; n++ }
    END { printf "%.1e ", n == steps ? worst : 1 }'
  values grad_norm "$1" >"$work/norm" && values grad_norm fp32 | paste - "$work/norm" | head -n 1 | awk '
    { d = $1 / $2 - 1; printf "%.1e", d < 0 ? -d : d }'
}

train "$BUILD/tdp-run" cpu cpu fp32 fp32
train "$BUILD/emulated/tdp-run" cuda dgx fp16 scaled
train "$BUILD/emulated/tdp-run" cuda dgx fp16 plain --loss-scale 1
scaled=$(far scaled) plain=$(far plain)
said="fp16 follows fp32: losses within and first norm off by $scaled, without a loss scale $plain"
if echo "$scaled $plain" | awk '{ exit !(NF == 4 && $1 < 1e-4 && $2 < 5e-4 && $3 > 1e-3 && $4 > 5e-3) }'; then
  echo "ok $said"
else
  echo "not ok $said"
fi

skips() { # skips TEXT: plans of tests/mpi/scaling.c with it in their name
  if PORT=$((28700 + $$ % 1000)) tests/ranks 2 "$BUILD/emulated/tests/mpi/scaling" cuda fp16 "$1" >"$work/out" 2>"$work/err"; then
    echo "ok fp16 skips, $(head -n 1 "$work/out")"
  else
    echo "not ok fp16 skips, $1"
    cat "$work/out" "$work/err"
  fi
}
skips "ZeRO-1, optimizer on the host"
skips "early"
