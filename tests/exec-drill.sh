#!/bin/sh
# What can go wrong with a run, from before its ranks meet to behind its last step: each fault must end it within 10 s
# (SIGTERM to all within 1 s) with a status that is not 0, a line of every rank that can still speak, one with the
# reason, no process left, and the finished steps reported. DRILLS (4): how many random ones, kills, stops, hangs,
# memory that is out and errors, of random ranks at random moments; SEED (1). tests/test_exec_control.c has what strangers
# do, secrets, and ranks that are not started by mpirun.
set -u

if ! command -v tdp-run >/dev/null || ! command -v mpirun >/dev/null; then
  echo "skip drill: no tdp-run or no mpirun"
  exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d) || exit 1
export OMPI_MCA_orte_tmpdir_base="$work" # what a killed mpirun leaves goes with it
trap 'rm -rf "$work"' EXIT
seed=${SEED:-1}
draw() { # draw N: below N
  seed=$(((seed * 1103515245 + 12345) % 2147483648))
  drawn=$((seed / 65536 % $1))
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }

# What one rank does instead of starting as the others: on RANK WHAT COMMAND...
cat >"$work/on" <<'END'
#!/bin/sh
rank=$1 what=$2
shift 2
if [ "$rank" = "$OMPI_COMM_WORLD_RANK" ]; then eval "$what"; fi
exec "$@"
END
chmod +x "$work/on"

start() { # start NAME RANKS PLAN [RANK WHAT] [-- OPTIONS...]: in the background
  name=$1 ranks=$2
  mkdir "$work/$name"
  cp "plans/$3.json" "$work/$name/plan.json"
  shift 3
  on=none what=true
  if [ $# -ge 2 ] && [ "$1" != -- ]; then
    on=$1 what=$2
    shift 2
  fi
  if [ $# -gt 0 ]; then shift; fi
  : >"$work/$name/err"
  began=$(now_ms) struck=$began
  timeout -k 1 60 mpirun --oversubscribe -np "$ranks" "$work/on" "$on" "$what" tdp-run -m tiny -c cpu \
    -p "$work/$name/plan.json" --steps 100000 "$@" >"$work/$name/out" 2>"$work/$name/err" &
  run=$!
}

wait_line() { # wait, at most a minute and while it runs, until the run has said it
  for _ in $(seq 600); do
    if grep -q "$1" "$work/$name/err"; then return 0; fi
    case $(ps -o stat= -p "$run") in '' | Z*) break ;; esac
    sleep 0.1
  done
  if grep -q "$1" "$work/$name/err"; then return 0; fi
  echo "not ok drill, $name: the run never said $1"
  cat "$work/$name/err"
  exit 1
}
wait_step() { wait_line "^step $1 of"; }

# Processes of the run's ranks, in order; one that has ended waits for mpirun as a zombie.
pids() {
  ps -ww -C tdp-run,on,sleep -o pid=,stat=,args= |
    awk -v plan="$work/$name/plan.json" '$2 !~ /^Z/ && index($0, plan) && !/mpirun/ { print $1 }' | sort -n
}
strike() { # strike SIGNAL RANK
  struck=$(now_ms)
  kill "-$1" "$(pids | sed -n $(($2 + 1))p)"
}

# Ranks have ended when there were some and there are none. What started them then has 5 s: Open MPI 4.1.4's mpirun
# now and then stays for ever, without a process, when a rank dies while it is being connected ("PMIX ERROR:
# UNREACHABLE").
judge() { # judge STATUS SPEAKERS STEPS PATTERN [LIMIT_MS]: status 0 = any but that, pattern - = none
  seen=$([ "$struck" -eq "$began" ] || echo yes) stays=
  while [ -z "$seen" ] || [ -n "$(pids)" ]; do
    if [ -n "$(pids)" ]; then seen=yes; fi
    kill -0 "$run" 2>/dev/null || break
    sleep 0.05
  done
  took=$(($(now_ms) - struck))
  for _ in $(seq 100); do
    case $(ps -o stat= -p "$run") in '' | Z*) break ;; esac
    sleep 0.05
  done
  case $(ps -o stat= -p "$run") in
  '' | Z*) ;;
  *)
    stays=", though mpirun stayed and was killed"
    kill -KILL -- "-$run"
    ;;
  esac
  wait "$run"
  status=$?
  lines=$(grep '^tdp-run: ' "$work/$name/err" | grep -vc ': dropped a connection')
  steps=$(grep -c '^ *[0-9][0-9]*  [0-9.]*  *[0-9.]*  ' "$work/$name/out")
  said=$(grep '^tdp-run: ' "$work/$name/err" | grep "$4" | head -n 1)
  if [ "$status" -eq 0 ] || { [ "$1" -ne 0 ] && [ "$status" -ne "$1" ]; }; then
    wrong="exit status $status"
  elif [ "$took" -gt "${5:-10000}" ]; then
    wrong="took $took ms"
  elif [ "$lines" -lt "$2" ] || [ "$lines" -gt "$ranks" ]; then
    wrong="$lines lines, expected $2"
  elif [ -z "$said" ] && [ "$4" != - ]; then
    wrong="nobody said $4"
  elif [ -n "$(pids)" ]; then
    wrong="processes left: $(pids)"
  elif [ "$steps" -lt "$3" ]; then
    wrong="reports $steps steps"
  else
    echo "ok drill, $name: $took ms$stays, $said"
    return
  fi
  echo "not ok drill, $name: $wrong"
  grep -v '^step' "$work/$name/err"
}

# ---- before the ranks meet: deadlines, so all at once ----

(
  start "rank 0 never starts" 2 tiny-dp2 0 "exec sleep 60" -- --meet 4
  judge 1 1 0 "rank 1: start: the ranks have not met within 4 s: "
) &
(
  start "rank 1 stopped at 0.02 s" 2 tiny-dp2 1 '(sleep 0.02 && kill -STOP $$) &' -- --meet 4
  judge 1 1 0 "rank 0: start: the ranks have not met within 4 s: "
) &
(
  start "300 MB of address space on rank 1" 2 tiny-dp2 1 "ulimit -v 300000"
  judge 1 2 0 "rank 1: .*out of memory"
) &
# While rank 1 is late, garbage and a silent connection: they are dropped, and the ranks meet. Then they find that
# they were not started by MPI.
(
  name=strangers
  mkdir "$work/$name"
  export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((21000 + $$ % 9000))
  RANK=0 timeout 30 tdp-run -m tiny -c cpu -p tiny-dp2 2>"$work/$name/err" &
  run=$!
  # shellcheck disable=SC2016 # bash's
  timeout 30 bash -c '
    until exec 3<>/dev/tcp/127.0.0.1/$0; do sleep 0.05; done 2>/dev/null
    exec 4<>/dev/tcp/127.0.0.1/$0
    head -c 100000 /dev/zero >&4
    sleep 4' $((MASTER_PORT + 1)) 2>/dev/null &
  sleep 4
  RANK=1 timeout 30 tdp-run -m tiny -c cpu -p tiny-dp2 2>"$work/$name/other"
  wait "$run"
  if [ "$(grep -c 'dropped a connection' "$work/$name/err")" -eq 2 ] && grep -q 'talk by MPI' "$work/$name/err" &&
    grep -q 'talk by MPI' "$work/$name/other"; then
    echo "ok drill, $name: $(grep 'dropped' "$work/$name/err" | head -n 1)"
  else
    echo "not ok drill, $name"
    cat "$work/$name/err" "$work/$name/other"
  fi
) &

for rank in 0 1; do
  start "rank $rank killed at 0.02 s" 2 tiny-dp2 $rank '(sleep 0.02 && kill -KILL $$) &'
  judge 0 0 0 - # the other may not have come to main
done

# ---- different orders ----

sed 's/"micro_batch_size":2/"micro_batch_size":1/' plans/tiny-dp2.json >"$work/other.json"
while read -r options line; do
  start "${options##*/} on rank 1 alone" 2 tiny-dp2 1 "set -- \"\$@\" $(echo "$options" | tr = ' ')"
  judge 2 2 0 "$line"
done <<END
--steps=7 rank 1: --steps: 7: expected 100000, as rank 0 has it
--seed=2 rank 1: --seed: 2: expected 1, as rank 0 has it
--rate=0.5 rank 1: --rate: 0.5: expected 0.001
-m=tiny-llama rank 1: model: .*: expected .*, as rank 0 has it
-p=$work/other.json rank 1: plan.micro_batch_size: 1: expected 2, as rank 0 has it
-c=nowhere rank 1: .*nowhere
END

# ---- while it runs ----

start "a loss that is no number" 2 tiny-dp2 -- --rate 1e9
judge 1 2 1 "step [0-9]*, .*: loss .*nan"

random() { # random NUMBER
  draw 4
  rank=$drawn
  draw 2
  if [ "$drawn" -eq 0 ]; then plan=tiny-1f1b; else plan=tiny-tp2-dp2; fi
  draw 5
  kind=$(echo kill stop hang memory error | cut -d ' ' -f $((drawn + 1)))
  draw 150
  task=$((120 + drawn)) speakers=4
  case $kind in
  kill | stop)
    speakers=3
    start "$1, $kind of rank $rank in $plan" 4 $plan
    wait_step 2
    sleep "0.$drawn"
    strike "$(echo $kind | tr a-z A-Z)" "$rank"
    ;;
  *)
    start "$1, $kind of rank $rank in $plan" 4 $plan -- --fault "$kind:$rank:$task"
    wait_line '^drill'
    struck=$(now_ms)
    ;;
  esac
  judge 0 $speakers 2 "rank $rank"
}
for i in $(seq "${DRILLS:-4}"); do random "$i"; done

start "SIGTERM" 4 tiny-1f1b
wait_step 2
struck=$(now_ms)
# shellcheck disable=SC2046 # one word a process
kill -TERM $(pids)
judge 0 4 2 "SIGTERM" 1000

# ---- behind the last step: rank 0 writes to a pipe that nobody reads ----

mkfifo "$work/pipe"
for kind in KILL STOP; do
  start "$kind of rank 1 behind the last step" 2 tiny-dp2 -- --steps 2 --trace-merged "$work/pipe"
  wait_step 2
  sleep 0.5
  strike $kind 1
  judge 0 1 2 "rank 1 .*; last seen in the report, behind the last step"
done
wait
