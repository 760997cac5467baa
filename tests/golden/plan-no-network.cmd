tdp-plan --model deepseek-v2-lite --cluster rtx-4090 --gpus 6 --seq 4096 --global-batch 64; echo $?; for gpus in 1 6; do tdp-plan --model llama-3.1-8b --cluster rtx-4090 --gpus $gpus --seq 2048 --global-batch 64 --question fewest-gpus; done
tdp-plan --model llama-3.1-8b --cluster rtx-4090 --gpus 1 --seq 2048 --global-batch 16
tdp-plan --model gpt3 --cluster rtx-4090 --gpus 1 --global-batch 1
