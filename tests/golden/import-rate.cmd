# A topology tells no rate of its NICs: times of a faster network than is taken are refused, however well the small sizes
# are met, and the rate that is told fits them. Twelve NICs here, four of them of storage.
matrix() {
  awk -v nics="$1" 'BEGIN { for (i = 0; i < 8; i++) printf "\tGPU%d", i; for (i = 0; i < nics; i++) printf "\tNIC%d", i
    print "\tCPU Affinity"
    for (i = 0; i < 8; i++) { printf "GPU%d", i; for (j = 0; j < 8; j++) printf "\t%s", i == j ? " X " : "NV18"
      for (j = 0; j < nics; j++) printf "\t%s", i == j ? "PXB" : "SYS"; print "\t0-47" } }' >"$TMP/topo-$1.txt"
}
# OPERATION FACTOR NODES GB/S US
times_of() {
  awk -v factor="$2" -v nodes="$3" -v rate="$4" -v us="$5" 'BEGIN { redop = factor > 1 ? "sum" : "none"
    for (r = 0; r < 8 * nodes; r++) printf "#  Rank %2d Group  0 Pid  1 on  n%d device  %d [0x1b] NVIDIA H100 80GB HBM3\n", r, int(r / 8), r % 8
    print "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
    for (s = 1024; s <= 2 ^ 30; s *= 2) { t = us + s * factor / rate / 1000; b = s / t / 1000
      printf "%d %d float " redop " -1 %.2f %.4f %.4f 0 %.2f %.4f %.4f 0\n", s, s / 4 / (factor > 1 ? 1 : 8 * nodes), t, b, b * factor, t, b, b * factor } }' >"$TMP/$1-$3.txt"
}
matrix 4
matrix 6
times_of all_reduce 1.875 2 370 45
times_of all_gather 0.9375 2 370 40
times_of all_gather 0.875 1 800 20
cd "$TMP" || exit
for nics in 4 6; do
  tdp-calibrate --import topo-$nics.txt all_reduce-2.txt all_gather-2.txt
  tdp-calibrate --import topo-$nics.txt all_gather-2.txt
  tdp-calibrate --import topo-$nics.txt all_gather-2.txt --gb-per-s 50 | grep -c '"efficiency": 0.9'
done
tdp-calibrate --import topo-4.txt all_gather-1.txt
