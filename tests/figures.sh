#!/bin/sh
# Blocks of Markdown that commands print: tests/figures.sh [--rewrite] [FILE...]
#
# A block behind a line `<!-- $ COMMAND -->` is what COMMAND prints, run by sh from
# the root of the tree with the programs of $BUILD (build) and tests/bench in PATH.
# One that begins with `<!-- slow $` is only run by --rewrite, which writes all
# blocks from what is printed; read the diff. Without FILE: all that have blocks, but to compare docs/accuracy.md, for
# which tests/accuracy.sh has all runs validated already. What commands keep for each other is kept in $FIGURES, if set.
set -u

REWRITE=
if [ "${1-}" = --rewrite ]; then
  REWRITE=yes
  shift
fi
cd "$(dirname "$0")/.." || exit 1
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
found=$(mktemp -d) || exit 1
trap 'rm -rf "$found"' EXIT
export BUILD FIGURES="${FIGURES:-$found}" PATH="$BUILD:$PWD/tests/bench:$PATH" LC_ALL=C NO_COLOR=1
unset TDP_DATA
status=0

# The file with its blocks as commands print them; what they say otherwise goes to $found/err.
written() {
  awk -v slow="$REWRITE" -v err="$found/err" '
    skipping && /^```$/ { skipping = 0 }
    skipping { next }
    { print }
    /^<!-- (slow )?\$ .* -->$/ && (slow || !/^<!-- slow/) {
      command = $0
      sub(/^<!-- (slow )?\$ /, "", command)
      sub(/ -->$/, "", command)
      next
    }
    command && /^```/ {
      fflush()
      if (system("(" command ") 2>>" err) != 0) print "failed: " command >>err
      command = ""
      skipping = 1
    }' "$1"
}

if [ $# -eq 0 ]; then
  # shellcheck disable=SC2046
  set -- $(grep -lE '^<!-- (slow )?\$ ' ./*.md docs/*.md src/*/*.md | grep -vxF "${REWRITE:-docs/accuracy.md}")
fi
for file in "$@"; do
  : >"$found/err"
  written "$file" >"$found/new"
  if [ -s "$found/err" ]; then
    echo "not ok figures $file: a command failed, or spoke"
    cat "$found/err"
    status=1
  elif [ -n "$REWRITE" ]; then
    cmp -s "$found/new" "$file" || cp "$found/new" "$file"
  elif diff -u --label "$file" --label found "$file" "$found/new"; then
    echo "ok figures $file: $(grep -cE '^<!-- \$ ' "$file") blocks"
  else
    echo "not ok figures $file: make figures rewrites it"
    status=1
  fi
done
exit $status
