#!/bin/sh
# The table of operations in docs/executor.md is what the sources and the results of
# GPUs say, and both backends have every operation.
set -u

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

tests/operations >"$work/made"
awk '/^<!-- end of operations/ { on = 0 } on { print } /^<!-- operations: / { on = 1 }' docs/executor.md >"$work/written"
if cmp -s "$work/made" "$work/written"; then
  echo "ok operations: $(grep -c '^| `' "$work/made") in docs/executor.md"
else
  echo "not ok operations: docs/executor.md differs, see tests/operations --rewrite"
  diff "$work/written" "$work/made"
fi
if grep 'not implemented' "$work/made"; then
  echo "not ok operations: a backend lacks one"
else
  echo "ok operations: implemented by both backends"
fi
