tdp-plan --model t5-11b --cluster dgx --gpus 8
