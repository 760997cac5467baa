mkdir "$TMP/in" && head -n 5 tests/validation/seqsel-t5.csv >"$TMP/in/seqsel-t5.csv" # two sweeps
tdp-validate "$TMP/in/seqsel-t5.csv" --csv "$TMP/rows.csv" --plots "$TMP/plots" --report "$TMP/page.html" --write-baseline "$TMP/baseline.csv" | head -2 | cut -c 1-18
head -n 2 tests/validation/seqsel-t5.csv >"$TMP/one.csv" && tdp-validate "$TMP/one.csv" --ablate --report "$TMP/one.html" | sed -n "/^left out/,$ p" | cut -c 1-28 | sed "s/ *$//"; rm "$TMP"/one.*
cd "$TMP" && ls * && head -c 15 page.html && grep -c "seqsel-t5-" page.html rows.csv && head -1 baseline.csv | cut -d , -f 1-2; cd "$OLDPWD"
tdp-validate "$TMP/in/seqsel-t5.csv" --baseline "$TMP/baseline.csv" >"$TMP/out" && echo as before
sed 's/,[0-9.]*/,0.01/2' "$TMP/baseline.csv" >"$TMP/better.csv"
tdp-validate "$TMP/in/seqsel-t5.csv" --baseline "$TMP/better.csv" >"$TMP/out" 2>"$TMP/err"; echo $?
