# What `value` is in: `quantity` names it, and what the row says otherwise comes to as much.
for o in time tokens-per-gpu memory gpu-hours money energy; do
  tdp-plan --model tiny --cluster dgx --gpus 4 --gpus-from 4 --price 2 --power-limit 300 --objective $o --json | jq -r '.gpus.rows[] | .iteration_s as $s | ($s * .gpus / 3600) as $hours
    | {step_s: $s, tokens_per_s_per_gpu: (16 * 64 / $s / .gpus), peak_memory_gib: (.peak_memory_bytes / 1073741824), gpu_hours_per_step: $hours, usd_per_step: (2 * $hours), kwh_per_step: (0.3 * $hours)}[.quantity] as $own
    | "\(.quantity) \(.objective) \($own / .value > 0.999999 and $own / .value < 1.000001)"'
done
