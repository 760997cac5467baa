#!/bin/sh
# Every fuzz target without libFuzzer: its seeds and what has been found, cut and changed in fixed ways
# (tests/fuzz/replay.c), by programs built with SAN=1. RUNS (50): changes of each file.
set -u

cd "$(dirname "$0")/.." || exit 1
build=$(cd "${BUILD:-build}" && pwd)/san
[ -x "$build/fuzz-model" ] || build=${BUILD:-build}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1
export G_DEBUG=fatal-criticals G_SLICE=always-malloc

while IFS='|' read -r head seeds; do
  name=${head%% *}
  case $name in '#' | '') continue ;; esac
  if [ ! -x "$build/fuzz-$name" ]; then
    echo "skip fuzz-$name: not built (make SAN=1 fuzzers)"
    continue
  fi
  # shellcheck disable=SC2086
  set -- $seeds
  for found in tests/fuzz/corpus/"$name"/*; do
    if [ -f "$found" ]; then set -- "$@" "$found"; fi
  done
  leaks=1
  [ "$name" != control ] || leaks=0 # what ends a process frees nothing
  if ASAN_OPTIONS=abort_on_error=1:detect_leaks=$leaks "$build/fuzz-$name" -runs="${RUNS:-50}" -keep="$build/fuzz-$name.crash" "$@" >"$tmp/log" 2>&1; then
    echo "ok fuzz-$name"
  else
    echo "not ok fuzz-$name: $(grep -m 1 -E 'ERROR|SUMMARY|runtime error|CRITICAL|cannot be read' "$tmp/log")"
    tail -n 40 "$tmp/log"
  fi
done <tests/fuzz/targets
