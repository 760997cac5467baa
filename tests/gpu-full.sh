#!/bin/sh
# tests/gpu/full without a GPU: its bundle and some of its steps on the CPU at small sizes, with a step that fails, one
# that hangs, and a kill.
set -u

for program in tdp-run tdp-calibrate tdp-sim gpu-kernels; do
  if [ ! -x "$BUILD/$program" ]; then
    echo "skip gpu-full: no $program"
    exit 0
  fi
done
BACKEND=cpu PYTHON=false ONLY='device|kernels|training-fp32|plan-gpt2-32' tests/gpu/full rehearse "$BUILD"
