tdp-plan --model mixtral-8x7b --cluster dgx-h100 --gpus 64 --why-not dispatcher=flex | sed -n "1,/^$/p;/A search/p"
