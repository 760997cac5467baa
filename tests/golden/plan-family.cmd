tdp-plan --model bert-large-sparse --cluster dgx --gpus 8
