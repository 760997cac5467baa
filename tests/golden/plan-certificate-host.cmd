tdp-plan --model gpt3 --cluster dgx --gpus 16 --fix tp=8,pp=2,mbs=1,sp=1,schedule=1f1b --top 1 --certificate $TMP/c.csv >/dev/null; cut -d, -f20,31- $TMP/c.csv | cut -d, -f1,3 | sort -u
