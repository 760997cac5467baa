# What the file's framework excludes is simulated and said: delayed scales beside blocks in 16 bits.
printf 'torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --vocab-size 512 --micro-batch-size 1 --global-batch-size 64 --bf16 --fp8-format hybrid --fp8-recipe delayed --first-last-layers-bf16\n' >$TMP/x.sh
tdp-plan --cluster dgx-h100 --improve $TMP/x.sh | grep '^note'
tdp-plan --cluster dgx-h100 --improve $TMP/x.sh --json | jq .notes
sed 's/ --fp8-recipe delayed/ --fp8-recipe tensorwise/' $TMP/x.sh >$TMP/y.sh
tdp-plan --cluster dgx-h100 --improve $TMP/y.sh --json | jq .notes
