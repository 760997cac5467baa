tdp-plan --model llama-3.1-70b --cluster dgx --gpus 32 --top 1 --refine --memory-margin 0 | sed -n "/^Refinement/,\$p"
