for q in fewest-gpus largest-model sensitivity scaling; do tdp-plan --model gpt2-xl --cluster a100-v100-mixed --question $q; done
