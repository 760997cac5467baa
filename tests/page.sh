#!/bin/sh
# Reports as pages: each opens in a browser without an error, on a wide and on a narrow screen, and says what it should.
# Where chromium is not installed, what a browser would show is not looked at.
set -u

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

tdp-sim --model gpt3 --cluster dgx-h100 --plan gpt3-128 --report "$work/sim.html" >/dev/null || echo "not ok page: tdp-sim --report"
tdp-sim --schedule dualpipe --stages 4 --report "$work/schedule.html" >/dev/null ||
  echo "not ok page: tdp-sim --schedule --report"
tdp-validate tests/validation/zb.csv tests/validation/bloom.csv --report "$work/validate.html" >/dev/null ||
  echo "not ok page: tdp-validate --report"
tdp-run --model tiny --plan tiny-single --cluster cpu --steps 1 --report "$work/run.html" >/dev/null 2>&1 ||
  echo "not ok page: tdp-run --report"
for question in scaling sensitivity; do
  tdp-plan --model gpt3 --cluster dgx --question $question --report "$work/$question.html" >/dev/null ||
    echo "not ok page: --question $question --report"
done
tdp-plan --model gpt3 --cluster dgx --gpus 64 --pareto time,memory --report "$work/pareto.html" >/dev/null ||
  echo "not ok page: --pareto --report"
tdp-plan --model llama-3.1-405b --cluster dgx-h100 --gpus 16384 --global-batch 2048 --report "$work/large.html" >/dev/null ||
  echo "not ok page: tdp-plan --report"
for page in "$work"/*.html; do
  name=page-$(basename "$page" .html)
  size=$(wc -c <"$page")
  if [ "$size" -le 3145728 ]; then echo "ok $name-size"; else echo "not ok $name-size: $size bytes"; fi
done

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "skip page-browser: chromium is not installed"
  exit
}
rm "$work/large.html" # like others, but for its size
for page in "$work"/*.html; do
  for width in 1240 390; do
    name=page-$(basename "$page" .html)-$width
    HOME=$work timeout 60 "$browser" --headless --no-sandbox --disable-gpu --window-size=$width,1200 \
      --virtual-time-budget=4000 --enable-logging=stderr --dump-dom "file://$page" >"$work/dom" 2>"$work/log"
    errors=$(grep -E 'CONSOLE|Uncaught' "$work/log" | head -1)
    sections=$(grep -o '<section' "$work/dom" | wc -l)
    paths=$(grep -oE '<(path|circle|rect)' "$work/dom" | wc -l)
    if [ -n "$errors" ]; then echo "not ok $name: $errors"
    elif [ "$sections" -lt 2 ] || [ "$paths" -lt 4 ]; then echo "not ok $name: $sections sections, $paths paths"
    else echo "ok $name"; fi
  done
done
