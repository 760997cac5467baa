#!/bin/sh
# Files that are wrong in 180 ways drawn from a seed, over every kind of file: refused in one line that names the key, or
# taken, and nothing else (tests/bench/bench_refusals.c; make refusals tries 10,000). usage: refusals.sh
set -u

cd "$(dirname "$0")/.." || exit 1
if [ ! -x "$BUILD/bench/refusals" ]; then
  echo "skip refusals: not built (make build-tests)"
  exit
fi
if said=$("$BUILD/bench/refusals" "$BUILD" "${REFUSALS:-180}"); then echo "ok refusals: $(echo "$said" | tail -n 1)"
else echo "not ok refusals: $said"; fi
