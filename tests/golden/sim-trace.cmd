tdp-sim --model tiny --cluster dgx --plan tiny-tp2-dp2 --trace "$TMP/traces" >"$TMP/text" && ls "$TMP/traces" && cat "$TMP/traces/rank3.json"
