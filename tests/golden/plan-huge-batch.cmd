tdp-plan --model gpt3 --cluster dgx --global-batch 1000000000 --fix tp=8,pp=1,cp=1,zero=1 --json
