#!/bin/sh
# Kills, stops, hangs, memory that is out and errors, of random ranks at random
# moments: each must end the run within 10 s, with one line that names the rank, a
# status that is not 0, no process left, and the finished steps reported.
# SIGTERM to all ranks must end them within 1 s. Every second run is started by
# mpirun, where there is one, the others talk over TCP. DRILLS (4): how many; SEED (1).
set -u

if ! command -v tdp-run >/dev/null; then
  echo "skip drill: no tdp-run"
  exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
seed=${SEED:-1} by=ranks
draw() { # draw N: below N
  seed=$(((seed * 1103515245 + 12345) % 2147483648))
  drawn=$((seed / 65536 % $1))
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }

start() { # start PLAN ARGS...: in the background
  plan=$1
  shift
  : >"$work/err"
  if [ "$by" = ranks ] && command -v mpirun >/dev/null; then by=mpirun; else by=ranks; fi
  if [ "$by" = mpirun ]; then launch="mpirun --oversubscribe -np"; else launch=tests/ranks; fi
  # shellcheck disable=SC2086 # several words
  PORT=$((29900 + $$ % 1000)) timeout -k 1 60 $launch 4 tdp-run -m tiny -c cpu -p "$plan" --steps 100000 "$@" >"$work/out" 2>"$work/err" &
  run=$!
}

wait_line() { # wait, at most a minute and while it runs, until the run has said it
  for _ in $(seq 600); do
    if grep -q "$1" "$work/err"; then return 0; fi
    case $(ps -o stat= -p "$run") in '' | Z*) break ;; esac
    sleep 0.1
  done
  if grep -q "$1" "$work/err"; then return 0; fi
  echo "not ok drill: the run never said $1"
  cat "$work/err"
  exit 1
}
wait_step() { wait_line "^step $1 of"; }

# Processes of the run's ranks, in order.
ranks() {
  launcher=$(ps -o pid= --ppid "$run" | tr -d ' ')
  if [ -n "$launcher" ]; then ps -o pid= --ppid "$launcher" | sort -n; fi
}

alive() { # a process that has ended waits for mpirun as a zombie
  if [ -z "$pids" ]; then return 1; fi
  # shellcheck disable=SC2086 # one word a process
  n=$(ps -o stat= -p "$(echo $pids | tr ' ' ,)" | grep -cv '^Z')
  [ "$n" -gt 0 ]
}

judge() { # judge NAME PATTERN LIMIT_MS: of the time until no rank is left
  for _ in $(seq 1200); do
    if ! alive; then break; fi
    sleep 0.05
  done
  took=$(($(now_ms) - struck))
  wait "$run"
  status=$?
  lines=$(grep -c '^tdp-run: ' "$work/err")
  steps=$(grep -c '^ *[0-9][0-9]*  [0-9.]*  *[0-9.]*  ' "$work/out")
  said=$(grep '^tdp-run: ' "$work/err" | head -n 1)
  if [ "$status" -eq 0 ]; then
    echo "not ok $1: exit status 0"
  elif [ "$took" -gt "$3" ]; then
    echo "not ok $1: took $took ms"
  elif [ "$lines" -ne 1 ] || ! echo "$said" | grep -q "$2"; then
    echo "not ok $1: $lines lines: $said"
    grep -v '^step' "$work/err"
  elif alive; then
    echo "not ok $1: $n processes left"
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
  draw 150
  task=$((120 + drawn))
  case $kind in
  kill | stop)
    start "$plan"
    wait_step 2
    sleep "0.$drawn"
    pids=$(ranks)
    struck=$(now_ms)
    kill "-$(echo $kind | tr a-z A-Z)" $(echo "$pids" | sed -n $((rank + 1))p)
    ;;
  *)
    start "$plan" --fault "$kind:$rank:$task"
    wait_step 2
    pids=$(ranks)
    wait_line '^drill'
    struck=$(now_ms)
    ;;
  esac
  judge "drill $1, $kind of rank $rank in $plan by $by" "rank $rank" 10000
}

for i in $(seq "${DRILLS:-4}"); do drill "$i"; done

for i in 1 2; do
  start tiny-1f1b
  wait_step 2
  pids=$(ranks)
  struck=$(now_ms)
  # shellcheck disable=SC2086 # one word a process
  kill -TERM $pids
  judge "drill SIGTERM by $by" "SIGTERM" 1000
done
