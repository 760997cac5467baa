#!/bin/sh
# Files as they were first written or taken (tests/compat) are still read: KIND-N.json is the N-th form of a kind of
# file. When a format gains a form, add a file as it was written before. usage: compat.sh
set -u

cd "$(dirname "$0")/.." || exit 1
export PATH="${BUILD:-build}:$PATH"
unset TDP_DATA
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

reads() { # FILE COMMAND...: the command reads the file and ends well
  file=$1
  shift
  if "$@" >"$work/out" 2>"$work/err" && [ -s "$work/out" ]; then echo "ok compat-$(basename "$file" .json)"
  else echo "not ok compat-$(basename "$file" .json): $(head -n 1 "$work/err")"; fi
}

for file in tests/compat/*.json; do
  case $(basename "$file") in
  calibrated-*) reads "$file" tdp-plan --model tiny --cluster "$file" ;;
  model-*) reads "$file" tdp-plan --model "$file" --cluster dgx --gpus 8 ;;
  plan-experts-*) reads "$file" tdp-sim --model deepseek-v2 --cluster dgx-h100 --plan "$file" ;;
  plan-offload-*) reads "$file" tdp-sim --model gpt3 --cluster dgx --plan "$file" ;;
  plan-tiny-*) reads "$file" tdp-sim --model tiny --cluster cpu --plan "$file" ;;
  run-*) reads "$file" tdp-validate "$file" ;;
  *) echo "not ok compat-$(basename "$file"): no command reads it" ;;
  esac
done
