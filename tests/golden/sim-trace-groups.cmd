# Whose ranks gather and sum where a group of ranks shards a copy of several, and what is copied on the host's streams.
tdp-sim --model llama-2-7b --cluster a100-80gb-ib400 --plan llama-7b-hsdp --trace "$TMP/hsdp" >"$TMP/text"
for rank in 0 13; do
  grep -o '"Group size.*Process Group Ranks": "[^"]*"' "$TMP/hsdp/rank$rank.json" | sort | uniq -c | sed 's/^ *//'
done
tdp-sim --model gpt3 --cluster dgx-2 --plan zero-infinity --trace-merged "$TMP/host.json" >"$TMP/text" 2>&1
grep -o '"name": "Memcpy[^"]*"' "$TMP/host.json" | sort | uniq -c | sed 's/^ *//'
