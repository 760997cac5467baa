sed '/model_file/d' tests/data/tdp-run.json > "$TMP/r.json"; cd "$TMP"; tdp-validate r.json
