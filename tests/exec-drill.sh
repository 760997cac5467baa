#!/bin/sh
# Kills, stops, hangs, memory that is out and errors, of random ranks at random
# moments: each must end the run within 10 s, with one line that names the rank, a
# status that is not 0, no process left, and the finished steps reported.
# SIGTERM must end it within 1 s. DRILLS (6): how many; SEED (1).
set -u

if ! command -v mpirun >/dev/null || ! command -v tdp-run >/dev/null; then
  echo "skip drill: no mpirun or no tdp-run"
  exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
seed=${SEED:-1}
draw() { # draw N: below N
  seed=$(((seed * 1103515245 + 12345) % 2147483648))
  drawn=$((seed / 65536 % $1))
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }

start() { # start PLAN ARGS...: in the background
  plan=$1
  shift
  mpirun --oversubscribe -np 4 tdp-run -m tiny -c cpu -p "$plan" --steps 100000 "$@" >"$work/out" 2>"$work/err" &
  run=$!
}

wait_step() { # wait until step $1 has ended
  for _ in $(seq 300); do
    if grep -q "^step $1 of" "$work/err"; then return 0; fi
    sleep 0.1
  done
  return 1
}

# Processes of the run's ranks, in order.
ranks() { ps -o pid= --ppid "$run" | sort -n; }

judge() { # judge NAME PATTERN LIMIT_MS
  wait "$run"
  status=$?
  took=$(($(now_ms) - struck))
  lines=$(grep -c '^tdp-run: ' "$work/err")
  steps=$(grep -c '^ *[0-9][0-9]*  [0-9.]*  *[0-9.]*  ' "$work/out")
  left=0
  for pid in $pids; do if kill -0 "$pid" 2>/dev/null; then left=$((left + 1)); fi; done
  said=$(grep '^tdp-run: ' "$work/err" | head -n 1)
  if [ "$status" -eq 0 ]; then
    echo "not ok $1: exit status 0"
  elif [ "$took" -gt "$3" ]; then
    echo "not ok $1: took $took ms"
  elif [ "$lines" -ne 1 ] || ! echo "$said" | grep -q "$2"; then
    echo "not ok $1: $lines lines: $said"
  elif [ "$left" -ne 0 ]; then
    echo "not ok $1: $left processes left"
  elif [ "$steps" -lt 2 ]; then
    echo "not ok $1: reports $steps steps"
  else
    echo "ok $1: $took ms, $said"
  fi
}

drill() { # drill NUMBER
  draw 4
  rank=$drawn
  draw 2
  if [ "$drawn" -eq 0 ]; then plan=tiny-1f1b; else plan=tiny-tp2-dp2; fi
  draw 5
  kind=$(echo kill stop hang memory error | cut -d ' ' -f $((drawn + 1)))
  draw 300
  task=$((200 + drawn))
  case $kind in
  kill | stop)
    start "$plan"
    wait_step 2
    sleep "0.$drawn"
    pids=$(ranks)
    struck=$(now_ms)
    kill "-$(echo $kind | tr a-z A-Z)" "$(echo "$pids" | sed -n $((rank + 1))p)"
    ;;
  *)
    start "$plan" --fault "$kind:$rank:$task"
    wait_step 2
    pids=$(ranks)
    struck=$(now_ms)
    ;;
  esac
  judge "drill $1, $kind of rank $rank in $plan" "rank $rank" 10000
}

for i in $(seq "${DRILLS:-6}"); do drill "$i"; done

start tiny-1f1b
wait_step 2
pids=$(ranks)
struck=$(now_ms)
kill -TERM "$run"
judge "drill SIGTERM" "SIGTERM" 1000
