#!/bin/sh
# What can go wrong with a run, from before its ranks meet to behind its last step: each fault must end it within 10 s
# (SIGTERM to all within 1 s) with a status that is not 0, a line of every rank that can still speak, one that names the
# rank at fault, what it was doing and the reason, no process and no file left, and the finished steps reported. DRILLS (4):
# how many random ones: kills, stops, hangs, no memory, errors, weights that are not numbers, late ranks, wrong secrets,
# strangers, wrong options, of random ranks at random moments; SEED (1). tests/exec-hosts.sh cuts cables.
set -u

if ! command -v tdp-run >/dev/null || ! command -v mpirun >/dev/null; then
  echo "skip drill: no tdp-run or no mpirun"
  exit 0
fi
. tests/mpi/environment
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
seed=${SEED:-1}
draw() { # draw N: below N
  seed=$(((seed * 1103515245 + 12345) % 2147483648))
  drawn=$((seed / 65536 % $1))
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }

# What one rank does instead of starting as the others: on RANK WHAT COMMAND... WHAT may call instead OPTION VALUE, by
# which that rank has another value of an option that all have, or one that the others have not.
cat >"$work/on" <<'END'
#!/bin/sh
instead() {
  option=$1 value=$2
  shift 2
  for word; do
    shift
    if [ "$last" = "$option" ]; then set -- "$@" "$value" && option=
    else set -- "$@" "$word"; fi
    last=$word
  done
  if [ -n "$option" ]; then set -- "$@" "$option" "$value"; fi
  exec "$@"
}
rank=$1 what=$2
shift 2
if [ "$rank" = "$OMPI_COMM_WORLD_RANK" ]; then eval "$what"; fi
exec "$@"
END
chmod +x "$work/on"

start() { # start NAME RANKS PLAN [RANK WHAT] [-- OPTIONS...]: in the background
  name=$1 ranks=$2
  files=$work/files-${name%%,*} session=$work/session-${name%%,*} # Open MPI forgets files whose names have a comma
  mkdir -p "$work/$name" "$files" "$session"
  cp "plans/$3.json" "$work/$name/plan.json"
  shift 3
  on=none what=true
  if [ $# -ge 2 ] && [ "$1" != -- ]; then
    on=$1 what=$2
    shift 2
  fi
  if [ $# -gt 0 ]; then shift; fi
  case " $* " in *' --steps '*) ;; *) set -- --steps 100000 "$@" ;; esac
  : >"$work/$name/err"
  began=$(now_ms) struck=$began
  TMPDIR="$files" OMPI_MCA_btl_vader_backing_directory="$files" OMPI_MCA_orte_tmpdir_base="$session" \
    timeout -k 1 60 mpirun --oversubscribe -np "$ranks" "$work/on" "$on" "$what" tdp-run -m tiny -c cpu \
    -p "$work/$name/plan.json" "$@" >"$work/$name/out" 2>"$work/$name/err" &
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

# Files of ours. mpirun 4.1.4 now and then ends without having cleaned its session's folder: then it has not taken the
# shared memory of killed ranks away either.
left() {
  if [ -n "$(find "$session" -type f)" ]; then not='vader_segment.*'; else not=; fi
  find "$files" -type f ! -name "$not"
}

# Ranks have ended when there were some and there are none. What started them then has 5 s: Open MPI 4.1.4's mpirun
# now and then stays for ever, without a process, when a rank dies while it is being connected ("PMIX ERROR:
# UNREACHABLE").
judge() { # judge STATUS SPEAKERS STEPS PATTERN [LIMIT_MS]: status 0 = any but that
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
    kill -s KILL -- "-$run" # dash wants it so
    ;;
  esac
  wait "$run"
  status=$?
  lines=$(grep '^tdp-run: ' "$work/$name/err" | grep -vc ': dropped a connection')
  steps=$(grep -c '^ *[0-9][0-9]*  [0-9.]*  *[0-9.]*  ' "$work/$name/out")
  said=$(grep '^tdp-run: \|^mpirun noticed' "$work/$name/err" | grep "$4" | head -n 1)
  if [ "$status" -eq 0 ] || { [ "$1" -ne 0 ] && [ "$status" -ne "$1" ]; }; then
    wrong="exit status $status"
  elif [ "$took" -gt "${5:-10000}" ]; then
    wrong="took $took ms"
  elif [ "$lines" -lt "$2" ] || [ "$lines" -gt "$ranks" ]; then
    wrong="$lines lines, expected $2"
  elif [ -z "$said" ]; then
    wrong="nobody said $4"
  elif [ -z "$stays" ] && [ -n "$(left)" ]; then
    wrong="files left: $(left | head -n 3 | paste -sd ' ')"
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

# ---- ranks that mpirun does not start: they meet, and then find that they cannot talk ----

by_variables() { # by_variables RANK SECRET
  RANK=$1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TDP_RUN_SECRET=$2 timeout -k 1 30 \
    tdp-run -m tiny -c cpu -p tiny-dp2 2>"$work/$name/err$1"
}
pair() { # pair NAME SECRET STRANGERS PATTERN_OF_RANK_0 PATTERN_OF_RANK_1: strangers: bytes that each says
  name=$1 strangers=$3 began=$(now_ms)
  draw 9000
  port=$((21000 + ($$ + drawn) % 9000))
  mkdir "$work/$name"
  by_variables 0 mine &
  first=$!
  # shellcheck disable=SC2016 # bash's
  timeout 30 bash -c '
    port=$0
    until exec 9<>/dev/tcp/127.0.0.1/$port; do sleep 0.05; done 2>/dev/null
    for bytes; do
      exec {one}<>/dev/tcp/127.0.0.1/$port
      head -c "$bytes" /dev/urandom >&$one
    done
    sleep 4' $((port + 1)) $strangers 2>/dev/null &
  if [ -n "$strangers" ]; then sleep 4; fi
  by_variables 1 "$2"
  second=$?
  wait "$first"
  statuses=$?,$second took=$(($(now_ms) - began))
  dropped=$(grep -c 'dropped a connection' "$work/$name/err0")
  said=$(cat "$work/$name"/err? | grep -v ': dropped a' | tail -n 1)
  if [ "$took" -le 10000 ] && [ "$statuses" = 1,1 ] && [ "$dropped" -ge "$(echo "$strangers" | wc -w)" ] &&
    grep -q "$4" "$work/$name/err0" && [ "$(grep -c "$5" "$work/$name/err1")" -eq "$(wc -l <"$work/$name/err1")" ]; then
    echo "ok drill, $name: $took ms, $said"
  else
    echo "not ok drill, $name: $took ms, statuses $statuses, $dropped dropped"
    cat "$work/$name"/err?
  fi
}
talks='rank [01].*: start, opening the backend: backend cpu: ranks on cores talk by MPI'
secret() { # secret NAME SECRET
  pair "$1" "$2" "" "rank 0: start: the ranks have not met within .* s: no word of rank 1" \
    "rank 1: start: rank 0 at .* does not want it as rank 1 of 2: its secret is another"
}

# ---- before the ranks meet ----

late() { # late NAME RANK: it does not come
  start "$1" 2 tiny-dp2 "$2" "exec sleep 60" -- --meet 4
  judge 1 1 0 "rank $((1 - $2)): start: the ranks have not met within [45] s: "
}
at_start() { # at_start NAME SIGNAL RANK SECONDS
  start "$1" 2 tiny-dp2 "$3" "(sleep $4 && kill -$2 \$\$) &" -- --meet 4
  if [ "$2" = KILL ]; then # the other may not have come to main; mpirun ends it, and of both names one at most
    judge 0 0 0 "rank $3 \(died; last seen in \|with PID .* on signal 9\)\|rank $((1 - $3)): start: ended by SIGTERM"
  else
    judge 1 1 0 "rank $((1 - $3)): start: the ranks have not met within [45] s: \|rank $3 has stopped answering; last seen in "
  fi
}
little() { # little NAME RANK: of memory
  start "$1" 2 tiny-dp2 "$2" "ulimit -v 300000"
  judge 1 2 0 "rank $2: start, opening the backend: .*out of memory"
}

# Deadlines, so all at once.
late "rank 0 never starts" 0 &
at_start "rank 1 stopped at 0.02 s" STOP 1 0.02 &
little "300 MB of address space on rank 1" 1 &
(
  pair "strangers" mine "0 100000" "$talks" "$talks"
  secret "another secret" other
) &
wait
for rank in 0 1; do at_start "rank $rank killed at 0.02 s" KILL $rank 0.02; done

# ---- different orders ----

sed 's/"micro_batch_size":2/"micro_batch_size":1/' plans/tiny-dp2.json >"$work/other.json"
cat >"$work/orders" <<END
--steps=7 rank 1: --steps: 7: expected 100000, as rank 0 has it
--seed=2 rank 1: --seed: 2: expected 1, as rank 0 has it
--rate=0.5 rank 1: --rate: 0.5: expected 0.001
-m=tiny-llama rank 1: model: .*: expected .*, as rank 0 has it
-p=$work/other.json rank 1: plan.micro_batch_size: 1: expected 2, as rank 0 has it
-c=nowhere rank 1: .*nowhere
END
orders() { # orders NAME LINE
  sed -n "$2p" "$work/orders" >"$work/order"
  read -r options line <"$work/order"
  start "$1${options##*/} on rank 1 alone" 2 tiny-dp2 1 "instead $(echo "$options" | tr = ' ') \"\$@\""
  judge 2 2 0 "$line"
}
for i in $(seq "$(wc -l <"$work/orders")"); do orders "" "$i"; done

# ---- while it runs ----

start "a loss that is no number" 2 tiny-dp2 -- --rate 1e9
judge 1 2 1 "step [0-9]*, .*: loss .*nan"

signalled() { # signalled NAME SIGNAL RANK SECONDS REASON
  start "$1 in $plan" 4 "$plan"
  wait_step 2
  sleep "$4"
  strike "$2" "$3"
  judge 0 3 2 "rank $3 $5; last seen in \(step\|between\|steps\) "
}
struck() { # struck NAME KIND RANK PATTERN
  draw 150
  start "$1 in $plan" 4 "$plan" -- --fault "$2:$3:$((120 + drawn))"
  wait_line '^drill'
  struck=$(now_ms)
  judge 0 4 2 "$4"
}
# Rank 0 writes to a pipe that nobody reads.
behind() { # behind NAME SIGNAL RANK
  rm -f "$work/pipe"
  mkfifo "$work/pipe"
  start "$1" 2 tiny-dp2 -- --steps 2 --trace-merged "$work/pipe"
  wait_step 2
  sleep 0.5
  strike "$2" "$3"
  judge 0 1 2 "rank $3 .*; last seen in the report, behind the last step"
}

random() { # random NUMBER
  draw 4
  rank=$drawn
  draw 2
  if [ "$drawn" -eq 0 ]; then plan=tiny-1f1b; else plan=tiny-tp2-dp2; fi
  moment=$(($1 % 3))
  draw 10
  kind=$(echo kill stop hang memory error nan late secret strangers orders | cut -d ' ' -f $((drawn + 1)))
  name="$1, $kind of rank $rank" signal=$(echo $kind | tr a-z A-Z)
  reason=$([ $kind = kill ] && echo died || echo has stopped answering)
  draw 90
  case $kind,$moment in
  kill,0 | stop,0) at_start "$1, $kind of rank $((rank % 2)) at its start" "$signal" $((rank % 2)) "0.$((10 + drawn))" ;;
  kill,1 | stop,1) behind "$1, $kind of rank 1 behind the last step" "$signal" 1 ;;
  kill,* | stop,*) signalled "$name" "$signal" "$rank" "0.$((10 + drawn))" "$reason" ;;
  memory,0) little "$1, little memory of rank $((rank % 2))" $((rank % 2)) ;;
  hang,*) struck "$name" $kind "$rank" "rank $rank hangs: nothing has moved for .* s; it is in step " ;;
  memory,*) struck "$name" $kind "$rank" "rank $rank: step .*: out of memory: " ;;
  error,*) struck "$name" $kind "$rank" "rank $rank: step .*: an error of the drill" ;;
  nan,*) struck "$name" $kind "$rank" "rank [0-3]: step .*: loss .*nan" ;;
  late,*) late "$1, rank $((rank % 2)) does not come" $((rank % 2)) ;;
  secret,*) secret "$1, another secret" "other $drawn" ;;
  strangers,*) pair "$1, strangers" mine "0 $drawn $((drawn * drawn * 20 + 64))" "$talks" "$talks" ;;
  *) orders "$1, " $((drawn % 6 + 1)) ;;
  esac
}
for i in $(seq "${DRILLS:-4}"); do random "$i"; done

start "SIGTERM" 4 tiny-1f1b
wait_step 2
struck=$(now_ms)
# shellcheck disable=SC2046 # one word a process
kill -TERM $(pids)
judge 0 4 2 "SIGTERM" 1000

for signal in KILL STOP; do behind "$signal of rank 1 behind the last step" $signal 1; done
