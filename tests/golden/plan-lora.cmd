tdp-plan --model llama-3.1-8b --cluster dgx-h100 --gpus 8 --global-batch 64 --seq 4096 --adapter lora:r=16,targets=qkv,proj --explain --export bridge=$TMP/bridge.yaml
sed -n '/^peft/,$p' $TMP/bridge.yaml
