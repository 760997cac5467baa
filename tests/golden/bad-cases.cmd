echo "id,sweep" > "$TMP/c.csv"; echo "a,b,c" >> "$TMP/c.csv"; tdp-validate "$TMP/c.csv"
