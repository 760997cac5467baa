tdp-plan --model gpt3 --cluster dgx --gpus 128 --top 1 --refine --fix recompute=none --output $TMP/p.json | sed -n "/^Refinement/,\$p" && grep mapping $TMP/p.json
