"""How the rates of like devices differ, for good and from one pass to the next: rate_spread and rate_passing of
hardware/gpus (hardware/README.md), from the traces of three jobs that ByteDance published.

    device_rates.py DIRECTORY

Needs pyarrow. DIRECTORY has trace-AR.parquet, trace-ST.parquet and trace-SE.parquet (data/ of
ByteDance-Seed/StragglerAnalysis @8efcd7f), which time each micro-batch's forward and backward on one rank of each
group of ranks that meet inside passes: 4 tensor-parallel ones in AR, one in ST, 2 that share a sequence in SE.

Replicas compute the same at the same time, so what they have in common is taken off: in AR and ST the mean over
replicas of log seconds, in each stage, step and micro-batch; in SE, whose sequences differ in length, what the other
stage took for the same sequences, by a line. The slow rank that AR was given is left out. What is left is a mean of
each replica, which lasts, and the rest. A group takes as long as the slowest of its n ranks, whose variance is
VARIANCE[n] of one's. The rest is taken for the mean over a pass of an Ornstein-Uhlenbeck process (src/cost/README.md,
The slowest device): a deviation of each job and one correlation time, by least squares of the logarithms of the
variances of passes and of their means over a step.
"""
import collections
import math
import sys

import pyarrow.parquet

JOBS = {"AR": 4, "ST": 1, "SE": 2}  # ranks that meet inside passes
VARIANCE = {1: 1, 2: 0.6817, 4: 0.4917}  # of the largest of n normals (Harter 1961)
KINDS = ("forward-compute", "backward-compute")


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def passes(path):
    """Seconds and starts by kind, then by (stage, replica, step, micro-batch)."""
    table = pyarrow.parquet.read_table(path).to_pydict()
    found = {kind: {} for kind in KINDS}
    for i, kind in enumerate(table["optype"]):
        if kind in found:
            key = table["stage"][i], table["dp_rank"][i], table["step"][i], table["mb_id"][i]
            found[kind][key] = table["duration"][i], table["start_ts"][i]
    return found


def common_mean(of_stage):
    """Of (replica, step, micro-batch) to log seconds: each less its mean over replicas, as independent ones vary."""
    at = collections.defaultdict(list)
    for (_, step, micro), value in of_stage.items():
        at[step, micro].append(value)
    n = len({key[0] for key in of_stage})
    scale = math.sqrt(n / (n - 1))
    return {key: scale * (value - mean(at[key[1:]])) for key, value in of_stage.items()}


def line(first, second):
    """What `second` takes beyond a line of `first`, relative, over the root of 2; without what is 10 % off."""
    left = None
    for _ in range(6):
        keys = [key for key in second if left is None or abs(left[key]) < 0.1]
        weight = {key: second[key] ** -2 for key in keys}
        total = sum(weight.values())
        x = sum(weight[key] * first[key] for key in keys) / total
        y = sum(weight[key] * second[key] for key in keys) / total
        slope = (sum(weight[key] * (first[key] - x) * (second[key] - y) for key in keys)
                 / sum(weight[key] * (first[key] - x) ** 2 for key in keys))
        left = {key: (second[key] - y - slope * (first[key] - x)) / second[key] for key in second}
    return {key: value / math.sqrt(2) for key, value in left.items() if abs(value) < 0.1}


def residuals(job, found):
    """Lists of residuals by (replica, step, micro-batch), whose replicas' means differ by what lasts."""
    stages = sorted({key[0] for key in found})
    of = {s: {key[1:]: value[0] for key, value in found.items() if key[0] == s} for s in stages}
    if job == "SE":
        return [line(of[0], of[1])]
    return [common_mean({key: math.log(value) for key, value in of[s].items() if (job, s, key[0]) != ("AR", 0, 0)})
            for s in stages]


def parts(left):
    """Variances of what lasts, of passes and of their means over a step; micro-batches of a step."""
    replicas, steps = sorted({key[0] for key in left}), collections.defaultdict(list)
    of = {r: mean(value for key, value in left.items() if key[0] == r) for r in replicas}
    rest = {key: value - of[key[0]] for key, value in left.items()}
    for key, value in rest.items():
        steps[key[:2]].append(value)
    by_pass, by_step = mean(v * v for v in rest.values()), mean(mean(v) ** 2 for v in steps.values())
    middle = mean(of.values())
    # replicas' means, less the mean of all in each step as common_mean's are, differ by drawn passes besides
    lasting = sum((v - middle) ** 2 for v in of.values()) / len(replicas) - by_step * len(replicas) / len(steps)
    return lasting, by_pass, by_step, len(left) / len(steps)


def left_of(x):
    return 2 / x * (1 - (1 - math.exp(-x)) / x)


def of_step(seconds, apart, micro, lasts):
    """Share of the variance at a moment that is left of the mean over `micro` passes that begin `apart`."""
    x, n = seconds / lasts, round(micro)
    met = (1 - math.exp(-x)) ** 2 / x ** 2
    total = n * left_of(x)
    for k in range(1, n):
        total += 2 * (n - k) * met * math.exp(-(k * apart / lasts - x))
    return total / n ** 2


def measure(directory):
    """Rows of job, kind, ranks that meet, seconds of a pass, seconds apart and the parts' means over stages."""
    rows = []
    for job, ranks in JOBS.items():
        found = passes(f"{directory}/trace-{job}.parquet")
        for kind in KINDS:
            seconds = sorted(value[0] for value in found[kind].values())
            ends = collections.defaultdict(list)
            for key, value in found[kind].items():
                ends[key[:3]].append(value[1])
            apart = mean((max(v) - min(v)) / (len(v) - 1) for v in ends.values())
            each = [parts(left) for left in residuals(job, found[kind])]
            rows.append((job, kind, ranks, seconds[len(seconds) // 2], apart, *(mean(column) for column in zip(*each))))
    return rows


def fit(rows):
    """Deviation at a moment of each job and the correlation time, in seconds."""
    best = None
    for step in range(-20, 21):
        lasts, errors, found = 10 ** (step / 10), 0, {}
        for job in JOBS:
            logs = []
            for _, _, ranks, seconds, apart, _, by_pass, by_step, micro in (r for r in rows if r[0] == job):
                logs.append(math.log(by_pass / VARIANCE[ranks] / left_of(seconds / lasts)))
                logs.append(math.log(by_step / VARIANCE[ranks] / of_step(seconds, apart, micro, lasts)))
            found[job] = math.exp(mean(logs) / 2)
            errors += sum((value - mean(logs)) ** 2 for value in logs)
        if not best or errors < best[0]:
            best = errors, found, lasts
    return best[1:]


def main():
    rows = measure(sys.argv[1])
    print("job  kind              ranks  seconds   apart  lasting  of one   pass  of one  step's mean")
    for job, kind, ranks, seconds, apart, lasting, by_pass, by_step, _ in rows:
        lasts, varies, of_steps = (100 * math.sqrt(max(0, v)) for v in (lasting, by_pass, by_step))
        one = math.sqrt(VARIANCE[ranks])
        print(f"{job}   {kind:16}  {ranks:5}  {seconds:7.3f} {apart:7.3f} {lasts:7.2f}% {lasts / one:6.2f}%"
              f" {varies:5.2f}% {varies / one:6.2f}%  {of_steps:10.2f}%")
    jitter, lasts = fit(rows)
    for name, column in (("lasting", 5), ("passes", 6)):
        each = [math.sqrt(mean(max(0, r[column]) / VARIANCE[r[2]] for r in rows if r[0] == job)) for job in JOBS]
        print(f"{name}, of one: " + ", ".join(f"{job} {100 * s:.2f}%" for job, s in zip(JOBS, each)),
              f"mean {100 * mean(each):.2f}%")
    print("at a moment, of one: " + ", ".join(f"{job} {100 * j:.2f}%" for job, j in jitter.items()),
          f"mean {100 * mean(jitter.values()):.2f}%, for {lasts:.2f} s")


main()
