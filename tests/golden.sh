#!/bin/sh
# Golden tests: tests/golden.sh [--rewrite] [NAME...]
#
# tests/golden/NAME.cmd is a command line, run by sh from the root of the tree
# with the programs of $BUILD (build) in PATH; what it prints must be NAME.out
# on stdout, NAME.err on stderr (nothing where there is no such file), and its
# exit status the one in NAME.rc (0). $TMP is an empty folder for files that it
# writes. Paths of the tree and of $TMP are compared as $ROOT and $TMP.
# --rewrite writes those files from what is printed; read the diff.
set -u

# Replaces a path in a file by a name; no character of either is special.
hide() {
  path=$1 name=$2 awk '{
    out = ""
    while (at = index($0, ENVIRON["path"])) {
      out = out substr($0, 1, at - 1) ENVIRON["name"]
      $0 = substr($0, at + length(ENVIRON["path"]))
    }
    print out $0
  }' "$3" >"$3.new" && mv "$3.new" "$3"
}

# Keeps a file as the expected one, or removes that where its absence says as much.
keep() {
  if [ -s "$1" ]; then cp "$1" "$2"; else rm -f "$2"; fi
}

# Compares with the expected file; prints how they differ.
same() {
  if [ -f "$1" ]; then diff -u --label "$1" --label found "$1" "$2"
  else diff -u --label "$1 (no such file)" --label found /dev/null "$2"; fi
}

# One test; its output is left in $GOLDEN/NAME.log, its own files in $GOLDEN/NAME/.
run_one() {
  expected=tests/golden/$1
  mkdir "$GOLDEN/$1" "$GOLDEN/$1/tmp" || exit 1
  found=$GOLDEN/$1/found
  TMP=$GOLDEN/$1/tmp timeout -k 10 "${GOLDEN_TIMEOUT:-120}" sh "$expected.cmd" \
    >"$found.out" 2>"$found.err" </dev/null
  echo $? >"$found.rc"
  for stream in out err; do
    hide "$GOLDEN/$1/tmp" "\$TMP" "$found.$stream"
    hide "$PWD" "\$ROOT" "$found.$stream"
  done
  if [ "$(cat "$found.rc")" = 0 ]; then : >"$found.rc"; fi
  differs=
  for part in out err rc; do
    if [ -n "$REWRITE" ]; then keep "$found.$part" "$expected.$part"; fi
    same "$expected.$part" "$found.$part" >>"$found.diff" || differs="$differs .$part"
  done
  if [ -z "$differs" ]; then echo "ok $1"
  else
    echo "not ok $1: differs from$differs"
    cat "$found.diff"
  fi >"$GOLDEN/$1.log"
}

if [ "${1-}" = --one ]; then
  run_one "$2"
  exit
fi

REWRITE=
if [ "${1-}" = --rewrite ]; then
  REWRITE=yes
  shift
fi
cd "$(dirname "$0")/.." || exit 1
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
GOLDEN=$(mktemp -d) || exit 1
trap 'rm -rf "$GOLDEN"' EXIT
export REWRITE GOLDEN PATH="$BUILD:$PATH" LC_ALL=C NO_COLOR=1
unset TDP_DATA

if [ $# -eq 0 ]; then
  for cmd in tests/golden/*.cmd; do
    name=$(basename "$cmd" .cmd)
    case $name in
    run-*) if [ ! -x "$BUILD/tdp-run" ]; then echo "skip $name: no tdp-run"; continue; fi ;;
    esac
    if [ -f "$cmd" ]; then set -- "$@" "$name"; fi
  done
fi
if [ $# -eq 0 ]; then
  echo "skip golden: tests/golden has no .cmd file"
  exit 0
fi

printf '%s\n' "$@" | xargs -P "${TEST_JOBS:-$(nproc)}" -I '{}' tests/golden.sh --one '{}'
for name in "$@"; do
  cat "$GOLDEN/$name.log" || echo "not ok $name: was not run"
done >"$GOLDEN/all"
cat "$GOLDEN/all"
! grep -q '^not ok' "$GOLDEN/all"
