tdp-sim --model gpt2 --cluster titan-rtx-pair --plan plans/dataparallel.json
