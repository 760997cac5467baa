cp models/tiny.json "$TMP/gpt3.json"; cd "$TMP"; for m in gpt3 gpt3.json; do tdp-sim --model $m --cluster dgx --plan tiny-single 2>&1 | grep -E '^(model|tdp-sim)'; done
