# Files of another kind than was asked for, with a mark in front, with other separators; values that are none.
refused() {
  "$@" >"$TMP/out"
  [ $? -eq 2 ] || echo "$*: exit not 2"
  cat "$TMP/out"
}
refused tdp-plan --model gpt3 --cluster models/gpt3.json
refused tdp-plan --model plans/tiny-1f1b.json --cluster dgx
refused tdp-plan --model hardware/dgx.json --cluster dgx
sim='tdp-sim --model tiny --cluster cpu'
refused $sim --plan models/tiny.json
for file in plans/tiny-1f1b.json models/tiny.json; do { printf '\357\273\277'; cat $file; } >"$TMP/mark-${file##*/}"; done
{ printf '\357\273\277'; cat tests/data/launch/primus.yaml; } >"$TMP/mark.yaml"
refused tdp-sim --model mixtral-8x7b --cluster dgx-h100 --plan "$TMP/mark.yaml"
refused $sim --plan "$TMP/mark-tiny-1f1b.json"
refused tdp-sim --model "$TMP/mark-tiny.json" --cluster cpu --plan tiny-1f1b
head -n 3 tests/validation/seqsel-t5.csv | tr , ';' >"$TMP/semicolons.csv"
refused tdp-validate "$TMP/semicolons.csv"
refused tdp-calibrate --fit models/tiny.json --name x
refused $sim --plan tiny-1f1b --csv ''
for value in abc '' 99999999999; do refused $sim --plan tiny-1f1b --receive-buffers "$value"; done
refused $sim --plan
refused tdp-plan --model gpt3 --cluster dgx --fix tp=
