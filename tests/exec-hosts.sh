#!/bin/sh
# Ranks on two hosts, which are two network namespaces joined by a cable, each with an interface before it that leads
# nowhere: by mpirun with a launch agent, and by torchrun's variables without LOCAL_WORLD_SIZE; then the cable is cut, CUTS
# (1) times, behind another step each.
set -u

if ! command -v tdp-run >/dev/null || ! command -v mpirun >/dev/null; then
  echo "skip two hosts: no tdp-run or no mpirun"
  exit 0
fi
a=tdp-$$-a b=tdp-$$-b
if ! ip netns add $a 2>/dev/null || ! ip netns add $b 2>/dev/null; then
  ip netns del $a 2>/dev/null
  echo "skip two hosts: no network namespaces for this user"
  exit 0
fi
. tests/mpi/environment
work=$(mktemp -d) || exit 1
export OMPI_MCA_orte_tmpdir_base="$work" # what a killed mpirun leaves goes with it
kill_all() {
  # shellcheck disable=SC2046 # one word a process
  kill -KILL $(ip netns pids $a) $(ip netns pids $b) 2>/dev/null
}
clear() {
  kill_all
  ip netns del $a
  ip netns del $b
  rm -rf "$work"
}
trap clear EXIT

cable() { # cable ONE OTHER NETWORK: an end on each host, of .1 and .2
  ip link add "$1" netns $a type veth peer name "$2" netns $b &&
    ip -n $a addr add "$3.1/24" dev "$1" && ip -n $b addr add "$3.2/24" dev "$2" &&
    ip -n $a link set "$1" up && ip -n $b link set "$2" up
}
for host in $a $b; do
  ip -n $host link set lo up && ip -n $host link add nowhere type veth peer name nobody &&
    ip -n $host addr add 10.98.0.1/24 dev nowhere && ip -n $host link set nowhere up && ip -n $host link set nobody up
done >"$work/out" 2>&1 && cable left right 10.97.0 >>"$work/out" 2>&1 || {
  echo "skip two hosts: $(tail -n 1 "$work/out")"
  exit 0
}

judge() { # judge NAME STATUS
  if [ "$2" -eq 0 ]; then
    echo "ok two hosts, $1"
  else
    echo "not ok two hosts, $1"
    cat "$work"/*.out
  fi
}

printf '#!/bin/sh\nshift\nexec ip netns exec %s sh -c "$*"\n' $b >"$work/agent"
chmod +x "$work/agent"
by_mpirun() { # by_mpirun OPTIONS...
  timeout -k 1 60 ip netns exec $a mpirun --mca plm_rsh_agent "$work/agent" --mca btl tcp,self \
    --mca btl_tcp_if_include 10.97.0.0/24 --mca oob_tcp_if_include 10.97.0.0/24 --host 10.97.0.1,10.97.0.2 -np 2 \
    tdp-run -m tiny -c cpu -p tiny-dp2 "$@"
}
# The streams apart: mpirun hands them on in pieces, and would put a line of one into the middle of another's.
by_mpirun --steps 2 >"$work/mpirun.out" 2>"$work/mpirun.err.out"
[ $? -eq 0 ] && grep -q '^step 2 of 2: ' "$work/mpirun.err.out"
judge "mpirun with a launch agent" $?

# Ranks on cores, which do not talk to one another without MPI, say so when they have met and found that they were
# given the same.
rank() { # rank RANK HOST SECRET
  RANK=$1 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=10.97.0.1 TDP_RUN_SECRET=$3 timeout -k 1 60 ip netns exec "$2" \
    tdp-run -m tiny -c cpu -p tiny-dp2 --steps 2 --meet 5 >"$work/rank$1.out" 2>&1
}
rank 0 $a one &
rank 1 $b one
wait
grep -q 'ranks on cores talk by MPI' "$work/rank0.out" && grep -q 'ranks on cores talk by MPI' "$work/rank1.out"
judge "by torchrun's variables" $?
rank 0 $a one &
rank 1 $b other
wait
grep -q 'rank 0: dropped a connection from 10.97.0.2:' "$work/rank0.out" &&
  grep -q 'no word of rank 1$' "$work/rank0.out" &&
  grep -q 'rank 1: start: rank 0 at 10.97.0.1:29501 .*: its secret is another' "$work/rank1.out"
judge "with another secret" $?

left() { ps -ww -C tdp-run -o args= | grep -- '-p tiny-dp2 --steps 100000'; }
said() { grep -q '^tdp-run: rank 1 has stopped answering; last seen in .*steps\? ' "$work/cut.out"; } # once mpirun hands it on
cut() { # cut STEP
  rm "$work"/*.out
  by_mpirun --steps 100000 >"$work/report.out" 2>"$work/cut.out" &
  for _ in $(seq 600); do
    if grep -q "^step $1 of" "$work/cut.out"; then break; fi
    sleep 0.1
  done
  struck=$(date +%s%N)
  ip -n $b link set right down
  for _ in $(seq 100); do
    if [ -z "$(left)" ] && said; then break; fi
    sleep 0.1
  done
  took=$((($(date +%s%N) - struck) / 1000000))
  said && [ -z "$(left)" ]
  judge "the cable cut behind step $1: both end within 10 s ($took ms)" $?
  kill_all # mpirun waits for the other host
  wait
  ip -n $b link set right up
}
for i in $(seq "${CUTS:-1}"); do cut $((20 + 40 * i)); done # beats have said where ranks are
