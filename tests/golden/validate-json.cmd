head -n 5 tests/validation/seqsel-t5.csv >"$TMP/rows.csv" && tdp-validate --rows "$TMP/rows.csv" --json # two sweeps
