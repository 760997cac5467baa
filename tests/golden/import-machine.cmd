# A cluster of one's own from a topology, nccl-tests and a trace, and a plan for it.
awk 'BEGIN { for (i = 0; i < 8; i++) printf "\tGPU%d", i; for (i = 0; i < 8; i++) printf "\tNIC%d", i
  print "\tCPU Affinity"
  for (i = 0; i < 8; i++) { printf "GPU%d", i; for (j = 0; j < 8; j++) printf "\t%s", i == j ? " X " : "NV18"
    for (j = 0; j < 8; j++) printf "\t%s", i == j ? "PXB" : "SYS"; print "\t0-47" } }' >"$TMP/topo.txt"
echo '{ "schemaVersion": 1, "deviceProperties": [ { "id": 0, "name": "NVIDIA H100 80GB HBM3" } ], "traceEvents": [
  { "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 5, "dur": 300 } ] }' >"$TMP/trace.json"
nccl=tests/data/nccl-tests
tdp-calibrate --import "$TMP/topo.txt" $nccl/v2.13-all-gather.txt $nccl/v2.17-debug-all-reduce.txt "$TMP/trace.json" \
  --gb-per-s 50 --output "$TMP/mine.json" && cat "$TMP/mine.json"
tdp-plan --model llama-3.1-8b --cluster "$TMP/mine.json" --gpus 32 --seq 4k --top 1 | sed -n 2,5p
# What does not go together.
tdp-calibrate --import $nccl/v2.13-all-gather.txt "$TMP/trace.json"
tdp-calibrate --import "$TMP/topo.txt" "$TMP/topo.txt"
tdp-calibrate --import "$TMP/topo.txt" $nccl/v2.13-all-gather.txt $nccl/v2.19-per-iteration.txt
tdp-calibrate --import "$TMP/topo.txt" $nccl/v2.17-debug-all-reduce.txt
tdp-calibrate --import "$TMP/topo.txt" README.md
tdp-calibrate --import tests/data/import/topo-a100.xml --gpu a100-sxm4-80gb --gb-per-s 25
tdp-calibrate --import tests/data/import/topo-a100.xml $nccl/two-runs.txt --gpu a100-sxm4-80gb
tdp-calibrate --import tests/data/import/topo-a100.xml $nccl/v2.8-all-reduce.txt
