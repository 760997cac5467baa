#!/bin/bash
# A search that is killed at any moment and run again from its state ends in the
# same bytes: 50 kills at moments drawn from a fixed seed. usage: search-resume.sh
set -u
export PATH=${BUILD:-build}:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
state=$work/state
command=(tdp-plan --model gpt3 --cluster dgx --gpus 64 --global-batch 64 --fix tp=8 --top 40 --threads 1 --json --state "$state")
plan() { "${command[@]}" 2>"$work/err"; }

begin=$(date +%s%N)
plan >"$work/whole" || { echo "not ok search-resume: $(cat "$work/err")"; exit 1; }
length_us=$(( ($(date +%s%N) - begin) / 1000 ))

begun=0 unfinished=0
moments=$(awk -v n=50 -v us=$length_us 'BEGIN { srand(7); while (n-- > 0) printf "%.6f\n", rand() * us / 1e6 }')
for moment in $moments; do
  rm -f "$state"
  { timeout -s KILL "$moment" "${command[@]}" >"$work/cut"; } 2>/dev/null
  cmp -s "$work/cut" "$work/whole" || unfinished=$((unfinished + 1))
  [ -s "$state" ] && begun=$((begun + 1))
  plan >"$work/again" || { echo "not ok search-resume: after $moment s: $(cat "$work/err")"; exit 1; }
  cmp -s "$work/again" "$work/whole" || { echo "not ok search-resume: after $moment s: other bytes"; exit 1; }
done
echo "ok search-resume ($unfinished of 50 killed before their end, $begun with a state)"
