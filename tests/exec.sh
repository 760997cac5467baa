#!/bin/sh
# The executor: PyTorch's losses, data of each communication call, what passes run, op by op, numbers that are not
# finite, the loss scale, parity of some plans with one rank. PLANS (cover: each setting and schedule once, for three
# steps of half the sequences through half the layers): how many of each number of ranks; all: the whole table, also of
# 8 ranks, printed. STOP: exit 1 where a check fails.
set -u

if ! command -v tdp-run >/dev/null; then
  echo "skip exec: no tdp-run"
  exit 0
fi
. tests/mpi/environment
work=$(mktemp -d) || exit 1
export OMPI_MCA_orte_tmpdir_base="$work" # what a killed mpirun leaves goes with it
trap 'rm -rf "$work"' EXIT

check() { # check NAME COMMAND...
  name=$1
  shift
  if "$@" >"$work/out" 2>"$work/err"; then
    echo "ok $name: $(tail -n 1 "$work/out")"
  else
    echo "not ok $name: exit status $?: $(tail -n 1 "$work/out")"
    cat "$work/out" "$work/err"
    [ -z "${STOP-}" ] || exit 1
  fi
}

mpi() { mpirun --oversubscribe -np "$@"; }

# Losses within 1e-6 of PyTorch's, and norms of gradients within 1e-4: these move with the order of sums, as Adam's
# first steps divide small gradients by themselves (OpenBLAS's kernels for one processor differ by 3e-6 to 2e-5).
reference() { # reference CASE MODEL PLAN
  tdp-run -m "$2" -c cpu -p "$3" --json 2>/dev/null |
    awk -v model="$1" -F '[:,]' '
      BEGIN {
        while ((getline line < "tests/reference/losses.csv") > 0) {
          split(line, cell, ",")
          if (cell[1] == model) { loss[cell[2]] = cell[3]; norm[cell[2]] = cell[4] }
        }
      }
      function off(found, expected) { d = found / expected - 1; return d < 0 ? -d : d }
      /"loss"/ { n++; if (off($2, loss[n]) > worst) worst = off($2, loss[n]) }
      /"grad_norm"/ { if (off($2, norm[n]) > norms) norms = off($2, norm[n]) }
      END {
        print n " steps, worst difference of losses " worst ", of norms " norms
        exit !(n == 10 && worst < 1e-6 && norms < 1e-4)
      }'
}

parity() { # parity N
  # shellcheck disable=SC2086 # two arguments, or none
  check "parity, $1 ranks" mpi "$1" "$BUILD/tests/mpi/parity" "$plans" 1/1 cpu $steps $size
  if [ "$plans" = all ]; then cat "$work/out"; fi
}

# A weight that is not a number on rank 1 ends the run: both ranks name it, and the steps before it are reported.
nan() {
  mpi 2 tdp-run -m tiny -c cpu -p tiny-dp2 --fault nan:1:60 >"$work/report" 2>"$work/said"
  [ $? -eq 1 ] && [ "$(grep -c '^tdp-run: ' "$work/said")" -eq 2 ] && grep -q '^   2  ' "$work/report" &&
    grep '^tdp-run: rank 1: step 5, .*: loss nan, gradient norm nan$' "$work/said"
}

# The core whose kernels a run names where OPENBLAS_CORETYPE is this; empty: where it is not set.
core_of() {
  if [ -n "$1" ]; then export OPENBLAS_CORETYPE="$1"; fi
  tdp-run -m tiny -c cpu -p tiny-single --steps 1 2>/dev/null | sed -n 's/^device .* OpenBLAS //p'
}

# A core that the variable names is taken, and without it one that is not of 2004 where the processor has AVX2, whether
# OpenBLAS knows the processor or the executor chooses (test_exec_parts says which). A build for one core has that,
# whatever is named.
products() {
  mine=$(unset OPENBLAS_CORETYPE; core_of "") old=$(core_of Prescott) other=$(core_of Nehalem)
  if ! grep -q '^flags.* avx2 ' /proc/cpuinfo; then
    echo "$mine; no AVX2: nothing to choose"
    [ -n "$mine" ]
  elif [ "$old" = "$mine" ] && [ "$other" = "$mine" ]; then
    echo "$mine, for which alone OpenBLAS is built"
    [ -n "$mine" ]
  else
    echo "$mine; named, $old and $other"
    [ "$mine" != Prescott ] && [ "$old" = Prescott ] && [ "$other" = Nehalem ]
  fi
}

plans=${PLANS:-cover}
if [ "$plans" = cover ]; then steps=3 size="8 4"; else steps=10 size=; fi
check "OpenBLAS's kernels" products
for model in tiny tiny-llama; do check "PyTorch, $model" reference $model $model tiny-single; done
own=tests/reference
for model in window shared; do check "PyTorch, $model" reference $model $own/$model.json tiny-single; done
for plan in drop-probs drop-position; do check "PyTorch, $plan" reference $plan tiny-moe $own/$plan.json; done
if ! command -v mpirun >/dev/null; then
  echo "skip exec with several ranks: no mpirun"
  exit 0
fi
parity 2
parity 4
check "communication, 3 ranks" mpi 3 "$BUILD/tests/mpi/comm_check"
for what in all scatter; do check "a sum that fails, $what" mpi 2 "$BUILD/tests/mpi/sum_fails" $what; done
for ranks in 1 2 4; do check "passes as predicted, $ranks ranks" mpi $ranks "$BUILD/tests/mpi/pass_ops"; done
check "not a number" nan
check "loss scale, 2 ranks" mpi 2 "$BUILD/tests/mpi/scaling"
if [ "$plans" = all ]; then
  check "loss scale, 4 ranks" mpi 4 "$BUILD/tests/mpi/scaling"
  parity 8
fi
