# Options of tdp-sim that do not go together, or that a plan or a schedule alone does not have.
refused() {
  "$@" >"$TMP/out"
  [ $? -eq 2 ] || echo "$*: exit not 2"
  cat "$TMP/out"
}
sim='tdp-sim --model tiny --cluster dgx --plan tiny-tp2-cp2'
refused tdp-sim --model tiny --cluster dgx
refused $sim another
refused tdp-sim --model tiny --cluster dgx --compare
refused tdp-sim --cluster dgx --plan tiny-tp2-cp2
refused tdp-sim --model tiny --plan tiny-tp2-cp2
refused $sim --operations usual
refused $sim --draws 1000001
refused $sim --draws 10 --receive-buffers 2
refused $sim --draws 10 --operations nosuch
refused $sim --straggler 1=1.2
refused $sim --ranks all --receive-buffers 2
refused $sim --receive-buffers 0
for straggler in 1 1=x 1=1.2x 1=0 1=1e7 =2; do refused $sim --ranks all --straggler $straggler; done
refused $sim --draws 10 --straggler 9=2
for option in --stages --chunks --micro-batches; do refused $sim $option 2; done
refused $sim --times 1,1,1

# A schedule alone.
for times in 1,1 1,1,0 1,1,x 1,1,1e7 ,1,1; do refused tdp-sim --schedule 1f1b --stages 4 --times $times; done
refused tdp-sim --schedule 1f1b
refused tdp-sim --schedule 1f1b --stages 4 --plan tiny-tp2-cp2
refused tdp-sim --schedule 1f1b --stages 4 --trace "$TMP/trace"
refused tdp-sim --schedule 1f1b --stages 4 --report "$TMP/page.pdf"
refused tdp-sim --schedule 1f1b --stages 4 --json --plots -
refused tdp-sim --schedule "$TMP/no.csv" --stages 4
printf '0F0,0B0\n' >"$TMP/one.csv"
refused tdp-sim --schedule "$TMP/one.csv" --stages 4
refused tdp-validate

# What cannot be written is the machine's fault.
unwritten() {
  "$@" >"$TMP/out"
  [ $? -eq 1 ] || echo "$*: exit not 1"
}
unwritten tdp-sim --schedule 1f1b --stages 4 --report "$TMP/none/page.md"
unwritten tdp-sim --schedule 1f1b --stages 4 --plots /dev/null/plots
unwritten $sim --trace /dev/null/trace
unwritten $sim --csv "$TMP/none/tasks.csv"
unwritten $sim --trace-merged "$TMP/none/trace.json"
