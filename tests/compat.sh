#!/bin/sh
# Files as they were first written or taken (tests/compat) are still read: KIND-N.json or .csv is the N-th form of a kind
# of file. When a format gains a form, add a file as it was written before. usage: compat.sh
set -u

cd "$(dirname "$0")/.." || exit 1
export PATH="${BUILD:-build}:$PATH"
unset TDP_DATA
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

reads() { # FILE COMMAND...: the command reads the file and ends well
  file=$1
  shift
  if "$@" >"$work/out" 2>"$work/err" && [ -s "$work/out" ]; then echo "ok compat-$name"
  else echo "not ok compat-$name: $(head -n 1 "$work/err")"; fi
}

for file in tests/compat/*; do
  name=$(basename "${file%.*}")
  case $name in
  baseline-*) reads "$file" tdp-validate tests/validation/seqsel-t5.csv --baseline "$file" ;;
  calibrated-*) reads "$file" tdp-plan --model tiny --cluster "$file" ;;
  cases-*) reads "$file" tdp-validate "$file" ;;
  framework-*) reads "$file" tdp-plan --model tiny --cluster cpu --gpus 1 --framework "$file" ;;
  link-*) reads "$file" tdp-calibrate --nccl-tests tests/data/nccl-tests/v2.8-all-reduce.txt --cluster dgx --like "$file" ;;
  model-*) reads "$file" tdp-plan --model "$file" --cluster dgx --gpus 8 ;;
  operations-*) reads "$file" tdp-sim --model tiny --cluster cpu --plan tiny-single --draws 3 --operations "$file" ;;
  plan-experts-*) reads "$file" tdp-sim --model deepseek-v2 --cluster dgx-h100 --plan "$file" ;;
  plan-offload-*) reads "$file" tdp-sim --model gpt3 --cluster dgx --plan "$file" ;;
  plan-tiny-*) reads "$file" tdp-sim --model tiny --cluster cpu --plan "$file" ;;
  points-*) reads "$file" tdp-calibrate --fit "$file" ;;
  run-*) reads "$file" tdp-validate "$file" ;;
  schedule-*) reads "$file" tdp-sim --schedule "$file" ;;
  *) echo "not ok compat-$name: no command reads it" ;;
  esac
done
