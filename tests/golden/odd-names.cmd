sed "s/\"name\": \"[^\"]*\"/\"name\": \"'q' caf\\\\u00e9\"/" models/gpt3.json >"$TMP/q.json"
cat models/gpt3.json | LC_ALL=C tdp-sim --model "$TMP/q.json" --cluster dgx --plan gpt3-128 --receive-buffers 2147483647 --plots "$TMP/plöts" | head -3
ls "$TMP/plöts"
LC_ALL=C tdp-plan --model llama-2-7b --cluster dgx-a100-80gb --gpus 8 --top 1 --fix tp=2,pp=1 --export megatron="$TMP/josé.sh" | tail -1
head -1 "$TMP/josé.sh"
