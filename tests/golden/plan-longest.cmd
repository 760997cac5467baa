# Without --seq a model that names no training length is taken at its longest, which is said.
p() { tdp-plan --cluster dgx-h100 --gpus 8 --top 1 "$@" | grep -E '^batch'; }
config() { printf '{ "name": "mine", "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 4, "vocab_size": 1000,
  "num_attention_heads": 8, "intermediate_size": 4096, %s }' "$1" >"$TMP/mine.json"; }
config '"max_position_embeddings": 131072'
p --model "$TMP/mine.json"
p --model "$TMP/mine.json" --seq 8k
config '"max_position_embeddings": 131072, "seq": 65536'
p --model "$TMP/mine.json"
config '"max_position_embeddings": 8192'
p --model "$TMP/mine.json"
