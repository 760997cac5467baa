# Tables of measurements that a fit cannot use, each in a line that names the file, the row and what is expected.
data=$TMP/data/hardware/data
mkdir "$TMP/data" && cp -r hardware "$TMP/data/hardware"
for table in attention gemm; do # a few rows of each source and GPU: all of them are read each time
  awk -F , 'NR == 1 || n[$1, $2]++ < 9' "hardware/data/$table.csv" >"$TMP/$table.csv"
done
refused() { # refused FIT [OPTION...]: of that one alone
  printf 'fit,target,hardware,data,constants\n%s\n' "$1" >"$data/fits.csv"
  shift
  TDP_DATA=$TMP/data tdp-fit --dry-run "$@" 2>"$TMP/said" >"$TMP/out"
  [ $? -eq 2 ] || echo "exit not 2"
  tail -n 1 "$TMP/said" | sed 's/known are .*/known are .../'
}
changed() { # changed TABLE FROM TO FIT: where the table has another text
  sed "s|$2|$3|" "$TMP/$1.csv" >"$data/$1.csv"
  refused "$4"
  cp "$TMP/$1.csv" "$data"
}
cp "$TMP/attention.csv" "$TMP/gemm.csv" "$data"
h200=attention,h200,h200-sxm5-141gb,server/h200/h200,flash3
refused $h200 another
refused $h200 --only nosuch
refused products,a100,a100-sxm4-80gb,a100,bf16
refused matmul,a100,none,a100,bf16
refused matmul,none,a100-sxm4-80gb,a100,bf16
refused attention,a100,a100-sxm4-80gb,flash-attention/a100,flash1
refused attention,h200,h200-sxm5-141gb,server/h200/h200,flash9
refused attention-like,h100,none,h100,flash3
refused link,nvlink3-switch,none,nobody,
refused dispatch,deepep-h800,nosuch,nobody,
changed attention '^server,h200,flash3,[a-z]*' 'server,h200,flash3,sideways' $h200
changed attention '^server,h200,flash3,' 'server,h200,flash9,' $h200
changed attention '^\(server,h200,.*\),bf16' '\1,fp64' $h200
changed attention '^\(server,h200,flash3,[^,]*,[^,]*\),[0-9]*' '\1,wide' $h200
changed attention '^server,h200' 'nobody,h200' $h200
changed gemm '^a100,bf16,128' 'a100,bf16,wide' matmul,a100,a100-sxm4-80gb,a100,bf16
