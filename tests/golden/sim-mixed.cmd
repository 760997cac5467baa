tdp-sim --model gpt-neox-20b --cluster a100-v100-mixed --plan mixed-nodes
