tdp-run -m tiny -c cpu -p tiny-single --steps 2 --report "$TMP/page.html" --plots "$TMP/plots" --trace "$TMP/trace" --trace-merged "$TMP/both.json" >"$TMP/out" 2>"$TMP/err"; echo $?
cd "$TMP" && ls page.html plots trace both.json && grep -o '<title>[^<]*' page.html
