tdp-plan --model tiny --cluster cpu --gpus 2 --report "$TMP/page.html" --export megatron="$TMP/run.sh" --allow-lossy >"$TMP/out" && grep -o '<title>[^<]*' "$TMP/page.html"
tdp-plan --model tiny --cluster cpu --gpus 2 --report "$TMP/page.md" >"$TMP/out" && grep '^#' "$TMP/page.md"
tdp-plan --model tiny --cluster dgx --gpus 8 --pareto time,memory --report "$TMP/front.html" --plots "$TMP/plots" >"$TMP/out"; ls "$TMP/plots"; grep -o '<title>[^<]*' "$TMP/front.html"
tdp-plan --model tiny --cluster dgx --gpus 8 --question scaling --report "$TMP/asked.html" >"$TMP/out"; grep -o '<title>[^<]*' "$TMP/asked.html"
