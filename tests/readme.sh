#!/bin/sh
# What README.md shows of tdp-plan is what it prints, and each key of a plan has an example in plans/.
set -u

cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

{
  echo "tdp-plan --model gpt3 --cluster dgx --explain"
  echo "tdp-plan --model gpt3 --cluster dgx --question fewest-gpus"
  grep -oE '`build/tdp-plan [^`]*`' README.md | tr -d '`' | sed 's|^build/||'
} >"$work/commands"
while read -r command; do $command; done <"$work/commands" >"$work/printed" 2>&1
awk '/^```/ { inside = !inside; shown = inside && $0 == "```"; next }
  /^## Run the plan/ { exit }
  shown && NF && !/^\$ /' README.md >"$work/shown"
if missing=$(grep -vxFf "$work/printed" "$work/shown"); then
  echo "not ok readme: lines that no command of it prints"
  echo "$missing"
else
  echo "ok readme: $(wc -l <"$work/shown") lines of $(wc -l <"$work/commands") commands"
fi

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
