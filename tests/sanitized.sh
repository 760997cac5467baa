#!/bin/sh
# The golden files once more, by programs built with SAN=1, where there are some.
set -u

cd "$(dirname "$0")/.." || exit 1
sanitized=${BUILD:-build}/san
if [ ! -x "$sanitized/tdp-plan" ]; then
  echo "skip sanitized: not built (make SAN=1)"
  exit
fi
if log=$(GOLDEN_TIMEOUT=280 BUILD=$sanitized PATH=$sanitized:$PATH tests/golden.sh); then
  echo "ok sanitized golden files"
else
  echo "$log"
fi
