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
tdp-plan --model gpt3 --cluster dgx --gpus 64 --report "$work/plan.html" >/dev/null || echo "not ok page: tdp-plan --report"
tdp-plan --model llama-3.1-405b --cluster dgx-h100 --gpus 16384 --global-batch 2048 --report "$work/large.html" >/dev/null ||
  echo "not ok page: tdp-plan --report"
for page in "$work"/*.html; do
  name=page-$(basename "$page" .html)
  size=$(wc -c <"$page")
  if [ "$size" -le 3145728 ]; then echo "ok $name-size"; else echo "not ok $name-size: $size bytes"; fi
done

# Sizes in the page's pictures are those of its tables: what the program's reports say of these bytes.
if node=$(command -v node); then
  sizes=$("$node" -e "$(cat plots/report-parts.js); console.log([1002 * 2 ** 20, 1023.4 * 2 ** 30, 1023.6 * 2 ** 20, 71.25 * 2 ** 30,
    999.4 * 1024, 512, 1023].map(bytes).join(', '))")
  expected='1002 MiB, 1023 GiB, 1 GiB, 71.2 GiB, 999 KiB, 512 B, 1023 B'
  if [ "$sizes" = "$expected" ]; then echo "ok page-sizes"; else echo "not ok page-sizes: $sizes, expected $expected"; fi
  for plan in 'gpt-neox-20b a100-v100-mixed mixed-nodes' 'gpt3 dgx-h100 gpt3-128'; do
    # shellcheck disable=SC2086 # three words
    set -- $plan
    tdp-sim --model "$1" --cluster "$2" --plan "$3" --report "$work/limits.html" >/dev/null ||
      echo "not ok page-limits: tdp-sim --report"
    limits=$("$node" -e "$(cat plots/report-parts.js plots/report-charts.js tests/page-limits.js)" "$work/limits.html")
    if [ "$(echo "$limits" | tr ' ' '\n' | sort -u)" = 1.000 ]; then echo "ok page-limits-$3"
    else echo "not ok page-limits-$3: limits are at $limits of stages' devices"; fi
  done
  rm "$work/limits.html"
else
  echo "skip page-sizes: node is not installed"
fi

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "skip page-browser: chromium is not installed"
  exit
}
rm "$work/large.html" # like others, but for its size
# A page in a frame, as windows cannot be as narrow as a phone: counts, how far it reaches beyond the frame, its words.
framed() { # page, width
  printf '<iframe id="frame" style="width: %dpx; height: 1200px; border: 0" srcdoc="' "$2"
  sed 's/&/\&amp;/g; s/"/\&quot;/g' "$1"
  cat <<'END'
"></iframe><pre id="said"></pre><script>frame.onload = () => setTimeout(() => {
  const page = frame.contentDocument, count = what => page.querySelectorAll(what).length;
  said.textContent = ["COUNTS", count("section"), count("path, circle, rect"),
    page.documentElement.scrollWidth - frame.clientWidth, "\n" + page.getElementById("report").textContent].join(" ");
}, 500)</script>
END
}
for page in "$work"/*.html; do
  for width in 1240 390; do
    name=page-$(basename "$page" .html)-$width
    framed "$page" $width >"$work/frame"
    mv "$work/frame" "$work/frame.htm"
    HOME=$work timeout 60 "$browser" --headless --no-sandbox --disable-gpu --window-size=1300,1200 \
      --virtual-time-budget=4000 --enable-logging=stderr --dump-dom "file://$work/frame.htm" >"$work/dom" 2>"$work/log"
    errors=$(grep -E 'CONSOLE|Uncaught' "$work/log" | head -1)
    counts=$(sed -n 's/.*COUNTS \([0-9]* [0-9]* -*[0-9]*\).*/\1/p' "$work/dom" | head -1)
    # shellcheck disable=SC2086 # several words
    set -- ${counts:-0 0 0}
    case $name in *scaling* | *sensitivity* | *pareto*) least=1 ;; *) least=2 ;; esac
    if [ -n "$errors" ]; then echo "not ok $name: $errors"
    elif [ "$1" -lt "$least" ] || [ "$2" -lt 4 ]; then echo "not ok $name: $1 sections, $2 shapes"
    elif [ "$3" -gt 0 ]; then echo "not ok $name: reaches $3 pixels beyond the screen"
    else echo "ok $name"; fi
    [ "${name#page-plan}" = "$name" ] && continue
    for words in 'device 79.2 GiB, less the margin ' '^  --tensor-model-parallel-size'; do # as programs print them
      if grep -q -e "$words" "$work/dom"; then echo "ok $name-words"; else echo "not ok $name-words: no $words"; fi
    done
  done
done
