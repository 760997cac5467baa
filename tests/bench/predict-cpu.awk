# The table of predict-cpu, from its lines of plans and steps; `reference` is that of the calibrations (0: none),
# `most` the withheld share up to which a step counts.

function abs(x) { return x < 0 ? -x : x }

# Mean over the plan's steps that count, each run brought to the calibrations' speed by its mean reference.
function mean_of(p, slope,   i, run, n, tr, rr, sum, all_n) {
  for (i = 1; i <= steps[p]; i++)
    if (counts(p, i)) { run = file[p, i]; n[run]++; tr[run] += t[p, i]; rr[run] += r[p, i] }
  for (run in n) { sum += at_speed(tr[run], rr[run] / n[run], slope); all_n += n[run] }
  return all_n ? sum / all_n : 0
}

function at_speed(seconds, found, slope) { return slope ? seconds * (reference / found) ^ slope : seconds }

# Steps that count; where a plan has none, all.
function counts(p, i) { return w[p, i] <= most || !undisturbed[p] }

# How much times follow the reference: the slope of logarithms of the means of runs, within each plan. (A step's own
# reference stands beside it alone and says less of its time than that of a run: their slope would be too low.)
function slope_of(   p, i, run, n, tr, rr, k, x, y, both, own) {
  for (p = 1; p <= plans; p++) {
    split("", n); split("", tr); split("", rr)
    x = y = k = 0
    for (i = 1; i <= steps[p]; i++)
      if (counts(p, i) && r[p, i] > 0) { run = file[p, i]; n[run]++; tr[run] += t[p, i]; rr[run] += r[p, i] }
    for (run in n) { k++; x += log(rr[run] / n[run]); y += log(tr[run] / n[run]) }
    for (run in n) {
      both += (log(rr[run] / n[run]) - x / k) * (log(tr[run] / n[run]) - y / k)
      own += (log(rr[run] / n[run]) - x / k) ^ 2
    }
  }
  return own > 0 && reference > 0 ? both / own < 0 ? 0 : both / own > 1 ? 1 : both / own : 0
}

# Standard deviation of a run's mean over the plan's, at the calibrations' speed.
function spread_of(p, slope, mean,   i, run, n, tr, rr, k, d) {
  for (i = 1; i <= steps[p]; i++)
    if (counts(p, i)) { run = file[p, i]; n[run]++; tr[run] += t[p, i]; rr[run] += r[p, i] }
  for (run in n) { k++; d += (at_speed(tr[run] / n[run], rr[run] / n[run], slope) / mean - 1) ^ 2 }
  return k > 1 ? sqrt(d / (k - 1)) : 0
}

function add(group, e) {
  total[group] += abs(e); bias[group] += e; count[group]++
  if (abs(e) > worst[group]) worst[group] = abs(e)
}

function summary(group, name) {
  printf "%-44s %2d plans: mean error %4.1f %%, worst %4.1f %%, bias %+.1f %%\n", name, count[group],
         100 * total[group] / count[group], 100 * worst[group], 100 * bias[group] / count[group]
}

$1 == "plan" { plans = $2; set[$2] = $3; sweep[$2] = $4; keys[$2] = $5; predicted[$2] = $6 }
$1 == "step" {
  i = ++steps[$2]; file[$2, i] = $3; t[$2, i] = $4; w[$2, i] = $5; r[$2, i] = $6
  all++; if ($5 <= most) undisturbed[$2]++; else disturbed++
}
END {
  slope = slope_of()
  printf "%-9s %-86s %8s %8s %8s %7s %6s\n", "sweep", "plan", "pred ms", "meas ms", "error", "spread", "steps"
  for (p = 1; p <= plans; p++) {
    if (!steps[p]) continue
    mean = measured[p] = mean_of(p, slope)
    label = keys[p]
    gsub(/"|micro_batch_size": |_model_parallel_size|_parallel_size|pipeline_schedule": |_granularity/, "", label)
    sub(/virtual_pipeline/, "vpp", label)
    e = predicted[p] / mean - 1
    spread = spread_of(p, slope, mean)
    spreads += spread; shown++
    printf "%-9s %-86s %8.1f %8.1f %+6.1f %% %5.1f %% %3d/%d\n", sweep[p], label, 1000 * predicted[p], 1000 * mean, 100 * e,
           100 * spread, undisturbed[p], steps[p]
    add(set[p], e)
    add("raw " set[p], predicted[p] / mean_of(p, 0) - 1)
    of[sweep[p]] = of[sweep[p]] " " p
  }
  printf "%d steps, of which %d were disturbed and do not count; a run's mean spreads by %.1f %%; runs follow the reference by %.2f\n",
         all, disturbed, 100 * spreads / shown, slope
  split("first second", order, " ")
  for (k = 1; k <= 2; k++)
    if (count[order[k]]) {
      summary(order[k], order[k] " set, at the calibrations' speed:")
      summary("raw " order[k], order[k] " set, as measured:")
    }
  for (s in of) {
    n = split(of[s], q, " "); best = first = q[1]; better = 0
    for (i = 1; i <= n; i++) {
      if (measured[q[i]] < measured[best]) best = q[i]
      if (predicted[q[i]] < predicted[first]) first = q[i]
    }
    for (i = 1; i <= n; i++) if (predicted[q[i]] < predicted[best]) better++
    if (n > 1)
      printf "%-9s best measured plan is predicted number %d of %d; first choice is %.1f %% from the best\n", s ":", better + 1, n,
             100 * (measured[first] / measured[best] - 1) | "sort"
  }
}
