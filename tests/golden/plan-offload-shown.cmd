# Plans that differ in what the host keeps.
tdp-plan --model llama-3.1-70b --cluster dgx-h100 --gpus 8 --global-batch 32 | sed -n '/^Best plans/,/^Plans/p; /^What the search/,$p'
# On one GPU nothing that takes several is held fixed.
tdp-plan --model gpt2-xl --cluster h100 --gpus 1 | sed -n '/^cluster/,/^soft/p; /^pipeline/p; /^What the search/,$p'
