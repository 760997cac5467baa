tdp-plan --model gpt3 --cluster dgx --gpus 128 --why-not order=tp-pp-dp | sed -n "1,/^$/p;/A search/p"
