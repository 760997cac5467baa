#!/bin/bash
# What happens around a program: a full disk, one that is read-only, kill -9, no memory, no thread, interrupted calls, a
# pipe that nobody reads, a clock set back. Old files stay whole, the exit is right, the answer is the same or none.
# KILLS (20) moments and MEMORY (40) allocations of each program, spread evenly; MEMORY=all: each one, of programs that
# make more than 20,000 of them one in so many that about 10,000 are tried. usage: faults.sh
set -u

cd "$(dirname "$0")/.." || exit 1
PATH=$(cd "${BUILD:-build}" && pwd):$PATH
export PATH LC_ALL=C
unset TDP_DATA
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
old='what stood here before'
sim=(tdp-sim --model tiny --cluster cpu --plan tiny-1f1b)
plan=(tdp-plan --model tiny --cluster cpu --gpus 2 --threads 4 --json --top 40)

verdict() { # STATUS NAME WHY
  if [ "$1" -eq 0 ]; then echo "ok faults-$2"; else echo "not ok faults-$2: $3"; fi
}

# ---- disks ----

# Each output of tdp-sim and tdp-plan in a folder: exit 1 and one line that names the file, old bytes where there were
# some and nothing new where there were none.
outputs() { # FOLDER
  for option in csv report:.html trace-merged plan:output:.json plan:certificate export; do
    folder=$1 file=$1/old.${option##*.}
    case $option in
    plan:*) command=("${plan[@]}" "--$(echo "$option" | cut -d: -f2)" "$file") ;;
    export) command=("${sim[@]}" --allow-lossy --export "megatron=$file") ;;
    *) command=("${sim[@]}" "--${option%%:*}" "$file") ;;
    esac
    before=$(ls -A "$folder")
    "${command[@]}" >"$work/out" 2>"$work/err"
    status=$?
    line=$(tail -n 1 "$work/err")
    if [ $status -ne 1 ] || [ "${line#*"$file"}" = "$line" ]; then echo "$option: status $status: $line"; fi
    if [ -e "$file" ] && [ "$(cat "$file")" != "$old" ]; then echo "$option: the old file is another"; fi
    if [ "$before" != "$(ls -A "$folder")" ]; then echo "$option: left $(ls -A "$folder" | tr '\n' ' ')"; fi
  done
}

# As bash functions go to the namespace: the disk is mounted there, filled, and made read-only.
disks() {
  mkdir "$work/disk" || return
  for state in full read-only full-old read-only-old; do
    mount -t tmpfs -o size=64k tdp "$work/disk" || { echo "no mount"; return; }
    case $state in *-old) for suffix in csv html trace-merged json certificate export plan:certificate; do
      echo "$old" >"$work/disk/old.$suffix"; done ;; esac
    case $state in
    full*) dd if=/dev/zero of="$work/disk/filler" bs=4096 2>/dev/null ;;
    *) mount -o remount,ro "$work/disk" ;;
    esac
    outputs "$work/disk" | sed "s/^/$state: /"
    umount "$work/disk"
  done
}
if unshare -rm true 2>/dev/null; then
  export -f disks outputs
  said=$(work=$work old=$old unshare -rm bash -c "$(declare -p sim plan); disks" 2>&1)
  verdict $([ -z "$said" ]; echo $?) disks "$said"
else
  echo "skip faults-disks: no namespace can be made"
fi

"${sim[@]}" >/dev/full 2>"$work/err"
verdict $([ $? -eq 1 ] && grep -q 'standard output' "$work/err"; echo $?) stdout "$(head -n 1 "$work/err")"
"${plan[@]}" 2>/dev/null | true
status=${PIPESTATUS[0]}
verdict $([ "$status" -eq 141 ] || [ "$status" -eq 1 ] || [ "$status" -eq 0 ]; echo $?) pipe "status $status"
(mkdir "$work/gone" && root=$PWD && cd "$work/gone" && rmdir "$work/gone" &&
  TDP_DATA=$root "$(command -v tdp-sim)" --model tiny --cluster cpu --plan tiny-1f1b --csv old.csv >"$work/out" 2>"$work/err")
verdict $([ $? -eq 1 ] && grep -q 'old.csv: cannot write' "$work/err"; echo $?) vanished "$(head -n 1 "$work/err")"

# ---- kill -9 ----

# The file is the old or the new one, whole, whenever the program is killed.
echo "$old" >"$work/old"
begin=$(date +%s%N)
"${plan[@]}" --output "$work/new" >/dev/null 2>&1
length_us=$((($(date +%s%N) - begin) / 1000))
torn=0
kills=${KILLS:-20}
for ((i = 0; i < kills; i++)); do
  cp "$work/old" "$work/file"
  { timeout -s KILL "$(awk -v i="$i" -v n="$kills" -v us=$length_us 'BEGIN { printf "%.6f", (i + 1) * us / n / 1e6 }')" \
    "${plan[@]}" --output "$work/file" >/dev/null; } 2>/dev/null
  cmp -s "$work/file" "$work/old" || cmp -s "$work/file" "$work/new" || torn=$((torn + 1))
done
verdict $torn "killed at $kills moments" "$torn files are neither the old nor the new one"

# ---- what the system refuses ----

cc -shared -fPIC -O1 tests/faults/interpose.c -o "$work/interpose.so" -ldl 2>"$work/err" ||
  { echo "skip faults-interposed: $(head -n 1 "$work/err")"; exit; }
under() { LD_PRELOAD=$work/interpose.so "$@"; }

"${sim[@]}" --json --csv "$work/csv.right" >"$work/right" 2>/dev/null
FAULT_COUNT=$work/count under "${sim[@]}" --json --csv "$work/csv.right" >/dev/null 2>&1
allocations=$(cat "$work/count")
step=1
[ "${MEMORY:-40}" = all ] || step=$((allocations / ${MEMORY:-40}))
wrong=0 tried=0 why=
for ((i = 1; i <= allocations; i += step)); do
  cp "$work/old" "$work/csv"
  { FAULT_MALLOC=$i under "${sim[@]}" --json --csv "$work/csv" >"$work/out"; } 2>/dev/null
  status=$?
  tried=$((tried + 1))
  if cmp -s "$work/csv" "$work/old"; then file=old; elif cmp -s "$work/csv" "$work/csv.right"; then file=new; else file=torn; fi
  if [ $file = torn ] || { [ $status -eq 0 ] && { [ $file = old ] || ! cmp -s "$work/out" "$work/right"; }; } ||
    [ $status -eq 139 ]; then
    wrong=$((wrong + 1)) why="allocation $i: status $status, $file file"
  fi
done
verdict $wrong "no memory at $tried of $allocations allocations" "$wrong times, the last $why"

# What else programs print: the whole of it, or exit not 0 and no crash. One process of each; where an allocation is to
# fail, one that goes on from there is made of it (tests/faults/interpose.c).
starve() { # NAME COMMAND...
  name=$1
  shift
  "$@" >"$work/right" 2>/dev/null
  FAULT_COUNT=$work/count under "$@" >/dev/null 2>&1
  allocations=$(cat "$work/count")
  step=1
  if [ "${MEMORY:-40}" != all ]; then step=$((allocations / ${MEMORY:-40}))
  elif [ "$allocations" -gt 20000 ]; then step=$((allocations / 10000)); fi
  FAULT_EACH=$((step > 0 ? step : 1)) FAULT_RIGHT=$work/right FAULT_TRIED=$work/tried under "$@" >"$work/out" 2>/dev/null
  cmp -s "$work/out" "$work/right" || echo "what the others were made of ended otherwise" >>"$work/tried"
  wrong=$(grep -c '[^0-9]' "$work/tried")
  verdict "$wrong" "no memory for $name at $(grep -x '[0-9]*' "$work/tried") of $allocations allocations" \
    "$wrong times, the last $(grep '[^0-9]' "$work/tried" | tail -n 1)"
}
head -n 3 tests/validation/seqsel-t5.csv >"$work/cases.csv"
starve planning tdp-plan --model tiny --cluster cpu --gpus 2 --threads 1 --json --top 3
starve validating tdp-validate "$work/cases.csv" --json
starve calibrating tdp-calibrate --fit tests/fuzz/seeds/points/whole.csv --name found
starve link-fitting tdp-calibrate --nccl-tests tests/data/nccl-tests/v2.8-all-reduce.txt --cluster dgx \
  --like nvlink3-switch --name found
starve improving tdp-plan --cluster dgx-h100 --improve tests/data/launch/llama-1b.log --json --threads 1

"${plan[@]}" >"$work/right" 2>/dev/null
for n in 1 2 3; do
  wrong=0 why=
  for again in 1 2 3 4 5 6 7 8; do # those that began before it may be anywhere
    FAULT_THREAD=$n under "${plan[@]}" >"$work/out" 2>"$work/err"
    status=$?
    { [ $status -eq 0 ] && cmp -s "$work/out" "$work/right"; } || [ $status -eq 1 ] ||
      { wrong=$((wrong + 1)) why="status $status: $(head -n 1 "$work/err")"; }
  done
  verdict $wrong "no thread $n" "$wrong times of $again, the last $why"
done
FAULT_EINTR=1 under "${plan[@]}" --output "$work/file" >"$work/out" 2>"$work/err"
verdict $([ $? -eq 0 ] && cmp -s "$work/out" "$work/right" && cmp -s "$work/file" "$work/new"; echo $?) interrupted \
  "$(head -n 1 "$work/err")"
FAULT_CLOCK=1 under "${plan[@]}" --time-limit 60 >"$work/out" 2>"$work/err"
verdict $([ $? -eq 0 ] && cmp -s "$work/out" "$work/right"; echo $?) clock "$(head -n 1 "$work/err")"
cp "$work/old" "$work/csv"
{ (ulimit -f 0; "${sim[@]}" --csv "$work/csv" >/dev/null 2>&1); } 2>/dev/null
verdict $([ $? -ne 0 ] && cmp -s "$work/csv" "$work/old"; echo $?) "files of no size" "the old file is another"
