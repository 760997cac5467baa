tdp-plan --model llama-3.1-70b --cluster dgx --gpus 32 --top 1 --refine | sed -n "/^Refined/,\$p"
