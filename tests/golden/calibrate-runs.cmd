# Points of two runs of a machine are one machine of all samples; what a file of nccl-tests does not say is said.
points=tests/fuzz/seeds/points/whole.csv
tdp-calibrate --fit $points $points --framework megatron-core --output - 2>"$TMP/text" >"$TMP/two.json"
tdp-calibrate --fit $points --framework megatron-core --name - --output "$TMP/one.json" >"$TMP/text.one"
grep samples "$TMP/text" "$TMP/text.one"
grep -e '"framework"' -e '"name": "measured"' "$TMP/two.json"
# A run beside itself is as it was.
grep -e gb_per_s -e fraction -e peak -A1 "$TMP/one.json" | grep -v source >"$TMP/one"
grep -e gb_per_s -e fraction -e peak -A1 "$TMP/two.json" | grep -v source >"$TMP/two"
cmp "$TMP/one" "$TMP/two" && wc -l <"$TMP/two"
tdp-calibrate --nccl-tests tests/data/nccl-tests/two-runs.txt --like nvlink4-switch --gb-per-s 56 --name - \
  --output "$TMP/link.json" >"$TMP/table"
grep like "$TMP/link.json"
