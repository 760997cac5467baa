echo "id,sweep" > "$TMP/c.csv"; echo "a,b,c" >> "$TMP/c.csv"; tdp-validate "$TMP/c.csv"
report() { sed "s/\"model_file\": \"[^\"]*\"/\"model_file\": \"$1\"/" tests/data/tdp-run.json; }
report none | tdp-validate -
report - | tdp-validate -
(report tiny; printf '\0') | tdp-validate -
