tdp-plan --model gpt3 --cluster dgx --gpus 512 --memory-margin 0 --why-not tp=1,pp=1,zero=0 --json
