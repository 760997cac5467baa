# The steps of tests/gpu/full, each run in a process of its own by it: `step_KIND [ARGUMENT]`. A step prints what it
# does, writes its files into $state, where it starts, and ends with one line that says its figure; its exit status
# is 0, 77 where the machine lacks what it needs, else a failure.
#
# From tests/gpu/full: $here (its folder), $root, $backend, $small (empty, or 1: sizes of a rehearsal), $python (empty:
# none with PyTorch) and program, which finds a program's libraries.

# The steps in order of worth: NAME PART LIMIT_S KIND ARGUMENT. Correctness first, then what needs one run to be
# fitted, then what it is compared with, then more of the same.
steps() {
  cat <<'EOF'
device            1  60 device
kernels           1  90 kernels 1
training-fp32     1  60 training fp32
training-bf16     1  60 training bf16
training-fp16     1  60 training fp16
ranks             1 120 ranks
calibrate         1 120 calibrate
EOF
  plans_of '$2 == 1 && n < 2'
  cat <<'EOF'
pytorch-gpt2      1  90 pytorch gpt2 32
pytorch-gpt2-xl   1 150 pytorch gpt2-xl 8
EOF
  plans_of '$2 == 1 && n >= 2 && n < 6'
  cat <<'EOF'
times-bf16        1  60 times bf16
EOF
  plans_of '$2 == 1 && n >= 6'
  cat <<'EOF'
odd-products      2 100 odd products
odd-attention     2  60 odd attention
odd-overheads     2  60 odd overheads
odd-experts       2 100 odd experts
odd-memory        2 120 odd memory
power             2  60 odd power
EOF
  plans_of '$2 == 2'
  cat <<'EOF'
kernels-seeds     2  60 kernels 2
times-fp16        2  60 times fp16
times-fp32        2  90 times fp32
pytorch-blocks    2  90 pytorch gpt2-xl 8 blocks
EOF
}

# Steps of tests/gpu/plans where an awk condition holds; n counts those before.
plans_of() {
  awk '!/^#/ { if ('"$1"') print "plan-" $1, $2, $3, "plan", $1; n++ }' "$here/plans"
}

# Numbers of the steps of a report.
values() { awk -F '[:,]' -v key="\"$1\"" '$1 ~ key { print $2 }' "$2"; }

# differ NAME KEY STEPS REPORT REFERENCE TOLERANCE: relatively, in the first so many steps
differ() {
  values "$2" "$4" >values.a && values "$2" "$5" >values.b || return 1
  paste values.a values.b | head -n "$3" | awk -v name="$1, $2" -v steps="$3" -v limit="$6" '
    { d = $1 / $2 - 1; d = d < 0 ? -d : d; if (!(d <= worst)) worst = d; n++ }
    END { printf "%-44s %3d steps, worst difference %.1e, allowed %g\n", name, n, worst, limit
          exit !(n == steps && worst < limit) }'
}

# With its usual epsilon, Adam moves a weight by the whole rate in the direction of a gradient that is rounding alone:
# two right programs then differ in single weights by twice the rate. On the loss this has no effect to first order,
# since those gradients are as good as 0; on the gradient it has: norms that differ by 7e-9 in the first step do by 3e-6
# in the fourth (tiny, one rank against four on cores). So losses are compared over all steps, norms only before
# the second update has come into them; and over all steps with an epsilon of 1, beside which the root of the second
# moment is small: the update is then as good as linear in the gradient, and differences grow 30-fold in ten steps.
smooth="--epsilon 1 --rate 1"
compare() { # compare NAME REPORT REFERENCE TOLERANCE, names without .json, with NAME-smooth.json beside them
  differ "$1" loss $count "$2.json" "$3.json" "$4" && differ "$1" grad_norm 2 "$2.json" "$3.json" "$4" &&
    differ "$1, epsilon 1" loss $count "$2-smooth.json" "$3-smooth.json" "$4" &&
    differ "$1, epsilon 1" grad_norm $count "$2-smooth.json" "$3-smooth.json" "$4"
}

# One of the tiny models; in a rehearsal, narrowed for a device that is emulated.
tiny_model() { # tiny_model NAME OUT
  sed -e "s/\"layers\": 4/\"layers\": $(sized 2 4)/" -e "s/\"vocab\": 512/\"vocab\": $(sized 64 512)/" \
    -e "s/\"seq\": 64/\"seq\": $(sized 16 64)/" "$root/models/$1.json" >"$2"
}

write_plan() { # write_plan FILE GPUS PRECISION KEYS
  echo "{ \"gpus\": $2, \"precision\": \"$3\", \"framework\": \"tdp-run\", $4 }" >"$1"
}

# Of a rehearsal, and else.
sized() { # sized SMALL FULL
  if [ -n "$small" ]; then echo "$1"; else echo "$2"; fi
}

# What the backend can hold: the CPU has fp32 alone.
format() {
  if [ "$backend" = cpu ]; then echo fp32; else echo "$1"; fi
}

# Of all runs that are compared.
batch="\"global_batch_size\": $(sized 4 16), \"micro_batch_size\": $(sized 1 2)"
count=$(sized 3 10)

# ---- device ----

step_device() {
  date -u
  uname -srm
  ldd --version 2>&1 | head -n 1
  echo "$(nproc) processors, $(awk '/MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo) GiB of memory"
  clocks=clocks.sm,clocks.mem,clocks.max.sm,pstate
  nvidia-smi --format=csv --query-gpu=name,driver_version,memory.total,$clocks,power.draw,power.limit,temperature.gpu
  [ "$backend" = cpu ] || libraries | tr ':' '\n'
  time_start EAGER
  time_start LAZY
  if [ -n "$python" ]; then
    "$python" "$here/pytorch_kernels.py" ceilings --out . ${small:+--small} >ceilings.txt || return
    cat ceilings.txt
    head -n 1 ceilings.txt
  else
    echo "no Python with PyTorch: no ceilings"
  fi
}

# Seconds until one step of the smallest model is over, as the driver loads kernels.
time_start() { # time_start EAGER|LAZY
  tiny_model tiny tiny.json
  write_plan start.json 1 fp32 "$batch"
  from=$(date +%s%N)
  program CUDA_MODULE_LOADING="$1" tdp-run --backend "$backend" -m ./tiny.json -c cpu -p ./start.json --steps 1 \
    >"start-$1.txt" 2>&1
  echo "one step of tiny, modules loaded ${1}ly: exit $?, $((($(date +%s%N) - from) / 1000000)) ms"
}

# ---- kernels ----

step_kernels() { # step_kernels SEED
  kernels_by own 0 "$1" && own=0 || own=$?
  [ $own -ne 77 ] || return 77
  [ "$1" -gt 1 ] || runs_csv kernels-own-"$1".txt
  kernels_by cudnn 1 "$1" && cudnn=0 || cudnn=$?
  tail -qn 1 kernels-own-"$1".txt kernels-cudnn-"$1".txt | paste -sd ';' | sed 's/;/; with cuDNN /'
  [ $own -eq 0 ] && [ $cudnn -eq 0 ]
}

kernels_by() { # kernels_by NAME TDP_CUDNN SEED
  file=kernels-$1-$3.txt
  program TDP_CUDNN="$2" gpu-kernels --backend "$backend" "$3" "$(sized 2 20)" >"$file" 2>&1
  found=$?
  cat "$file"
  return $found
}

# For tests/gpu/results/, from which docs/executor.md says what ran: each operation's worst error.
runs_csv() { # runs_csv TABLE
  echo "operation,format,device,date,error" >runs.csv
  awk -v date="$(date -u +%Y-%m-%d)" -v device="$(sed -n 's/^device: //p' "$1" | tr , ' ')" '
    FILENAME ~ /kernels\.c$/ {
      if (match($0, /^  \{ "[^"]*", "[^"]*"/)) { split($0, part, "\""); operations[part[2]] = part[4] }
      next
    }
    /^operation / { formats = split(substr($0, 31), format, " "); next }
    { name = substr($0, 1, 30); sub(/ +$/, "", name) }
    name in operations {
      n = split(operations[name], op, " ")
      split(substr($0, 31), error, " ")
      for (i = 1; i <= n; i++)
        for (f = 1; f <= formats; f++)
          if (!((op[i], f) in worst) || !(error[f] + 0 <= worst[op[i], f] + 0)) worst[op[i], f] = error[f]
    }
    END { for (key in worst) { split(key, k, SUBSEP); print k[1] "," format[k[2]] "," device "," date "," worst[key] } }
  ' "$here/kernels.c" "$1" | LC_ALL=C sort -t, -k1,1 -k2,2 >>runs.csv
}

step_times() { # step_times FORMAT
  [ "$1" = "$(format "$1")" ] || { echo "no $1 on $backend"; return 77; }
  times_by 1 "$1" >"times-$1.csv" && times_by 0 "$1" --only attention >"times-$1-own.csv" || return
  cat "times-$1.csv" "times-$1-own.csv"
  best "times-$1.csv"
}

times_by() { # times_by TDP_CUDNN FORMAT [OPTION...]
  with=$1 format=$2
  shift 2
  program TDP_CUDNN="$with" gpu-kernels --backend "$backend" --time "$format" "$@" ${small:+--small}
}

# The fastest product and attention of a table of times.
best() { # best FILE
  awk -F '"' '
    { n = split($5, cell, ",") }
    /^"product/ && cell[n - 1] > product { product = cell[n - 1] }
    /^"attention",/ && cell[n - 1] > attention { attention = cell[n - 1] }
    END { printf "%d rows, best product %.4g, attention %.4g TFLOP/s\n", NR - 1, product, attention }' "$1"
}

# ---- training ----

# Two reports of one rank, OUT.json and OUT-smooth.json.
train() { # train BACKEND MODEL FORMAT OUT
  tiny_model "$2" "$2.json"
  write_plan "plan-$3.json" 1 "$3" "$batch"
  cluster=cpu
  [ "$3" = fp32 ] || cluster=hgx-h200
  for options in "" "$smooth"; do
    # shellcheck disable=SC2086 # words
    program tdp-run --backend "$1" -m "./$2.json" -c "$cluster" -p "./plan-$3.json" --steps "$count" --json $options \
      >report.new && mv report.new "$4${options:+-smooth}.json" || return
  done
}

# The CPU's reports, made once.
reference() { # reference MODEL
  [ -s "reference-$1-smooth.json" ] || train cpu "$1" fp32 "reference-$1"
}

step_training() { # step_training FORMAT
  [ "$1" = "$(format "$1")" ] || { echo "no $1 on $backend"; return 77; }
  tolerance=1e-5 right=0
  [ "$1" = fp32 ] || tolerance=3e-2
  for model in tiny tiny-llama tiny-moe; do
    reference $model && train "$backend" $model "$1" "training-$1-$model" &&
      compare "$model in $1" "training-$1-$model" "reference-$model" $tolerance && right=$((right + 1))
  done
  echo "$right of 3 models as on the CPU, within $tolerance"
  [ $right -eq 3 ]
}

# ---- two ranks on one device ----

# Ways in which NCCL may take two ranks of one device: as two hosts; as ranks that share it (NCCL 2.30).
rank_with() { # rank_with WAY RANK COMMAND...
  way=$1 rank=$2
  shift 2
  case $way in
  hosts) set -- NCCL_HOSTID="host$rank" NCCL_IB_DISABLE=1 "$@" ;;
  shared) set -- NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=4 "$@" ;;
  esac
  program RANK="$rank" WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" \
    NCCL_SOCKET_IFNAME=lo CUDA_DEVICE_MAX_CONNECTIONS=32 CUDA_MODULE_LOADING=EAGER "$@"
}

two_ranks() { # two_ranks WAY NAME MODEL KEYS
  write_plan "ranks-$2.json" 2 fp32 "$batch, $4"
  for options in "" "$smooth"; do
    tries=$((tries + 2)) port=$((20000 + ($$ + tries) % 20000))
    for r in 1 0; do
      # shellcheck disable=SC2086 # words
      rank_with "$1" $r timeout --foreground -k 3 40 tdp-run --backend "$backend" -m "./$3.json" -c cpu -p "./ranks-$2.json" \
        --steps "$count" --json $options >"ranks-$2-$r${options:+-smooth}.json" 2>"ranks-$2-$r.err" &
    done
    wait
    [ -s "ranks-$2-0${options:+-smooth}.json" ] || { tail -qn 3 "ranks-$2-0.err" "ranks-$2-1.err"; return 1; }
  done
  compare "$2, by $1" "ranks-$2-0" "reference-$3" 1e-5
}

step_ranks() {
  [ "$backend" != cpu ] || { echo "ranks on cores talk by MPI, which is not bundled"; return 77; }
  tries=0 right=0 way=none plans=0
  reference tiny && reference tiny-moe || return
  for try in hosts shared; do
    two_ranks $try dp tiny '"data_parallel_size": 2' && way=$try && break
  done
  [ $way != none ] || { echo "neither way takes two ranks on one device"; return 1; }
  while read -r name model keys; do
    plans=$((plans + 1))
    two_ranks $way "$name" "$model" "$keys" </dev/null && right=$((right + 1))
  done <<'EOF'
tp tiny "tensor_model_parallel_size": 2
tp-sp tiny "tensor_model_parallel_size": 2, "sequence_parallel": true
pp tiny "pipeline_model_parallel_size": 2, "pipeline_schedule": "1f1b"
cp tiny "context_parallel_size": 2
ep tiny-moe "data_parallel_size": 2, "expert_model_parallel_size": 2, "zero_stage": 1
zero3 tiny "data_parallel_size": 2, "zero_stage": 3
EOF
  echo "way: $way; dp and $right of $plans more plans as on one CPU rank"
  [ $right -eq $plans ]
}

# ---- predicted and measured ----

step_calibrate() {
  program tdp-calibrate --backend "$backend" --precision "$(format bf16)" --seconds "$(sized 1 60)" \
    --points points.csv && program tdp-calibrate --fit points.csv --output cluster.json >calibration.txt || return
  cat calibration.txt
  echo "cluster.json from $(($(wc -l <points.csv) - 1)) points"
}

# A model that the executor takes, with so many layers; in a rehearsal one of its kind that is tiny.
model_file() { # model_file MODEL LAYERS OUT
  case $small$1 in
  1gpt2*) tiny_model tiny "$3" ;;
  1mixtral*) tiny_model tiny-moe "$3" ;;
  1*) tiny_model tiny-llama "$3" ;;
  *)
    sed 's/"dropout": true/"dropout": false/' "$root/models/$1.json" >"$3"
    [ "$2" = - ] || sed -i "s/\"layers\": [0-9]*/\"layers\": $2/" "$3"
    ;;
  esac
}

# model-NAME.json and plan-NAME.json of tests/gpu/plans.
plan_files() { # plan_files NAME
  read -r name _ _ model layers precision micro sequences tokens keys <<EOF
$(awk -v name="$1" '$1 == name' "$here/plans")
EOF
  model_file "$model" "$layers" "model-$name.json"
  write_plan "plan-$name.json" 1 "$(format "$precision")" "\"micro_batch_size\": $(sized 1 "$micro"),
    \"global_batch_size\": $(sized 1 "$sequences"), \"seq_length\": $(sized 16 "$tokens")${keys:+, $keys}"
}

step_plan() { # step_plan NAME
  plan_files "$1"
  cluster=./cluster.json
  [ -s $cluster ] || cluster=hgx-h200
  program tdp-run --backend "$backend" -m "./model-$1.json" -c "$cluster" -p "./plan-$1.json" --steps "$(sized 2 6)" \
    --json >"run-$1.json" || return
  [ -s predicted.csv ] ||
    printf '%s,' plan cluster predicted_s measured_s error_pct predicted_bytes measured_bytes memory_error_pct \
      reserved_bytes device_bytes | sed 's/,$/\n/' >predicted.csv
  awk -F '[:,]' -v name="$1" -v cluster="$cluster" '
    /^  "predicted"/ { side = 1 } /^  "measured"/ { side = 2 }
    /^  "undisturbed_step_s"|^  "mean_step_s"/ { step = $2 }
    /^    "iteration_s"/ && side == 1 { predicted = $2 }
    /^    "peak_memory_bytes"/ { bytes[side] = $2 }
    /^    "reserved_bytes"/ { reserved = $2 } /^    "device_bytes"/ { device = $2 }
    END {
      printf "%s,%s,%.6g,%.6g,%.1f,%.0f,%.0f,%.1f,%.0f,%.0f\n", name, cluster, predicted, step,
        100 * (predicted / step - 1), bytes[1], bytes[2], 100 * (bytes[1] / bytes[2] - 1), reserved, device
    }' "run-$1.json" | tee -a predicted.csv | awk -F, '{
      printf "predicted %.4g s, measured %.4g s: %+.1f %%; ", $3, $4, $5
      printf "%.4g GiB, %.4g GiB: %+.1f %%\n", $6 / 2^30, $7 / 2^30, $8 }'
}

# ---- PyTorch ----

step_pytorch() { # step_pytorch MODEL BATCH [COMPILE]
  [ -n "$python" ] || { echo "no Python with PyTorch"; return 77; }
  [ -s pytorch.csv ] ||
    printf '%s,' model batch seq precision compile step_s allocated_bytes reserved_bytes first_loss last_loss torch |
    sed 's/,$/\n/' >pytorch.csv
  "$python" "$here/pytorch_step.py" "$root/models/$1.json" "$(sized 2 "$2")" --compile "$(sized none "${3:-whole}")" \
    ${small:+--small --seq 32 --steps 3} >pytorch.row || return
  cat pytorch.row >>pytorch.csv
  ours=$(awk -F, -v name="$1-$2" '$1 == name { s = $4 } END { print s + 0 }' predicted.csv 2>/dev/null)
  awk -F, -v ours="${ours:-0}" '{
    printf "PyTorch (%s) %.4g s", $5, $6
    if (ours > 0) printf ", tdp-run %.4g s: %.3f of its speed", ours, $6 / ours
    print "" }' pytorch.row
}

step_odd() { # step_odd GROUP
  [ -n "$python" ] || { echo "no Python with PyTorch"; return 77; }
  "$python" "$here/pytorch_kernels.py" "$1" --out . ${small:+--small --seconds 1}
}
