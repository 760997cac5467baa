#!/bin/sh
# The CUDA backend on the emulated device (make EMULATED=1): what the device finds,
# every operation in every format, events, memory and failures, data of communication,
# plans against the CPU's steps. EMULATED_TABLE=all prints all plans of the table in all
# orders of streams; otherwise some of each. STOP=1 ends with the first that fails.
set -u

cd "$(dirname "$0")/.." || exit 2
device=${BUILD:-build}/emulated
if [ ! -x "$device/selftest" ]; then
  echo "skip emulated: not built, no C++ compiler"
  exit 0
fi
export UBSAN_OPTIONS="${UBSAN_OPTIONS-halt_on_error=1:print_stacktrace=1}" ASAN_OPTIONS="${ASAN_OPTIONS-detect_leaks=0}"
export OPENBLAS_NUM_THREADS=1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
whole=${EMULATED_TABLE:-}
port=$((26000 + $$ % 4000))

judge() { # judge NAME STATUS: with the last line of the output
  if [ "$2" -eq 0 ]; then
    echo "ok $1: $(tail -n 1 "$work/out")"
    if [ "$whole" = all ]; then cat "$work/out"; fi
  else
    echo "not ok $1: exit status $2"
    cat "$work/out" "$work/err"
    [ -z "${STOP:-}" ] || exit 1
  fi
}

kernels() { # kernels ORDER SEED [SHAPES]
  EMULATED_ORDER=$1 EMULATED_SEED=$2 "$device/gpu-kernels" "$2" "${3:-20}" >"$work/out" 2>"$work/err"
  judge "operations on the emulated device, $1, seed $2" $?
}

plans() { # plans RANKS PLANS PART ORDER SEED [SEQUENCES LAYERS]
  port=$((port + 2))
  EMULATED_ORDER=$4 EMULATED_SEED=$5 PORT=$port timeout -k 1 1500 \
    tests/ranks "$1" "$device/tests/mpi/parity" "$2" "$3" cuda 2 "${6:-16}" "${7:-8}" >"$work/out" 2>"$work/err"
  judge "plans on emulated devices, $1 ranks, part $3, $4, seed $5" $?
}

promises() { # promises RANKS ORDER
  port=$((port + 2))
  EMULATED_ORDER=$2 PORT=$port timeout -k 1 300 tests/ranks "$1" "$device/tests/mpi/backend_check" cuda \
    >"$work/out" 2>"$work/err"
  judge "events, memory and failures of emulated devices, $1 ranks, $2" $?
}

messages() { # messages RANKS ORDER
  port=$((port + 2))
  EMULATED_ORDER=$2 PORT=$port timeout -k 1 300 tests/ranks "$1" "$device/tests/mpi/comm_check" cuda \
    >"$work/out" 2>"$work/err"
  judge "communication of emulated devices, $1 ranks, $2" $?
}

"$device/selftest" >"$work/selftest"
cat "$work/selftest"
promises 3 lazy
messages 1 in-order
messages 1 lazy
messages 3 random
if [ "$whole" = all ]; then
  for seed in 1 2 3 4; do kernels random $seed; done
  for order in in-order lazy others-first; do kernels $order 5; done
  for order in in-order lazy others-first random; do
    promises 2 $order
    plans 1 4 1/1 $order 6
    plans 2 16 1/1 $order 7
    plans 4 16 1/1 $order 8
  done
else
  kernels random 1 6
  plans 2 16 2/8 others-first 2 8 4
  plans 2 16 11/16 lazy 3 8 4
  plans 4 16 3/8 random 4 8 4 # the first step's buffers are not yet those of the others
fi
