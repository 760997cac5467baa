# Options of tdp-run that have no such value, and a step that is further from its prediction than is allowed.
run='tdp-run -m tiny -c cpu -p tiny-single --steps 1'
refused() {
  "$@"
  [ $? -eq 2 ] || echo "$*: exit not 2"
}
refused tdp-run -m tiny -c cpu
refused $run another
refused $run --seed -1
refused $run --retake -1
refused $run --meet 0
refused $run --rate -1
refused $run --epsilon 0
refused $run --meet inf
refused $run --rate inf
refused $run --epsilon inf
refused $run --check 0
refused $run --check x
refused $run --check 5%%
refused $run --loss-scale 0
refused $run --loss-scale 8x
refused $run --loss-scale dynamic --initial-loss-scale 0.5
refused $run --fault kill
refused $run --fault none:0:0
refused $run --report "$TMP/page.pdf"
refused $run --backend tpu
$run --check 0.0001% >"$TMP/text" 2>&1
echo $?
grep -c 'step: predicted .*, measured .*, outside ' "$TMP/text"
$run --check 1e9% --json >"$TMP/text" 2>&1 && grep -c '"loss"' "$TMP/text"
