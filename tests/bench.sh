#!/bin/sh
# Instruction counts of fixed runs, so that speed is not lost by accident.
#
# tests/bench/instructions.txt has a line for each: the count under cachegrind
# and the command, plain words, which runs at the root of the tree with the programs and the
# build folder's bench/ in PATH. A count may be off by 5 %, either way: lower
# ones are to be noted too. To add a run, write its line with the count 0; after
# `tests/bench.sh --rewrite` the counts are those of this build.
#
# Counts hold for one compiler and its flags, named in the file's first line;
# with others, or without valgrind, the runs are skipped.
set -u

cd "$(dirname "$0")/.." || exit 1
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
list=tests/bench/instructions.txt
PATH=$BUILD/bench:$BUILD:$PATH
compiler="# compiler: $($(head -n 1 "$BUILD/flags") --version | head -n 1), $(grep -xE -- '-O.*|-fsanitize=.*' "$BUILD/flags" | paste -sd ' ')"

# shellcheck disable=SC2086 # a command of plain words
count() {
  valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null $1 2>&1 >/dev/null </dev/null |
    awk '/ I +refs:/ { n = $NF; gsub(",", "", n) } END { print n + 0 }'
}

if ! command -v valgrind >/dev/null; then
  echo "skip bench: no valgrind"
  exit
fi
if [ "${1-}" = --rewrite ]; then
  {
    echo "$compiler"
    grep -v '^#' "$list" | while read -r _ run; do printf '%12s  %s\n' "$(count "$run")" "$run"; done
  } >"$list.tmp" && mv "$list.tmp" "$list"
  exit
fi
if [ "$compiler" != "$(head -n 1 "$list")" ]; then
  echo "skip bench: counts are of another compiler: $(head -n 1 "$list")"
  exit
fi
failed=0
while read -r expected run; do
  case $expected in \#*) continue ;; esac
  found=$(count "$run")
  if awk -v a="$found" -v b="$expected" 'BEGIN { exit !(a >= 0.95 * b && a <= 1.05 * b && a > 0) }'; then
    echo "ok bench: $run: $found instructions"
  else
    echo "not ok bench: $run: $found instructions, expected $expected within 5 %"
    failed=1
  fi
done <"$list"
exit $failed
