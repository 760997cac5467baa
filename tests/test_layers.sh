#!/bin/sh
# tests/layers passes on the tree and rejects each kind of wrong include.
set -u

cd "$(dirname "$0")/.." || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

# expect NAME TREE STATUS OUTPUT: one run of tests/layers, compared whole.
expect() {
  found=$(tests/layers "$2" 2>&1)
  status=$?
  if [ "$status" = "$3" ] && [ "$found" = "$4" ]; then
    echo "ok $1"
  else
    echo "not ok $1: exit $status, expected $3"
    printf 'expected: %s\nfound:    %s\n' "$4" "$found"
    failed=1
  fi
}

# tree NAME: a small tree of four layers, without offence; prints its path.
tree() {
  mkdir -p "$tmp/$1/src/low" "$tmp/$1/src/left/deep" "$tmp/$1/src/right" "$tmp/$1/src/high"
  printf 'low\nleft right\n\nhigh\n' >"$tmp/$1/src/LAYERS"
  echo '#include <glib.h>' >"$tmp/$1/src/low/low.h"
  printf '#include "low/low.h"\n#include "left.h"\n' >"$tmp/$1/src/left/left.c"
  printf '#include "../left.h"\n' >"$tmp/$1/src/left/deep/deep.c"
  echo '/* nothing */' >"$tmp/$1/src/left/left.h"
  echo '#include "cjson/cJSON.h"' >"$tmp/$1/src/right/right.h"
  printf '#include "left/left.h"\n#include "right/right.h"\n' >"$tmp/$1/src/high/high.h"
  echo "$tmp/$1"
}

# rejects NAME FILE INCLUDE WHY: one line, the third of FILE, is an offence.
rejects() {
  t=$(tree "$1")
  printf '/* a */\n\n%s\n' "$3" >"$t/src/$2"
  expect "$1" "$t" 1 "src/$2:3: $4"
}

expect tree . 0 ''

mkdir "$tmp/copy"
cp -R src "$tmp/copy"
low=$(awk 'NF { print $1; exit }' src/LAYERS)
high=$(awk 'NF { last = $1 } END { print last }' src/LAYERS)
echo "#include \"$high/x.h\"" >"$tmp/copy/src/$low/zz.c"
expect copy-with-upward-include "$tmp/copy" 1 \
  "src/$low/zz.c:1: $low includes $high/x.h, which is above it in src/LAYERS"

expect small-tree "$(tree small-tree)" 0 ''
rejects upward low/a.c '#include "high/high.h"' 'low includes high/high.h, which is above it in src/LAYERS'
rejects upward-in-header low/a.h '  #  include "right/right.h" /* why */' \
  'low includes right/right.h, which is above it in src/LAYERS'
rejects upward-below-folder left/deep/a.cu '#include "high/high.h"' \
  'left includes high/high.h, which is above it in src/LAYERS'
rejects sideways left/a.c '#include "right/right.h"' \
  'left includes right/right.h, which is beside it in src/LAYERS'
rejects relative left/a.c '#include "../right/right.h"' \
  'left includes ../right/right.h, which is beside it in src/LAYERS'
rejects angle-brackets low/a.c '#include <left/left.h>' \
  'low includes left/left.h, which is above it in src/LAYERS'
rejects outside high/a.c '#include "../../tests/main.h"' \
  'high includes ../../tests/main.h, which is in no folder of src/LAYERS'

t=$(tree plans)
mkdir "$t/src/plan" "$t/src/layout"
printf 'plan\nlayout\nlow\n' >"$t/src/LAYERS"
rm -r "$t/src/left" "$t/src/right" "$t/src/high"
echo '/* a plan */' >"$t/src/plan/plan.h"
echo '#include "plan/plan.h"' >"$t/src/layout/layout.c"
echo '#include "plan/plan.h"' >"$t/src/plan/keys.h"
echo 'typedef struct Plan Plan; /* plan/plan.h */' >"$t/src/plan/describe.h"
printf '#include "plan/plan.h"\n#include "plan/describe.h"\n#include "plan/keys.h"\n' >"$t/src/low/a.c"
expect plans "$t" 1 'src/low/a.c:1: low includes plan/plan.h, which is not for it: src/layout/layout.h is
src/low/a.c:3: low includes plan/keys.h, which is not for it: src/layout/layout.h is'

t=$(tree unlisted)
mkdir "$t/src/other"
echo '/* b */' >"$t/src/other/b.c"
expect unlisted "$t" 1 'src/other/b.c:1: is in no folder of src/LAYERS'

t=$(tree twice)
echo 'low' >>"$t/src/LAYERS"
expect twice "$t" 2 'src/LAYERS: low stands twice'

exit "$failed"
