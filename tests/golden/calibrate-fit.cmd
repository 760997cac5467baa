tdp-calibrate --fit tests/fuzz/seeds/points/whole.csv --name café --output "$TMP/machine.json"
OPENBLAS_CORETYPE=SkylakeX tdp-calibrate --fit tests/fuzz/seeds/points/whole.csv --name café --output "$TMP/other-core.json" >"$TMP/other-core" && cmp "$TMP/machine.json" "$TMP/other-core.json"
tdp-sim --model tiny --cluster "$TMP/machine.json" --plan tiny-single | head -3
tdp-calibrate --nccl-tests tests/data/nccl-tests/v2.8-all-reduce.txt --cluster dgx --like nvlink3-switch --name café --output "$TMP/link.json"
grep '"name"' "$TMP/machine.json" "$TMP/link.json"
tdp-calibrate --nccl-tests tests/data/nccl-tests/v2.8-all-reduce.txt --cluster dgx --like nvlink3-switch 2>/dev/null | grep -e '"name"' -e '"like"'
