# Of tests/gpu/full: the whole of it without a GPU, so that no minute of one is spent on a typo.

# What a bare machine surely lacks of the bundle's libraries; this machine's tools need the others themselves.
hideable() { grep -E '/lib(glib|cjson|gsl|gslcblas|openblas)[-.]' "$work/bundle/lib/origins"; }

# The bundle's run as on a bare machine: no variables, neither this tree nor any hideable library, where the system
# lets a namespace of mounts hide them.
bare() { # bare RUN-ARGUMENT...
  set -- env -i PATH=/usr/bin:/bin HOME="$work" PYTHON="${PYTHON:-python3}" BACKEND="$backend" SMALL=1 \
    STATE="$work/state" ONLY="${ONLY:-}" DRILL="${DRILL:-}" "$work/bundle/tests/gpu/full" run "$@"
  if [ -z "$hides" ]; then
    (cd "$work" && exec "$@")
  else
    unshare -m sh -c '
      while read -r library; do mount --bind /dev/null "$(readlink -f "$library")" || exit; done <"$1/hidden"
      mount -t tmpfs none "$2" && cd "$1" || exit
      shift 2
      exec "$@"' sh "$work" "$root" "$@"
  fi
}

expect() { # expect NAME COMMAND...
  what=$1
  shift
  if "$@" >"$work/expect" 2>&1; then
    echo "ok rehearsal: $what"
  else
    echo "not ok rehearsal: $what"
    cat "$work/expect"
    wrong=1
  fi
}

# Words of the summary that are neither ok nor skip, with their steps.
troubles() { awk '$1 != "ok" && $1 != "skip" { print $1 ":" $2 }' "$work/out/summary.txt" | sort | paste -sd ' '; }

# So many steps have a line, and none but EXPECTED is in trouble.
only_troubles() { # only_troubles STEPS EXPECTED
  found=$(troubles)
  [ "$found" = "$2" ] && [ "$(awk '{ print $2 }' "$work/out/summary.txt" | sort -u | wc -l)" -eq "$1" ] && return
  echo "expected \"$2\" of $1 steps, found \"$found\""
  cat "$work/out/summary.txt" "$work"/state/*.log
  return 1
}

readable() {
  tar -tzf "$work/out/results.tar.gz" >"$work/list" && grep -q '^\./device.log$' "$work/list" &&
    [ "$(tail -c 1 "$work/out/summary.txt" | wc -l)" -eq 1 ] && [ -s "$work/state/done" ]
}

# Every plan at its full size is one that the executor takes (it then finds no such backend) and fits an H200.
plans_fit() {
  small= backend=none libs=$work/bundle/lib bin=$work/bundle/bin wrong_plans=0
  cd "$work" || return
  for name in $(awk '!/^#/ { print $1 }' "$here/plans"); do
    plan_files "$name"
    program tdp-run --backend none -m "./model-$name.json" -c hgx-h200 -p "./plan-$name.json" 2>&1 |
      grep -q "^tdp-run: --backend: none: no such backend" &&
      program tdp-sim -m "./model-$name.json" -c hgx-h200 -p "./plan-$name.json" --json | grep -q '"fits": true' ||
      { echo "$name"; wrong_plans=1; }
  done
  return $wrong_plans
}

afresh() { rm -rf "$work/state" "$work/out"; }

in_session() { # in_session LEADER: its processes
  cat /proc/[0-9]*/stat 2>/dev/null | awk -v leader="$1" '{
    pid = $1; sub(/.*\) /, ""); if ($4 == leader && $1 != "Z") print pid }'
}

# With setsid, so that all of it is killed at once, as when a machine is taken back: a moment after so many
# steps have passed. One that began while the others were listed is killed in the next turn.
killed_after() { # killed_after STEPS
  export work root hides backend
  setsid sh -c '. "$0/rehearse.sh"; bare out' "$here" >"$work/killed.txt" 2>&1 &
  leader=$!
  until [ "$(grep -c . "$work/state/done" 2>/dev/null)" -ge "$1" ] 2>/dev/null; do
    kill -0 $leader 2>/dev/null || break
    sleep 0.1
  done
  sleep "0.$(($$ % 10))"
  while left=$(in_session $leader) && [ -n "$left" ]; do
    kill -KILL $left 2>/dev/null
  done
  wait $leader 2>/dev/null
}

# On a device that is emulated, a calibration would take hours.
rehearse() { # rehearse [BUILD]
  from=${1:-$root/build} backend=${BACKEND:-cpu} wrong=0 hides=
  work=$(mktemp -d) || exit 2
  trap 'rm -rf "$work"' EXIT
  unshare -m true 2>/dev/null && hides=1
  [ -n "$hides" ] || echo "no namespace of mounts: what the bundle lacks may be found on this machine"
  bundle "$work/bundle" "$from" || exit 1
  hideable >"$work/hidden"
  expect "plans at their full size are executable and fit" eval '(plans_fit)'

  [ "$backend" = cpu ] || [ -n "${ONLY:-}" ] || ONLY=$(steps | awk '$1 != "calibrate" { print $1 }' | paste -sd '|')
  began=$(date +%s) all=$(steps | grep -cE "^(${ONLY:-.*}) ")
  bare out --budget 3600
  expect "all steps, in $(($(date +%s) - began)) s" only_troubles "$all" ""

  afresh
  ONLY='device|kernels|training-fp32|ranks|plan-gpt2-32' DRILL="fail:training-fp32 hang:ranks" bare out \
    >"$work/drill.txt"
  expect "the others survive a step that fails and one that hangs" only_troubles 5 "FAILED:training-fp32 late:ranks"

  afresh
  killed_after 2
  expect "what a kill left is readable" readable
  before=$(wc -l <"$work/state/done")
  bare out --budget 3600 >"$work/after.txt"
  expect "a call behind it goes on after $before steps" only_troubles "$all" ""
  ran=$(grep -cE '^[a-zA-Z]+ .* [0-9]+ s  ' "$work/after.txt")
  expect "and runs none of these again" [ "$ran" -le $((all - before)) ]
  exit $wrong
}
