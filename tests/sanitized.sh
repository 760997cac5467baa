#!/bin/sh
# The golden files once more, by programs built with SAN=1, where there are some: all but long searches whose options
# others have too.
set -u

cd "$(dirname "$0")/.." || exit 1
sanitized=${BUILD:-build}/san
if [ ! -x "$sanitized/tdp-plan" ]; then
  echo "skip sanitized: not built (make SAN=1)"
  exit
fi
for cmd in tests/golden/*.cmd; do
  name=$(basename "$cmd" .cmd)
  case $name in
  plan-rules | plan-margin | plan-refine-order | plan-why-not-faster | plan-layerwise | plan-ties-dispatchers) ;;
  run-*) if [ -x "$sanitized/tdp-run" ]; then set -- "$@" "$name"; fi ;;
  *) set -- "$@" "$name" ;;
  esac
done
if log=$(GOLDEN_TIMEOUT=280 BUILD=$sanitized PATH=$sanitized:$PATH tests/golden.sh "$@"); then
  echo "ok sanitized golden files"
else
  echo "$log"
fi
