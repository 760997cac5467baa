tdp-plan --model tiny --cluster dgx --gpus 2 --fix tp=1,mbs=2 --top 1 --certificate $TMP/c.csv --json >/dev/null && cat $TMP/c.csv
