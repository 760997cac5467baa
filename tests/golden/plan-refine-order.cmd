tdp-plan --model gpt3 --cluster dgx --gpus 128 --top 1 --refine --output $TMP/p.json | sed -n "/^Refined/,\$p" && grep mapping $TMP/p.json
