# No two rows read alike: the recommended plan stands once where its dispatcher is not the space's, and columns tell plans
# apart that differ in how sequences are exchanged, or in the order of a mixed cluster's types.
best() { tdp-plan "$@" --threads 1 2>/dev/null | sed -n '/^Best plans/,/^$/p'; }
best --model llama-4-maverick --cluster dgx-h100 --gpus 512 --global-batch 1024 --seq 8192 --fix tp=4,pp=1,cp=1,ep=128
best --model qwen3-8b --cluster dgx-h100 --gpus 16 --global-batch 16 --seq 131072 --fix pp=1,zero=2 --top 3
best --model qwen3-14b --cluster a100-v100-mixed --seq 4096 --fix tp=4,pp=3 --top 3
