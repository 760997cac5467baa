#!/bin/sh
# The executor over MPI: parity of some plans with one rank, data of each
# communication call, PyTorch's losses, what is refused.
set -u

for tool in mpirun tdp-run; do
  if ! command -v $tool >/dev/null; then
    echo "skip exec: no $tool"
    exit 0
  fi
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

check() { # check NAME COMMAND...
  name=$1
  shift
  if "$@" >"$work/out" 2>"$work/err"; then
    echo "ok $name: $(tail -n 1 "$work/out")"
  else
    echo "not ok $name: exit status $?: $(tail -n 1 "$work/out")"
    cat "$work/out" "$work/err"
  fi
}

run() { mpirun --oversubscribe -np "$@"; }

reference() { # reference MODEL: losses and norms within 1e-5 of PyTorch's
  tdp-run -m "$1" -c cpu -p tiny-single --json 2>/dev/null |
    awk -v model="$1" -F '[:,]' '
      BEGIN {
        while ((getline line < "tests/reference/losses.csv") > 0) {
          split(line, cell, ",")
          if (cell[1] == model) { loss[cell[2]] = cell[3]; norm[cell[2]] = cell[4] }
        }
      }
      function off(found, expected) { d = found / expected - 1; return d < 0 ? -d : d }
      /"loss"/ { n++; if (off($2, loss[n]) > worst) worst = off($2, loss[n]) }
      /"grad_norm"/ { if (off($2, norm[n]) > worst) worst = off($2, norm[n]) }
      END { print n " steps, worst difference " worst; exit !(n == 10 && worst < 1e-5) }'
}

for n in 2 4; do
  check "parity, $n ranks" run $n "$BUILD/tests/mpi/parity" "${PLANS:-4}"
done
check "communication, 3 ranks" run 3 "$BUILD/tests/mpi/comm_check"
for model in tiny tiny-llama; do check "PyTorch, $model" reference $model; done
