tdp-sim --model tiny --cluster dgx --plan tiny-1f1b --contention --receive-buffers 1 --json
