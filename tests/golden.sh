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

# Replaces paths in a file by names, where they are in it; no character of either is special.
hide() { # FILE PATH NAME...
  file=$1
  shift
  path=$1 name=$2 other=$3 other_name=$4 awk '
    function hidden(text, path, name,    out, at) {
      while (at = index(text, path)) {
        out = out substr(text, 1, at - 1) name
        text = substr(text, at + length(path))
      }
      return out text
    }
    { print hidden(hidden($0, ENVIRON["path"], ENVIRON["name"]), ENVIRON["other"], ENVIRON["other_name"]) }
  ' "$file" >"$file.new" && mv "$file.new" "$file"
}

# Keeps a file as the expected one, or removes that where its absence says as much.
keep() {
  if [ -s "$1" ]; then cp "$1" "$2"; else rm -f "$2"; fi
}

# Compares with the expected file; prints how they differ.
same() {
  if [ -f "$1" ]; then diff -u --label "$1" --label found "$1" "$2"
  elif [ ! -s "$2" ]; then return 0
  else diff -u --label "$1 (no such file)" --label found /dev/null "$2"; fi
}

# One test; its output is left in $GOLDEN/NAME.log, its own files in $GOLDEN/NAME/.
run_one() {
  expected=tests/golden/$1
  mkdir -p "$GOLDEN/$1/tmp" || exit 1
  found=$GOLDEN/$1/found
  TMP=$GOLDEN/$1/tmp timeout -k 10 "${GOLDEN_TIMEOUT:-120}" sh "$expected.cmd" \
    >"$found.out" 2>"$found.err" </dev/null
  status=$?
  if [ "$status" -eq 0 ]; then : >"$found.rc"; else echo "$status" >"$found.rc"; fi
  grep -lF -e "$GOLDEN/$1/tmp" -e "$PWD" "$found.out" "$found.err" | while read -r stream; do
    hide "$stream" "$GOLDEN/$1/tmp" "\$TMP" "$PWD" "\$ROOT"
  done
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
    name=${cmd##*/} name=${name%.cmd}
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
  if [ ! -f "$GOLDEN/$name.log" ]; then echo "not ok $name: was not run" >"$GOLDEN/$name.log"; fi
done
(cd "$GOLDEN" && printf '%s.log\n' "$@" | xargs cat) >"$GOLDEN/all"
cat "$GOLDEN/all"
! grep -q '^not ok' "$GOLDEN/all"
