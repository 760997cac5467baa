tdp-sim --schedule 1f1b --stages 4 --micro-batches 8 --seq 4096
