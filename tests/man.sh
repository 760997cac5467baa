#!/bin/sh
# tests/man.sh [--rewrite]
# Manual pages: neither groff nor mandoc finds a fault in them, each option of a program stands in its page, and each key that a reader
# takes stands in the page of its format. What stands between .\" exports and .\" . is written by --rewrite from what
# tdp-plan lists.
set -u

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

missing() { # name, file, what must stand in it, one a line on stdin
  page=$1 words=0
  while read -r word; do
    words=$((words + 1))
    grep -qF -- "$word" "$2" || echo "$word"
  done >"$work/missing"
  if [ "$words" -lt 3 ]; then echo "not ok man-$page: $words words were looked for"
  elif [ -s "$work/missing" ]; then echo "not ok man-$page: lacks $(paste -sd ' ' "$work/missing")"
  else echo "ok man-$page"; fi
}

# The page with its list of tools as the program has it.
page=docs/man/tdp-plan.1
"$BUILD/tdp-plan" --list exports | awk -F '  +' 'NR > 1 { printf ".BR %s%s\n", $2, " \" (" $3 ", ." $4 ")\"" }' |
  sed 's/-/\\-/g; $!s/)"$/),"/; $s/)"$/)."/' >"$work/exports"
awk -v exports="$work/exports" '
  /^\.\\" \.$/ { inside = 0 }
  !inside { print }
  /^\.\\" exports$/ { inside = 1; while ((getline line <exports) > 0) print line }' "$page" >"$work/page"
[ "${1-}" != --rewrite ] || cp "$work/page" "$page"
if [ "$(wc -l <"$work/exports")" -gt 2 ] && diff -u "$page" "$work/page"; then echo "ok man-exports"
else echo "not ok man-exports: differs from what tdp-plan lists (tests/man.sh --rewrite writes it)"; fi

for program in "$BUILD"/tdp-*; do
  name=$(basename "$program")
  page=docs/man/$name.1
  [ -x "$program" ] && [ -f "$page" ] || continue
  sed 's/\\-/-/g' "$page" >"$work/page"
  "$program" --help | grep -oE '^ +(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+' | missing "$name-options" "$work/page"
done

# Keys of the tables that files are read by; in the pages keys stand in code.
keys() { grep -ohE '\{ ?"[a-z_0-9]+", JSON_|(RECIPE|FRAMEWORK)_[A-Z]+\("[a-z_0-9]+"' "$@" | grep -oE '"[a-z_0-9]+"' | tr '"' '`' | sort -u; }
rows() { sed 's/^|\([^|]*\)|.*/\1/' "$1" >"$work/page"; } # what rows are of, and what stands outside of tables
sed 's/\\[fFe-]//g; s/[",]//g' docs/man/libtdp.3 >"$work/page"
{
  grep -oE 'tdp_[a-z]+\(' src/lib/tdp.h | tr -d '('
  sed -n '/_fields\[\] = {/,/^};/p' src/lib/tdp.c | grep -oE '^  \{ "[a-z_]+"' | grep -oE '[a-z_]+'
} | sort -u | missing libtdp "$work/page"
rows src/model/README.md
keys src/model/native.c src/model/sparse_keys.c | missing model "$work/page"
rows hardware/README.md
keys src/hardware/cluster.c src/hardware/server.c src/hardware/device.c src/hardware/kernels.c src/hardware/link.c \
  src/hardware/library.c src/hardware/mixed.c | missing cluster "$work/page"
rows docs/plan.md
keys src/plan/framework.c | missing framework "$work/page"

# Keys of frameworks that may be left out, by the reader and by the rows of the table; others stand outside of it.
sed -n '/^| key | unit | meaning/,/^$/p' docs/plan.md >"$work/table"
grep -E 'may be left out|key is absent' "$work/table" | sed 's/^|\([^|]*\)|.*/\1/' | grep -oE '`[a-z_0-9]+`' | sort -u >"$work/said"
grep -F .optional src/plan/framework.c >"$work/optional.c"
keys "$work/optional.c" | while read -r key; do grep -q "^|[^|]*$key[^|]*|" "$work/table" && echo "$key"; done >"$work/read"
if [ -s "$work/read" ] && diff "$work/said" "$work/read"; then echo "ok man-framework-optional"
else echo "not ok man-framework-optional: docs/plan.md and src/plan/framework.c let other keys be left out"; fi
sed -n '/columns\[\] = {/,/};/p' src/validate/case.c | grep -oE '"[a-z_]+"' | sed 's/"\(.*\)"/`\1` ●/' | missing cases docs/cases.md

# What notes of case files are searched for.
{
  grep -ohE 'strstr\((note|csv_cell\(csv, row, "note"\)), "[^"]+"' src/validate/*.c | sed 's/.*, "/"/'
  grep -ohE 'read_list\(note, "[^"]+"' src/validate/passes.c | sed 's/.*, "/"/'
  sed -n '/^gboolean case_noted_/,/;$/p' src/validate/case_experts.c | grep -oE '"[^"]+"'
} | tr -d '"' | missing notes docs/cases.md

command -v man >/dev/null || { echo "skip man-warnings: no man"; exit; }
for page in docs/man/*.[13] "$BUILD"/man/*.5; do
  said=$(LC_ALL=C.UTF-8 man --warnings=all -l "$page" 2>&1 >/dev/null | head -n 1)
  if [ -z "$said" ]; then echo "ok man-warnings-$(basename "$page")"
  else echo "not ok man-warnings-$(basename "$page"): $said"; fi
done
command -v mandoc >/dev/null || { echo "skip man-mandoc: no mandoc"; exit; }
for page in docs/man/*.[13] "$BUILD"/man/*.5; do # pages have no date, as builds of one tree are the same bytes
  said=$(mandoc -Tlint -W warning "$page" 2>&1 | grep -v 'missing date' | head -n 1)
  if [ -z "$said" ]; then echo "ok man-mandoc-$(basename "$page")"
  else echo "not ok man-mandoc-$(basename "$page"): $said"; fi
done
