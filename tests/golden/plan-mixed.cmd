tdp-plan --model gpt2-xl --cluster a100-v100-mixed --global-batch 96 --fix schedule=1f1b,mbs=1 --explain
