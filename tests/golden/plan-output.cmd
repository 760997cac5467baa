tdp-plan --model gpt2 --cluster dgx --gpus 4 --global-batch 16 --output "$TMP/p.json" >/dev/null && cat "$TMP/p.json" && tdp-sim --model gpt2 --cluster dgx --plan "$TMP/p.json" --json
