tdp-plan --model tiny --cluster dgx --gpus 4 --gpus-from 2 --objective memory --json
