head -n 2 tests/validation/seqsel-t5.csv | awk -F, -v OFS=, 'NR > 1 { $33 = "" } 1' >"$TMP/none.csv"
tdp-validate "$TMP/none.csv" --json --csv "$TMP/rows.csv" | grep -A 8 '"summary"'
tdp-validate "$TMP/none.csv" --rows >/dev/null; echo $?; ls "$TMP"
