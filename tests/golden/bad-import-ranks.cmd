# What is no single file of text, each in a line that says what is expected.
data=$PWD/tests/data/import
cd "$TMP" || exit
mkdir run
sed 's/^  "traceEvents"/  "traceName": "b", "traceEvents"/' "$data/kineto.json" >run/rank1.json
cp "$data/kineto.json" run/rank0.json
tdp-calibrate --import run
tdp-calibrate --import run/rank0.json run/rank1.json
gzip -c run/rank0.json | tdp-calibrate --import -
printf 'SQLite format 3\000rest' | tdp-calibrate --import -
printf ' Time (%%)  Total Time (ns)  Instances  Name\n --------  ---------------  ---------  ----\n 100.0  5  1  gemm\n' >stats.txt
tdp-calibrate --import stats.txt
