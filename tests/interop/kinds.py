"""Small models of kinds whose fields are their own, counted by transformers: tests/data/hf/kinds.txt.

    kinds.py FILE

A line is a count and a configuration with the keys that were set; tests/test_kinds.c holds ours against them.
"""
import importlib
import json
import sys

import torch
import transformers

from registry import numbers

LLAMA = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 256, "pad_token_id": 0}
ROPE = {"rope_type": "default", "rope_theta": 10000}
PLAIN = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
FEW = {"num_experts": 8, "num_experts_per_tok": 2}
LATENT = {"kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
          "num_key_value_heads": 4, "n_group": 1, "topk_group": 1}
INDEX = {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 64}
LONGCAT = dict({key: value for key, value in {**LLAMA, **LATENT}.items() if key not in (
    "num_hidden_layers", "intermediate_size", "n_group", "topk_group")}, num_layers=2, ffn_hidden_size=96, moe_topk=3,
               n_routed_experts=8, zero_expert_num=4, expert_ffn_hidden_size=32)
INKLING = dict(LLAMA, head_dim=16, swa_num_attention_heads=4, swa_num_key_value_heads=4, swa_head_dim=16,
               n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=32, rel_extent=64)
BART = {"d_model": 64, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 8, "vocab_size": 128,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 128, "max_position_embeddings": 256,
        "pad_token_id": 0}
FSMT = dict({key: value for key, value in BART.items() if key != "vocab_size"}, src_vocab_size=128,
            tgt_vocab_size=128, pad_token_id=1)
GEMMA = dict(LLAMA, head_dim=16)
MAMBA = {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 128, "state_size": 8}
BERT = dict(PLAIN, is_decoder=True)

CPM = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 128, "dim_ff": 96,
       "dim_head": 16, "prompt_types": 2, "prompt_length": 6, "segment_types": 3, "position_bias_num_buckets": 16}
ZAYA = dict({key: value for key, value in LLAMA.items() if key != "intermediate_size"}, head_dim=16, num_experts=4,
            moe_intermediate_size=32, router_hidden_size=16)
PAIR = dict(PLAIN, model_type="bert")
ZAMBA2 = {"hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "vocab_size": 128, "mamba_d_state": 16}
GEMMA4 = dict(LLAMA, head_dim=16, global_head_dim=32, num_hidden_layers=12, hidden_size_per_layer_input=8,
              vocab_size_per_layer_input=128)

KINDS = [
    ("olmo", LLAMA), ("nanochat", LLAMA), ("persimmon", PLAIN), ("persimmon", dict(PLAIN, qk_layernorm=False)),
    ("stablelm", dict(LLAMA, qk_layernorm=True)), ("phi", dict(LLAMA, qk_layernorm=True)),
    ("ministral", dict(LLAMA, head_dim=16)),
    ("cwm", LLAMA), ("internlm3", LLAMA), ("iquestcoder", LLAMA), ("minicpm3", PLAIN),
    ("exaone_moe", dict(LLAMA, **FEW)), ("cohere2_moe", dict(LLAMA, **FEW)), ("beam", dict(LLAMA, **FEW)),
    ("flint", dict(LLAMA, **FEW)), ("lara_mini", dict(LLAMA, **FEW)), ("kolibri1", dict(LLAMA, **FEW)),
    ("dbrx", {"d_model": 64, "n_heads": 4, "n_layers": 2, "vocab_size": 128, "max_seq_len": 256,
              "attn_config": {"kv_n_heads": 2, "rope_theta": 5e5},
              "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2}}),
    ("cohere_compass_text", dict(LLAMA, rope_parameters={"full_attention": ROPE}, attention_bias=True)),
    ("cohere_compass_text", dict(LLAMA, rope_parameters={"full_attention": ROPE, "sliding_attention": ROPE},
                                 layer_types=["sliding_attention", "full_attention"] * 2)),
    ("apertus", LLAMA), ("apertus", dict(LLAMA, hidden_act="relu2")), ("bitnet", LLAMA),
    ("axk1", dict(LLAMA, **LATENT, **EXPERTS, n_routed_experts=8, first_k_dense_replace=2)),
    ("axk1", dict(LLAMA, **LATENT, **EXPERTS, n_routed_experts=8, first_k_dense_replace=2, use_qk_norm=True)),
    ("glm4_moe", dict(LLAMA, **EXPERTS, n_routed_experts=8, hidden_size=72, num_attention_heads=16, use_qk_norm=True,
                      attention_bias=True)),
    ("mimo_v2_flash", dict(LLAMA, **EXPERTS, n_routed_experts=8, head_dim=24, v_head_dim=16, num_hidden_layers=7,
                           num_key_value_heads=1)),
    ("laguna", dict(LLAMA, **EXPERTS, num_experts=8, head_dim=16, shared_expert_intermediate_size=32)),
    ("laguna", dict(LLAMA, **EXPERTS, num_experts=8, head_dim=16, shared_expert_intermediate_size=48,
                    gating="per-element", layer_types=["sliding_attention", "full_attention"] * 2)),
    ("mamba", MAMBA), ("mamba", dict(MAMBA, use_bias=True, time_step_rank=6, expand=3)),
    ("mamba", dict(MAMBA, expand=3, intermediate_size=96)),
    ("falcon_mamba", dict(MAMBA, use_conv_bias=False)),
    ("falcon_mamba", dict(MAMBA, use_conv_bias=False, intermediate_size=200)),
    ("jamba", dict(LLAMA, num_experts=4, mamba_d_state=8, attn_layer_period=4, attn_layer_offset=2)),
    ("jamba", dict(LLAMA, num_experts=1, mamba_d_state=8, mamba_proj_bias=True, mamba_dt_rank=6)),
    ("falcon_h1", dict(LLAMA, mamba_d_ssm=128, mamba_n_heads=8, mamba_d_state=16)),
    ("falcon_h1", dict(LLAMA, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_state=16, mamba_n_groups=2,
                       mamba_rms_norm=True, mamba_conv_bias=False)),
    ("lfm2", dict(LLAMA, full_attn_idxs=[1, 3])),
    ("lfm2", dict(LLAMA, full_attn_idxs=[1], conv_bias=True, block_multiple_of=24, block_ffn_dim_multiplier=1.3)),
    ("lfm2", dict(LLAMA, block_auto_adjust_ff_dim=False)),
    ("lfm2_moe", dict(LLAMA, **EXPERTS, num_experts=8, num_dense_layers=1,
                      layer_types=["conv", "full_attention"] * 2)),
    ("lfm3", dict(LLAMA, head_dim=16)), ("lfm3", dict(LLAMA, head_dim=32, use_attention_gate=False,
                                                      use_sandwich_norm=False, conv_bias=True)),
    ("kimi_linear", dict(LLAMA, **dict(LATENT, q_lora_rank=None), **EXPERTS, num_local_experts=8, linear_head_dim=16,
                         linear_num_heads=4, num_hidden_layers=6)),
    ("bailing_hybrid", dict(LLAMA, **LATENT, **EXPERTS, num_local_experts=8, head_dim=16, num_hidden_layers=6,
                            first_k_dense_replace=1)),
    ("olmo_hybrid", LLAMA), ("olmo_hybrid", dict(LLAMA, linear_num_value_heads=8, linear_num_key_heads=4,
                                                 linear_key_head_dim=16, linear_value_head_dim=24)),
    ("gemma4_text", GEMMA4), ("gemma4_text", dict(GEMMA4, num_kv_shared_layers=4, use_double_wide_mlp=True)),
    ("gemma4_text", dict(GEMMA4, attention_k_eq_v=True, num_global_key_value_heads=1, num_hidden_layers=8,
                         hidden_size_per_layer_input=0)),
    ("gemma4_text", dict(GEMMA4, num_global_key_value_heads=1, num_hidden_layers=7)),
    ("gemma4_unified_text", {key: value for key, value in GEMMA4.items() if "per_layer" not in key}),
    ("lara_mini", dict(LLAMA, **EXPERTS, num_experts=8, head_dim=16, shared_expert_intermediate_size=48,
                       linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
                       linear_value_head_dim=16,
                       layer_types=["linear_attention", "full_attention", "sliding_attention", "linear_attention"])),
    ("flint", dict(LLAMA, **EXPERTS, num_experts=8, head_dim=16, shared_expert_intermediate_size=48,
                   mlp_only_layers=[0], layer_types=["full_attention", "sliding_attention"] * 2)),
    ("beam", dict(LLAMA, **EXPERTS, num_experts=8, head_dim=16,
                  mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
                  layer_types=["sliding_attention", "full_attention"] * 2)),
    ("aria_text", dict(LLAMA, moe_num_experts=8, moe_topk=2, moe_num_shared_experts=3, mlp_bias=False)),
    ("apertus1p5_text", LLAMA),
    ("axk2", dict(LLAMA, **LATENT, **EXPERTS, n_routed_experts=8, index_n_heads=2, index_head_dim=16, index_topk=64)),
    ("axk2", dict(LLAMA, **LATENT, **EXPERTS, n_routed_experts=8, index_n_heads=2, index_head_dim=16, index_topk=64,
                  gated_norm_rank=6, attention_bias=True, first_k_dense_replace=2, n_shared_experts=2)),
    ("dots3_note_text", dict(LLAMA, **LATENT, **EXPERTS, **INDEX, n_routed_experts=8, head_dim=32,
                             swa_num_attention_heads=2, swa_num_key_value_heads=2, swa_q_lora_rank=20, swa_kv_lora_rank=40, swa_head_dim=32,
                             swa_qk_nope_head_dim=16, swa_v_head_dim=24, shared_experts_intermediate_size=24,
                             n_shared_experts=2)),
    ("dots3_note_text", dict(LLAMA, **LATENT, **EXPERTS, **INDEX, n_routed_experts=8, head_dim=32, num_hidden_layers=6,
                             use_dsa=False, swa_num_attention_heads=4, swa_num_key_value_heads=4, swa_head_dim=24,
                             swa_qk_nope_head_dim=16, attention_bias=True)),
    ("hy_v4", dict(LLAMA, **LATENT, **EXPERTS, **INDEX, n_routed_experts=8)),
    ("hy_v4", dict(LLAMA, **LATENT, **EXPERTS, **INDEX, n_routed_experts=8, hc_mult=2, attention_bias=True,
                   indexer_types=["full", "shared", "full", "full"], mlp_layer_types=["sparse", "dense"] * 2)),
    ("minimax_m3_vl_text", dict(LLAMA, num_local_experts=8, num_experts_per_tok=2, head_dim=16,
                                dense_intermediate_size=128,
                                shared_intermediate_size=48)),
    ("minimax_m3_vl_text", dict(LLAMA, num_local_experts=8, num_experts_per_tok=2, head_dim=16,
                                dense_intermediate_size=128,
                                index_n_heads=2, index_head_dim=24, index_block_size=16, index_topk_blocks=2,
                                layer_types=["full_attention", "minimax_m3_sparse"] * 2,
                                mlp_layer_types=["dense", "dense", "sparse", "sparse"])),
    ("xlstm", {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 128, "num_heads": 4}),
    ("xlstm", {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 128, "num_heads": 4, "qk_dim_factor": 1.25,
               "v_dim_factor": 1.5, "ffn_proj_factor": 1.3, "ffn_round_up_to_multiple_of": 24}),
    ("recurrent_gemma", PLAIN),
    ("recurrent_gemma", dict(LLAMA, lru_width=96, conv1d_width=3, block_types=["attention", "recurrent"],
                             attention_bias=True)),
    ("rwkv", {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 128}),
    ("rwkv", {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 128, "attention_hidden_size": 96,
              "intermediate_size": 160, "tie_word_embeddings": True}),
    ("gemma3n_text", dict(LLAMA, head_dim=16, num_kv_shared_layers=0, vocab_size_per_layer_input=96,
                          hidden_size_per_layer_input=8, laurel_rank=6)),
    ("gemma3n_text", dict(LLAMA, head_dim=24, num_hidden_layers=12, num_kv_shared_layers=4,
                          vocab_size_per_layer_input=128, hidden_size_per_layer_input=8, altup_num_inputs=3, intermediate_size=[80] * 12,
                          attention_bias=True, activation_sparsity_pattern=[0.5] * 3 + [0.0] * 9)),
    ("longcat_flash", LONGCAT),
    ("longcat_flash", dict(LONGCAT, zero_expert_num=0, attention_bias=True, router_bias=True)),
    ("led", dict({key: value for key, value in BART.items() if key != "max_position_embeddings"}, attention_window=32,
                 max_encoder_position_embeddings=256, max_decoder_position_embeddings=160)),
    ("pegasus_x", dict(BART, block_size=16)), ("pegasus_x", dict(BART, block_size=16, num_global_tokens=6)),
    ("xmod", BERT), ("xmod", dict(BERT, adapter_reduction_factor=4, languages=["a", "b", "c"])),
    ("inkling_text", INKLING),
    ("inkling_text", dict(INKLING, num_hidden_layers=7, d_rel=6, rel_extent=48, sliding_window_size=24,
                          conv_kernel_size=3, dense_mlp_idx=2, n_shared_experts=1, local_layer_ids=[1, 4])),
    ("dory", dict(LLAMA, num_hidden_layers=6, n_input_layers=1, n_output_layers=2, head_dim=16)),
    ("dory", dict(LLAMA, num_hidden_layers=5, n_input_layers=2, n_output_layers=0, n_recurrent_loops=4, head_dim=24,
                  mlp_bias=True, layer_types=["full_attention"] * 4 + ["sliding_attention"])),
    ("zamba", dict(LLAMA, num_hidden_layers=8, num_key_value_heads=4, attn_layer_offset=1, attn_layer_period=2)),
    ("zamba", dict(LLAMA, attention_head_dim=24, n_mamba_heads=4, mamba_d_state=8, mamba_dt_rank=6, mamba_d_conv=3,
                   mamba_expand=3, mamba_proj_bias=True, mamba_conv_bias=False,
                   layers_block_type=["hybrid", "linear_attention", "hybrid", "mamba"])),
    ("zamba2", dict(ZAMBA2, layers_block_type=["mamba", "hybrid"] * 3)),
    ("zamba2", dict(ZAMBA2, layers_block_type=["hybrid"] * 5 + ["linear_attention"], num_mem_blocks=2, adapter_rank=6,
                    use_shared_attention_adapter=True, use_mem_rope=True, add_bias_linear=True, n_mamba_heads=4,
                    mamba_ngroups=2, intermediate_size=96)),
    ("jetmoe", dict(LLAMA, kv_channels=16, num_local_experts=4)),
    ("jetmoe", dict(LLAMA, kv_channels=24, num_local_experts=8, num_experts_per_tok=3, tie_word_embeddings=False)),
    ("roc_bert", dict(BERT, shape_vocab_size=48, shape_embed_dim=24, pronunciation_vocab_size=32,
                      pronunciation_embed_dim=16)),
    ("roc_bert", dict(BERT, shape_vocab_size=48, shape_embed_dim=24, pronunciation_vocab_size=32,
                      pronunciation_embed_dim=16, enable_shape=False)),
    ("roc_bert", dict(BERT, shape_vocab_size=48, shape_embed_dim=64, pronunciation_vocab_size=32,
                      pronunciation_embed_dim=64, concat_input=False)),
    ("cpmant", CPM), ("cpmant", dict(CPM, prompt_types=3, prompt_length=8, segment_types=4, dim_head=24)),
    ("zaya", dict(ZAYA, num_experts_per_tok=1)),
    ("zaya", dict(ZAYA, router_hidden_size=24, cca_time0=4, cca_time1=3, attention_bias=True, lm_head_bias=True,
                  sliding_window=32, layer_types=["hybrid", "hybrid_sliding"] * 2)),
    ("encoder-decoder", {"encoder": dict(PAIR), "decoder": dict(PAIR, is_decoder=True, add_cross_attention=True)}),
    ("encoder-decoder", {"encoder": dict(PAIR, num_hidden_layers=3, vocab_size=256, type_vocab_size=3),
                         "decoder": dict(PAIR, is_decoder=True, add_cross_attention=True, type_vocab_size=3)}),
    ("hrm_text", dict(PLAIN, head_dim=16)),
    ("hrm_text", dict(PLAIN, num_hidden_layers=2, head_dim=24, H_cycles=3, L_cycles=1, L_bp_cycles=[1],
                      attention_bias=True, mlp_bias=True)),
    ("diffllama", LLAMA), ("diffllama", dict(LLAMA, head_dim=24, attention_bias=True)),
    ("doge", LLAMA), ("doge", dict(LLAMA, keep_window_size=32, attention_bias=True, mlp_bias=True)),
    ("electra", dict(BERT, embedding_size=32, type_vocab_size=3)), ("electra", dict(BERT, embedding_size=64)),
    ("rembert", dict(BERT, input_embedding_size=32, output_embedding_size=96)),
    ("roformer", BERT), ("roformer", dict(BERT, embedding_size=32)),
    ("big_bird", dict(BERT, attention_type="original_full")), ("big_bird", dict(BERT, block_size=16)),
    ("bert-generation", BERT), ("xlm", {"emb_dim": 64, "n_layers": 3, "n_heads": 4, "vocab_size": 128}),
    ("gpt_neox_japanese", {key: value for key, value in PLAIN.items() if key != "intermediate_size"}),
    ("modernbert-decoder", dict(PLAIN, num_hidden_layers=7)),
    ("modernbert-decoder", dict(PLAIN, norm_bias=True, attention_bias=True, mlp_bias=True, decoder_bias=False)),
    ("longt5", {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4,
                "vocab_size": 128, "feed_forward_proj": "gated-gelu"}),
    ("bart", BART), ("mvp", BART), ("plbart", BART), ("mbart", BART), ("blenderbot", BART), ("blenderbot-small", BART),
    ("bigbird_pegasus", dict(BART, block_size=16)), ("bigbird_pegasus", dict(BART, use_bias=True, block_size=16)),
    ("pegasus", BART), ("marian", dict(BART, decoder_vocab_size=128)), ("m2m_100", BART),
    ("fsmt", FSMT), ("fsmt", dict(FSMT, tgt_vocab_size=256, tie_word_embeddings=False)),
    ("fsmt", dict(FSMT, tie_word_embeddings=True)),
    ("t5gemma", {"encoder": GEMMA, "decoder": GEMMA}),
    ("t5gemma", {"encoder": dict(GEMMA, num_hidden_layers=3, vocab_size=256), "decoder": GEMMA,
                 "tie_word_embeddings": False}),
    ("nllb-moe", dict(BART, num_experts=4, encoder_sparse_step=2, decoder_sparse_step=2, router_bias=True)),
    *[("switch_transformers", {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 6, "num_decoder_layers": 6,
                               "num_heads": 4, "num_experts": 4, "num_sparse_encoder_layers": sparse,
                               "vocab_size": 128, "num_sparse_decoder_layers": sparse}) for sparse in (2, 3, 0)],
    ("glm4v_text", dict(LLAMA, rope_parameters=ROPE)),
    ("glm4v_moe_text", dict(LLAMA, n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=32,
                            n_shared_experts=1, first_k_dense_replace=1, attention_bias=True)),
    ("qwen3_omni_moe_text", dict(LLAMA, head_dim=16, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32)),
    ("qwen2_5_omni_text", LLAMA),
]

# Sizes of published checkpoints.
PUBLISHED = [
    # mamba-130m
    ("mamba",
     {"hidden_size": 768, "num_hidden_layers": 24, "vocab_size": 50280, "state_size": 16, "expand": 2,
      "conv_kernel": 4, "time_step_rank": 48, "use_bias": False, "use_conv_bias": True, "intermediate_size":
      1536}),
    # mamba-2.8b
    ("mamba",
     {"hidden_size": 2560, "num_hidden_layers": 64, "vocab_size": 50280, "state_size": 16, "expand": 2,
      "conv_kernel": 4, "time_step_rank": 160, "use_bias": False, "use_conv_bias": True,
      "intermediate_size": 5120}),
    # falcon-mamba-7b
    ("falcon_mamba",
     {"architectures": ["FalconMambaForCausalLM"], "conv_kernel": 4, "expand": 16, "hidden_size": 4096,
      "intermediate_size": 8192, "layer_norm_epsilon": 1e-05, "num_hidden_layers": 64, "state_size": 16,
      "time_step_rank": 256, "use_bias": False, "use_conv_bias": True, "vocab_size": 65024,
      "tie_word_embeddings": False}),
    # olmo-1b
    ("olmo",
     {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16, "intermediate_size": 8192,
      "vocab_size": 50304, "tie_word_embeddings": True}),
    # olmo-7b
    ("olmo",
     {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
      "vocab_size": 50304, "clip_qkv": None}),
    # lfm2-1.2b
    ("lfm2",
     {"hidden_size": 2048, "block_ff_dim": 12288, "num_hidden_layers": 16, "num_attention_heads": 32,
      "num_key_value_heads": 8, "vocab_size": 65536, "conv_L_cache": 3, "conv_bias": False,
      "full_attn_idxs": [2, 5, 8, 10, 12, 14], "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0,
      "block_auto_adjust_ff_dim": True, "tie_embedding": True}),
    # apertus-8b
    ("apertus",
     {"hidden_size": 4096, "intermediate_size": 21504, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 8, "vocab_size": 131072}),
    # kimi-linear-48b
    ("kimi_linear",
     {"hidden_size": 2304, "intermediate_size": 9216, "moe_intermediate_size": 1024, "num_hidden_layers": 27,
      "num_attention_heads": 32, "num_key_value_heads": 32, "num_experts": 256, "num_experts_per_token": 8,
      "num_shared_experts": 1, "first_k_dense_replace": 1, "moe_layer_freq": 1, "kv_lora_rank": 512,
      "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "head_dim":
      72, "vocab_size": 163840, "model_max_length": 1048576, "num_expert_group": 1, "topk_group": 1,
      "linear_attn_config": {"full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "kda_layers": [1, 2, 3, 5, 6,
      7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26], "head_dim": 128, "num_heads": 32,
      "short_conv_kernel_size": 4}}),
    # falcon-h1-1.5b
    ("falcon_h1",
     {"hidden_size": 2048, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 8,
      "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 65537, "mamba_d_ssm": 3072, "mamba_n_heads":
      48, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_expand":
      2, "mamba_rms_norm": False, "mamba_conv_bias": True, "tie_word_embeddings": False}),
    # gemma4-e2b
    ("gemma4_text",
     {"hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 35, "num_attention_heads": 8,
      "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "num_kv_shared_layers": 20,
      "use_double_wide_mlp": True, "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144,
      "vocab_size": 262144, "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7}),
    # gemma4-31b
    ("gemma4_text",
     {"hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 60, "num_attention_heads": 32,
      "num_key_value_heads": 16, "head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 4,
      "attention_k_eq_v": True, "hidden_size_per_layer_input": 0, "vocab_size": 262144}),
    # bitnet-2b
    ("bitnet",
     {"hidden_size": 2560, "intermediate_size": 6912, "num_hidden_layers": 30, "num_attention_heads": 20,
      "num_key_value_heads": 5, "vocab_size": 128256, "tie_word_embeddings": True}),
    # stablelm-2-12b
    ("stablelm",
     {"hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 32,
      "num_key_value_heads": 8, "vocab_size": 100352, "qk_layernorm": True, "use_parallel_residual": True,
      "use_qkv_bias": False}),
    # ettin-1b
    ("modernbert-decoder",
     {"hidden_size": 1792, "intermediate_size": 3840, "num_hidden_layers": 28, "num_attention_heads": 28,
      "vocab_size": 50368, "global_attn_every_n_layers": 3, "local_attention": 128, "norm_bias": False,
      "max_position_embeddings": 7999}),
    # bart-base
    ("bart",
     {"d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12,
      "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072, "vocab_size": 50265,
      "max_position_embeddings": 1024, "num_hidden_layers": 6}),
    # nllb-600m
    ("m2m_100",
     {"d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 16,
      "decoder_attention_heads": 16, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "vocab_size": 256206,
      "max_position_embeddings": 1024, "num_hidden_layers": 12}),
    # marian-opus
    ("marian",
     {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8,
      "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "vocab_size": 58101,
      "decoder_vocab_size": 58101, "max_position_embeddings": 512, "num_hidden_layers": 6}),
    # electra-base-gen
    ("electra",
     {"hidden_size": 256, "embedding_size": 768, "num_hidden_layers": 12, "num_attention_heads": 4,
      "intermediate_size": 1024, "vocab_size": 30522}),
]


# Decoders of text of models with towers, which have no class with a head of their own. The whole model's configuration
# says whether it is tied, which by default it is in none.
DECODERS = {"glm4v_text": "glm4v.modeling_glm4v.Glm4vTextModel",
            "glm4v_moe_text": "glm4v_moe.modeling_glm4v_moe.Glm4vMoeTextModel",
            "qwen3_omni_moe_text": "qwen3_omni_moe.modeling_qwen3_omni_moe.Qwen3OmniMoeThinkerTextModel",
            "qwen2_5_omni_text": "qwen2_5_omni.modeling_qwen2_5_omni.Qwen2_5OmniThinkerTextModel"}


def decoder_of(config):
    module, name = DECODERS[config.model_type].rsplit(".", 1)
    with torch.device("meta"):
        model = getattr(importlib.import_module("transformers.models." + module), name)(config)
        model.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
    return model


def model_of(config):
    if config.model_type in DECODERS:
        return decoder_of(config)
    for name in ("AutoModelForSeq2SeqLM", "AutoModelForCausalLM"):
        if name == "AutoModelForSeq2SeqLM" and not getattr(config, "is_encoder_decoder", False):
            continue
        with torch.device("meta"):
            return getattr(transformers, name).from_config(config)


def main():
    with open(sys.argv[1], "w") as file:
        for kind, keys in KINDS + PUBLISHED:
            config = transformers.AutoConfig.for_model(kind, **keys)
            set_keys = {key: value for key, value in keys.items() if value is not None or key == "q_lora_rank"}
            written = dict(model_type=kind, **set_keys)
            file.write("%d %s\n" % (numbers(model_of(config)), json.dumps(written)))


main()
