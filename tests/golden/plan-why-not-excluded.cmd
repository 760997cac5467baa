tdp-plan --model qwen3-next-80b-a3b --cluster dgx-h100 --gpus 64 --global-batch 64 --why-not zero=2,graph=partial,ep_overlap=1 | sed -n '/^A search/p'
