# One trace of two plans, whose ranks' numbers do not meet; pages and orders of a schedule alone; ranks of each plan.
tdp-sim --model tiny --cluster dgx --compare tiny-1f1b tiny-tp2-dp2 --ranks all --trace-merged "$TMP/trace.json" |
  grep -o -e "^tiny[^ ]*$" -e "^time in passes of [0-9]* ranks"
grep -o "\"name\": *\"tiny-[^\"]*" "$TMP/trace.json" | sort -u
tdp-sim --schedule 1f1b --stages 2 --micro-batches 3 --times 1,1,0.5 --report "$TMP/page.md" >"$TMP/text"
sed -n '/^## Ranks/,$p' "$TMP/page.md"
printf '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n' >"$TMP/own.csv"
tdp-sim --schedule "$TMP/own.csv"
tdp-sim --schedule "$TMP/own.csv" --json
tdp-sim --model tiny --cluster dgx --plan tiny-tp2-dp2 --ranks all --report "$TMP/ranks.md" >"$TMP/text"
grep '^## ' "$TMP/ranks.md"
