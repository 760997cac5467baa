#!/bin/sh
# Golden files once more, by programs built with SAN=1, where there are some: all of refusals; of the others those that
# together show each option of each program and each value of options that choose; and each STRIDE-th (4) of the rest
# but long searches. STRIDE=1: all.
set -u

cd "$(dirname "$0")/.." || exit 1
sanitized=${BUILD:-build}/san
if [ ! -x "$sanitized/tdp-plan" ]; then
  echo "skip sanitized: not built (make SAN=1)"
  exit
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

for cmd in tests/golden/*.cmd; do
  name=${cmd##*/}
  case ${name%.cmd} in
  bad-*) list=refusals ;;
  run-*) if [ -x "$sanitized/tdp-run" ]; then list=short; else continue; fi ;;
  plan-rules | plan-margin | plan-refine-order | plan-why-not-faster | plan-layerwise | plan-ties-dispatchers) list=longest ;;
  plan-margin-note | plan-host-note | plan-jitter | plan-largest | plan-drawn | plan-improve-python | plan-lost-nodes)
    list=long ;;
  *) list=short ;;
  esac
  echo "$cmd" >>"$work/$list"
done

# Files that show what none before them does; long ones come last.
# shellcheck disable=SC2046 # a word a file
awk '
  function show(what) {
    if (what in shown) return
    shown[what]
    if (!(FILENAME in taken)) print FILENAME
    taken[FILENAME]
  }
  {
    program = ""
    n = split($0, word, /[^A-Za-z0-9_.-]+/)
    for (i = 1; i <= n; i++)
      if (word[i] ~ /^tdp-[a-z]+$/) show(program = word[i])
      else if (word[i] ~ /^--?[a-z]/) {
        show(program " " word[i])
        if (word[i] ~ /^--(question|fix|space|objective|pareto|export|precision|framework)$/)
          show(word[i] " " word[i + 1])
      }
  }' $(cat "$work/short" "$work/long") >"$work/taken"
if [ "${STRIDE:-4}" = 1 ]; then cat "$work/long" "$work/longest" >>"$work/taken"; fi
grep -vxFf "$work/taken" "$work/short" | tests/sample 4 tests/golden/*.cmd >"$work/more"
# shellcheck disable=SC2046
set -- $(sort -u "$work/refusals" "$work/taken" "$work/more" | sed 's|.*/||; s|\.cmd$||')
if log=$(GOLDEN_TIMEOUT=280 BUILD=$sanitized PATH=$sanitized:$PATH tests/golden.sh "$@"); then
  echo "ok sanitized golden files: $# of $(cat "$work/refusals" "$work/short" "$work/long" "$work/longest" | wc -l)"
else
  echo "$log"
fi
