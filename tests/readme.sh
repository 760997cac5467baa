#!/bin/sh
# Commands and links of README.md and the guide are ones that there are, README is short, and each key of a plan has an
# example in plans/. What they show of outputs is tests/figures.sh's.
set -u

cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

pages="README.md docs/guide.md"
# Options of commands to be pasted are ones that their programs have.
awk '/^```/ { inside = $0 == "```sh"; next } inside' $pages | sed 's/  *#.*//' |
  while read -r line; do
    program=$(echo "$line" | grep -oE 'tdp-[a-z]+' | head -n 1)
    [ -n "$program" ] || continue
    "$program" --help >"$work/help"
    for option in $(echo "$line" | grep -oE -- '--[a-z][a-z-]+' | grep -vxE -- '--(allow-run-as-root|oversubscribe)'); do
      grep -qE -- "$option(=|\$|[^a-z-])" "$work/help" || echo "$program $option"
    done
  done >"$work/unknown"
if [ -s "$work/unknown" ]; then echo "not ok readme: options that there are not: $(sort -u "$work/unknown" | paste -sd ',')"
else echo "ok readme: options"; fi

lines=$(wc -l <README.md)
if [ "$lines" -le 130 ]; then echo "ok readme: $lines lines"; else echo "not ok readme: $lines lines, expected at most 130"; fi
counted() { # FOLDER WORDS: how many files there are, as README.md says it
  found=$(find "$1" -maxdepth 1 -name '*.json' | wc -l)
  if grep -q "\b$found $2" README.md; then echo "ok readme: $found $2"; else echo "not ok readme: $1 holds $found, README.md says otherwise"; fi
}
counted models "of them"
counted hardware clusters
counted hardware/servers servers
counted hardware/gpus GPUs
for page in $pages docs/architecture.md; do
  for target in $(grep -oE '\]\([^)#]*' "$page" | sed 's/](//' | grep -v '^http'); do
    [ -e "$(dirname "$page")/$target" ] || echo "not ok readme: $page refers to $target, which is not there"
  done
done

keys=$(sed -n 's/^  { { *"\([a-z][a-z0-9_]*\)",.*/\1/p; s/^  { "\([a-z][a-z0-9_]*\)",.*/\1/p' src/plan/keys.c src/plan/strategies.c)
without=
for key in $keys; do
  cat plans/*.json | grep -q "\"$key\":" || without="$without $key"
done
if [ -z "$without" ]; then
  echo "ok readme: $(echo "$keys" | wc -l) plan keys have examples"
else
  echo "not ok readme: keys without an example in plans/:$without"
fi
