#!/bin/sh
# Pages of docs/ that programs print: tests/pages.sh [--rewrite] [NAME...]
#
# $BUILD/pages/NAME prints docs/NAME.md. --rewrite writes the pages from what is
# printed; read the diff.
set -u

REWRITE=
if [ "${1-}" = --rewrite ]; then
  REWRITE=yes
  shift
fi
cd "$(dirname "$0")/.." || exit 1
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
export LC_ALL=C NO_COLOR=1
unset TDP_DATA
found=$(mktemp) || exit 1
trap 'rm -f "$found" "$found.err"' EXIT
status=0

if [ $# -eq 0 ]; then
  for page in tests/pages/page_*.c; do
    name=${page#tests/pages/page_}
    set -- "$@" "${name%.c}"
  done
fi
for name in "$@"; do
  if ! timeout -k 10 240 "$BUILD/pages/$name" >"$found" 2>"$found.err"; then
    echo "not ok page $name: failed"
    cat "$found.err"
    status=1
    if [ ! -s "$found" ]; then continue; fi
  elif [ -n "$REWRITE" ]; then
    cp "$found" "docs/$name.md"
  fi
  if diff -u --label "docs/$name.md" --label found "docs/$name.md" "$found"; then
    echo "ok page $name"
  else
    echo "not ok page $name: differs from docs/$name.md (make pages rewrites it)"
    status=1
  fi
done
exit $status
