tdp-plan --model gpt2 --cluster dgx --gpus 4 --output "$TMP/no/p.json"; ls "$TMP"
