tdp-plan --model tiny --cluster cpu --gpus 4 --top 1 --explain --json
