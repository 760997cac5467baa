#!/bin/sh
# The files of accuracy/ are what the case files of tests/validation give, and their intervals hold of publishers that
# were left out; docs/accuracy.md has what they print. All from one validation. usage: accuracy.sh
set -u
export PATH=${BUILD:-build}:$PATH
unset TDP_DATA
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export FIGURES="$work"

if ! tests/bench/validated 1 >/dev/null 2>"$work/err"; then
  echo "not ok accuracy-files: $(cat "$work/err")"
elif diff -r accuracy "$work/accuracy" >"$work/diff"; then
  echo "ok accuracy-files"
else
  echo "not ok accuracy-files: run make accuracy, and read how the files differ"
  cat "$work/diff"
fi

# Coverage of the interval of a level lies within two points of it.
covers() {
  awk -v level="$1" -v key="\"$2\":" '
    $1 == "\"level\":" { here = $2 + 0 == level }
    here && $1 == key { found = 1; off = $2 - 100 * level; if (off < -2 || off > 2) bad = $2 }
    END { exit !found || bad }' accuracy/time.json
}
for level in 0.8 0.9; do
  for key in coverage_pct_left_out coverage_pct_left_out_publishers_alike; do
    if covers "$level" "$key"; then echo "ok accuracy-$level-$key"
    else echo "not ok accuracy-$level-$key: more than two points off in accuracy/time.json"; fi
  done
done

# The comment on TIE_SHARE cites the medians of pairs.
absent=$(awk '$1 == "\"median\":" { printf "%.1f %%\n", 100 * $2 }' accuracy/differences.json |
  while read -r median; do
    sed -n '/Share of a step within/,/#define TIE_SHARE/p' src/search/search.h | grep -qF "$median" || echo "$median"
  done)
if [ -z "$absent" ]; then echo "ok accuracy-ties"
else echo "not ok accuracy-ties: src/search/search.h does not cite" $absent; fi

tests/figures.sh docs/accuracy.md
