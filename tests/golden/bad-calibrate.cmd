# Options of tdp-calibrate that do not go together or have no such value, and files of runs that are not of one machine.
nccl=tests/data/nccl-tests/v2.8-all-reduce.txt points=tests/fuzz/seeds/points/whole.csv
refused() {
  tdp-calibrate "$@"
  [ $? -eq 2 ] || echo "$*: exit not 2"
}
refused --import "$nccl" --points "$TMP/points.csv"
refused --fit "$points" --date 2026-01-31
refused --precision bf16 --fit "$points"
refused --framework tdp-run --nccl-tests "$nccl"
refused --nccl-tests "$nccl" --date 2026-01-31
refused --seconds 0
refused --precision fp8
refused --precision fp64
refused --nccl-tests "$nccl" --collective allreduce
refused --nccl-tests "$nccl" --gb-per-s 0
refused --nccl-tests "$nccl" --gb-per-s inf
for day in 2026-02-30 2026-1-031 26-01-31 2026-01-31x 2026/01/31; do refused --date $day; done
refused --name ''
refused --gpu a10g
refused "$points"
refused --like nvlink3-switch
refused --cluster dgx
refused --collective all-reduce
refused --gb-per-s 25
refused --import "$nccl" --gb-per-s 25
refused --fit "$points" --framework tdp
ls "$TMP"

# A link that starts from the file that it would be written to.
cp hardware/links/nvlink3-switch.json "$TMP/link.json"
refused --nccl-tests "$nccl" --like "$TMP/link.json" --output "$TMP/link.json"
cmp hardware/links/nvlink3-switch.json "$TMP/link.json"
sed '/sendrecv_perf/,/reduce_perf/d' tests/data/nccl-tests/two-runs.txt >"$TMP/reduce.txt"
refused --nccl-tests "$TMP/reduce.txt" --cluster dgx

# Runs of other ranks, of another device, and no run at all.
sed '2s/,1,1,2574,2364,1,/,1,1,2574,2364,2,/' "$points" >"$TMP/ranks.csv"
sed '2s/one core/another core/' "$points" >"$TMP/device.csv"
refused --fit "$points" "$TMP/ranks.csv"
refused --fit "$points" "$TMP/device.csv"
refused --fit "$points" "$nccl"
refused --fit "$TMP/no-such.csv"
