tdp-plan --model qwen3-30b-a3b --cluster dgx-h100 --gpus 16 --top 1 --explain --json | sed -n "/\"largest\"/,/^    },/p"
tdp-plan --model qwen3-30b-a3b --cluster dgx-h100 --gpus 16 --top 1 --explain | sed -n "/^The recommended/,/^memory of/p; /^Why/,/^Rule/p"
