for f in BF16 Fp8 FP8:Blockwise; do tdp-plan --model llama-3.2-1b --cluster dgx-h100 --gpus 2 --precision $f | grep ^software; done
