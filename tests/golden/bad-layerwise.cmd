tdp-plan --model gpt3 --cluster dgx --layerwise --json
