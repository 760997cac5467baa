tdp-plan --model llama-3.1-70b --cluster dgx-h100 --gpus 4096 --global-batch 2048 --tokens 15T --price 2.5 --question training --spares 8 --power-limit 600
