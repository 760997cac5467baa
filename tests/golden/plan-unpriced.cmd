# Without a price there are no columns of dollars, but JSON has the keys; where time is the objective it is no column either.
ask="tdp-plan --model llama-3.2-1b --cluster dgx --gpus 16 --global-batch 64 --seq 2048 --tokens 1e9 --fix pp=1,cp=1"
for more in "--gpus-from 8" "--gpus-from 8 --objective gpu-hours" "--gpus-from 8 --question training" "--question training --vary memory=141"; do
  $ask $more
  $ask $more --json | grep -oE '"(usd|usd_change|value)"' | sort | uniq -c | tr -s ' '
done
