tdp-plan --model llama-2-7b --cluster gb200-nvl72 --gpus 144 --global-batch 1152 --tokens 2T --price 4 --question training --vary "nvlink_domain=36,72 network=800" --vary memory=250 --json
