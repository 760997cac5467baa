/* Mechanisms of one or a few families: their work beside that of a plain decoder, and files that are refused. */
#include "main.h"
#include "test_worked.h"

#define HF "\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
           "\"vocab_size\":128,\"max_position_embeddings\":256"
#define DECODER(kind, keys) "{\"model_type\":\"" kind "\",\"num_hidden_layers\":2," HF keys "}"
#define LATENT ",\"kv_lora_rank\":32,\"q_lora_rank\":24,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8," \
               "\"v_head_dim\":16"
#define EXPERTS ",\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32"

/* Two cores, and values that are twice as wide to model FLOPs. */
START_TEST(differences)
{
  g_autoptr(Model) plain = parsed(DECODER("llama", ""));
  double flops = 0;
  Planned f;

  setup(&f, DECODER("diffllama", ""), 1);
  ck_assert_int_eq(counted_ops(&f, 1, "attention", &flops), 2);
  ck_assert_double_eq(flops, 2 * 2.0 * 4 * 128 * 128 * (16 + 16));
  ck_assert_double_eq(model_flops(f.model, 128) - model_flops(plain, 128), 2 * 6.0 * 128 * 128 * 64);
  ck_assert_int_eq(f.model->params - plain->params, 2 * 4 * 16);
  planned_clear(&f);
}
END_TEST

/* A square of numbers for each head, more of them written where keys are left out. */
START_TEST(masks)
{
  double square = 2.0 * 128 * 128;
  Planned f;

  setup(&f, DECODER("doge", ""), 1);
  ck_assert_double_eq(moved(&f, 1, "mask", FALSE), square * (2 * 2 + 2 * 4));
  planned_clear(&f);
  setup(&f, DECODER("doge", ",\"keep_window_size\":64"), 1);
  ck_assert_double_eq(moved(&f, 1, "mask", FALSE), square * (2 * 2 + 2 * 4 + 6 * 2));
  ck_assert_double_eq(moved(&f, 1, "residual scale", FALSE), 2 * 2 * 2.0 * 128 * 64);
  planned_clear(&f);
}
END_TEST

/* Norms before attention, and before experts. */
START_TEST(gated_norms)
{
  g_autoptr(Model) m = parsed(DECODER("axk2", LATENT EXPERTS));
  g_autoptr(Model) wider = parsed(DECODER("axk2", LATENT EXPERTS ",\"gated_norm_rank\":32"));

  ck_assert_int_eq(block(m, 0)->gated_norms, 1);
  ck_assert_int_eq(block(m, 1)->gated_norms, 2);
  ck_assert_int_eq(wider->params - m->params, (1 + 2) * 2 * 64 * 16);
  ck_assert_int_eq(block(wider, 1)->matrix_params - block(m, 1)->matrix_params, 2 * 2 * 64 * 16);
}
END_TEST

#define INDEX ",\"index_n_heads\":2,\"index_head_dim\":16,\"index_topk\":64"
#define DOTS3(keys)                                                                                           \
  "{\"model_type\":\"dots3_note_text\",\"num_hidden_layers\":4,\"hidden_size\":64,\"intermediate_size\":96," \
  "\"num_attention_heads\":4,\"vocab_size\":128,\"head_dim\":32" LATENT EXPERTS INDEX keys "}"

/* Layers with a window have heads and ranks of their own, and no indexer. */
START_TEST(latent_windows)
{
  g_autoptr(Model) m = parsed(DOTS3(",\"swa_num_attention_heads\":2,\"swa_num_key_value_heads\":2,"
                                    "\"swa_kv_lora_rank\":48,\"sliding_window_size\":32"));
  const Attention *all = &block(m, 1)->attention, *window = &block(m, 2)->attention;

  ck_assert_int_eq(all->heads, 4);
  ck_assert_int_eq(all->index_heads, 2);
  ck_assert_int_eq(all->whole_params, 8);
  ck_assert_int_eq(window->heads, 2);
  ck_assert_int_eq(window->kv_lora_rank, 48);
  ck_assert_int_eq(window->head_dim, 256);
  ck_assert_int_eq(window->whole_params, 64);
  ck_assert_int_eq(window->window, 32);
  ck_assert_int_eq(window->index_heads, 0);
}
END_TEST

/* Where the files of dots3 say which layers have an indexer. */
START_TEST(indexers)
{
#define TYPES ",\"layer_types\":[\"full_attention\",\"indexed_attention\",\"sliding_attention\",\"full_attention\"]"
#define EACH ",\"per_layer_config\":{\"2\":{\"head_dim\":24}}"
  static const struct {
    const char *text;
    int heads[2]; /* of the first two layers */
  } cases[] = {
    { DOTS3(""), { 2, 2 } },
    { DOTS3(",\"use_dsa\":false"), { 0, 0 } },
    { DOTS3(TYPES), { 2, 2 } },
    { DOTS3(TYPES EACH), { 0, 2 } },
    { DOTS3(TYPES EACH ",\"use_dsa\":true"), { 2, 2 } },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) m = parsed(cases[i].text);
    for (int layer = 0; layer < 2; layer++)
      ck_assert_int_eq(block(m, layer)->attention.index_heads, cases[i].heads[layer]);
  }
}
END_TEST

#define HYV4(keys) DECODER("hy_v4", LATENT EXPERTS INDEX keys)

/* Streams go from stage to stage and are kept for what is made again. */
START_TEST(streams)
{
  g_autoptr(Model) four = parsed(HYV4("")), two = parsed(HYV4(",\"hc_mult\":2"));
  Planned f;

  ck_assert_int_eq(model_layer(four, 3)->params - model_layer(two, 3)->params, (4 * 4 - 2 * 2) * 64 + 4 - 2);
  ck_assert_int_eq(block(four, 1)->params - block(two, 1)->params, 2 * ((8 * 4 - 4 * 2) * 64 + 8 - 4));
  setup(&f, HYV4(""), 1);
  f.plan.recompute = RECOMPUTE_FULL;
  ck_assert_double_eq(planned_layer(&f, 2).saved_bytes, 4 * 2.0 * 128 * 64);
  ck_assert_double_eq(op_boundary_bytes(f.model, PASSES(&f.plan)), 4 * 2.0 * 128 * 64);
  planned_clear(&f);
}
END_TEST

/* Layers that share an indexer attend to as few keys, on one stage. */
START_TEST(shared_choices)
{
  double flops[2] = { 0, 0 };
  Planned f;

  setup(&f, DECODER("hy_v4", LATENT EXPERTS INDEX ",\"indexer_types\":[\"full\",\"shared\"],\"mlp_layer_types\":"
                             "[\"sparse\",\"sparse\"]"), 2);
  ck_assert_int_eq(block(f.model, 0)->params - block(f.model, 1)->params,
                   24 * 2 * 16 + 64 * (16 + 2) + 2 * 16);
  f.plan.tp = 1;
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(counted_ops(&f, i + 1, "attention", &flops[i]), 1);
  ck_assert_double_eq(flops[0], flops[1]);
  ck_assert_int_eq(counted_ops(&f, 2, "index scores", &flops[1]), 0);
  f.plan.pp = 2;
  planned_refuse(&f, RULE_FAMILY, "plan: pipeline_model_parallel_size: 2: expected 1, layers of model f read what "
                                  "others made: choices of keys");
  planned_clear(&f);
}
END_TEST

#define M3(keys)                                                                                                 \
  DECODER("minimax_m3_vl_text", ",\"num_local_experts\":4,\"num_experts_per_tok\":2,\"head_dim\":16,"           \
          "\"index_n_heads\":2,\"index_head_dim\":16,\"index_block_size\":16,\"index_topk_blocks\":2" keys)
#define SPARSE "[\"full_attention\",\"minimax_m3_sparse\"]"

/* Of 8 blocks two, by an indexer without latents; a file may say it in either form. */
START_TEST(chosen_blocks)
{
  g_autoptr(Model) older = parsed(M3(",\"sparse_attention_config\":{\"sparse_attention_freq\":[0,1]}"));
  g_autoptr(Model) none = parsed(M3(""));
  double all = 0, some = 0;
  Planned f;

  setup(&f, M3(",\"layer_types\":" SPARSE), 1);
  ck_assert_int_eq(block(f.model, 1)->params - block(f.model, 0)->params, 64 * (2 + 1) * 16 + 2 * 16);
  ck_assert_int_eq(older->params, f.model->params);
  ck_assert_int_eq(block(none, 1)->params, block(f.model, 0)->params);
  counted_ops(&f, 1, "attention", &all);
  counted_ops(&f, 2, "attention", &some);
  ck_assert_double_eq(some, all / 4);
  ck_assert_int_eq(counted_ops(&f, 2, "index scores", &some), 1);
  planned_clear(&f);
}
END_TEST

/* Of recurrent units the gates' blocks are products, of xLSTM a chunk's; RWKV mixes each token with the one before. */
START_TEST(recurrences)
{
  g_autoptr(Model) gemma = parsed("{\"model_type\":\"recurrent_gemma\",\"num_hidden_layers\":3," HF "}");
  g_autoptr(Model) blocks = parsed("{\"model_type\":\"recurrent_gemma\",\"num_hidden_layers\":3,\"head_dim\":8,"
                                   "\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":8,"
                                   "\"vocab_size\":128}");
  double flops = 0;
  Planned f;

  ck_assert_int_eq(block(gemma, 0)->params - block(blocks, 0)->params, 2 * 64 * (16 - 8));
  ck_assert_int_eq(block(gemma, 2)->attention.window, 2048);
  setup(&f, "{\"model_type\":\"recurrent_gemma\",\"num_hidden_layers\":3," HF "}", 1);
  ck_assert_int_eq(counted_ops(&f, 1, "recurrence gates", &flops), 1);
  ck_assert_double_eq(flops, 2.0 * 128 * 2 * 64 * 16);
  planned_clear(&f);
  setup(&f, "{\"model_type\":\"rwkv\",\"num_hidden_layers\":2,\"hidden_size\":64,\"vocab_size\":128}", 1);
  ck_assert_double_eq(moved(&f, 1, "token shift", FALSE), (2 + 8 * 3 + 2 + 8 * 2) * 2.0 * 128 * 64);
  ck_assert_int_eq(counted_ops(&f, 1, "receptance", &flops), 1);
  planned_clear(&f);
}
END_TEST

#define XLSTM(keys) "{\"model_type\":\"xlstm\",\"vocab_size\":128,\"num_heads\":4," keys "}"

/* Of two names of depth its own counts; either does alone. */
START_TEST(own_names)
{
  static const char *const same[] = {
    XLSTM("\"num_blocks\":2,\"embedding_dim\":64"),
    XLSTM("\"num_blocks\":2,\"num_hidden_layers\":32,\"hidden_size\":64,\"embedding_dim\":64"),
    XLSTM("\"num_blocks\":null,\"num_hidden_layers\":2,\"hidden_size\":64,\"embedding_dim\":null"),
    XLSTM("\"num_blocks\":2,\"hidden_size\":null,\"embedding_dim\":64"),
  };
  g_autoptr(Model) m = parsed(XLSTM("\"num_hidden_layers\":2,\"hidden_size\":64"));
  g_autoptr(Model) other = parsed(DECODER("llama", ",\"num_blocks\":3,\"embedding_dim\":32"));
  g_autoptr(Model) usual = parsed("{\"model_type\":\"xlstm\",\"vocab_size\":50304,\"hidden_size\":4096,"
                                  "\"embedding_dim\":4096,\"num_hidden_layers\":32,\"num_blocks\":2}");

  for (gsize i = 0; i < G_N_ELEMENTS(same); i++) {
    g_autoptr(Model) like = parsed(same[i]);
    ck_assert_int_eq(like->blocks, 2);
    ck_assert_int_eq(like->params, m->params);
  }
  ck_assert_int_eq(other->blocks, 2);
  ck_assert_int_eq(usual->params, 815427616);
}
END_TEST

START_TEST(widths_by_factors)
{
  g_autoptr(Model) m = parsed("{\"model_type\":\"xlstm\",\"num_hidden_layers\":2,\"hidden_size\":64,\"num_heads\":4,"
                              "\"vocab_size\":128,\"qk_dim_factor\":0.5,\"v_dim_factor\":1.5,\"ffn_proj_factor\":1.3,"
                              "\"ffn_round_up_to_multiple_of\":24}");

  ck_assert_int_eq(block(m, 0)->linear.state, 8);
  ck_assert_int_eq(block(m, 0)->linear.head_dim, 24);
  ck_assert_int_eq(block(m, 0)->ffn.width, 96);
  ck_assert_int_eq(block(m, 0)->linear.chunk, 64);
}
END_TEST

#define GEMMA3N(layers, keys)                                                                                \
  "{\"model_type\":\"gemma3n_text\",\"num_hidden_layers\":" #layers ",\"hidden_size\":64,\"num_attention_heads\":4," \
  "\"num_key_value_heads\":2,\"head_dim\":16,\"vocab_size\":128,\"vocab_size_per_layer_input\":128,"              \
  "\"hidden_size_per_layer_input\":8,\"num_kv_shared_layers\":0" keys "}"

/* Streams that are updated in turn, a product past attention, gates that are cut in the first ten layers of more. */
START_TEST(alternating_updates)
{
  g_autoptr(Model) four = parsed(GEMMA3N(2, ",\"intermediate_size\":96"));
  g_autoptr(Model) two = parsed(GEMMA3N(2, ",\"intermediate_size\":[96,96],\"altup_num_inputs\":2"));
  Planned f;

  ck_assert(!block(four, 0)->ffn.sparse_gate);
  ck_assert_int_eq(model_layer(four, 0)->params - model_layer(two, 0)->params, (3 - 1) * 64 * 64);
  ck_assert_int_eq(model_layer(four, 3)->params - model_layer(two, 3)->params, (3 - 1) * 64 * 64);
  ck_assert_int_eq(block(four, 0)->params - block(two, 0)->params, 2 * 64 + (16 + 64) - (4 + 8));
  setup(&f, GEMMA3N(11, ",\"intermediate_size\":96"), 1);
  ck_assert_double_eq(moved(&f, 10, "cut gate", FALSE), 6 * 2.0 * 128 * 96);
  ck_assert_double_eq(moved(&f, 11, "cut gate", FALSE), 0);
  ck_assert_double_eq(op_boundary_bytes(f.model, PASSES(&f.plan)), 4 * 2.0 * 128 * 64);
  planned_clear(&f);
}
END_TEST

#define LONGCAT(keys)                                                                                          \
  "{\"model_type\":\"longcat_flash\",\"hidden_size\":64,\"ffn_hidden_size\":96,\"num_attention_heads\":4,"        \
  "\"vocab_size\":128,\"moe_topk\":3,\"n_routed_experts\":8,\"expert_ffn_hidden_size\":32" LATENT keys "}"

/* Two blocks a layer; of a router's choices those of experts that do nothing are left out. */
START_TEST(two_blocks_a_layer)
{
  g_autoptr(Model) m = parsed(LONGCAT(",\"num_layers\":2,\"zero_expert_num\":4"));
  g_autoptr(Model) by_blocks = parsed(LONGCAT(",\"num_hidden_layers\":5,\"zero_expert_num\":4"));
  g_autoptr(Model) busy = parsed(LONGCAT(",\"num_layers\":2,\"zero_expert_num\":0"));

  ck_assert_int_eq(m->blocks, 4);
  ck_assert_int_eq(by_blocks->blocks, 4);
  ck_assert_int_eq(block(m, 0)->ffn.experts, 8);
  ck_assert_int_eq(block(m, 0)->ffn.shared_width, 96);
  ck_assert_int_eq(block(m, 0)->ffn.experts_per_token, 2);
  ck_assert_int_eq(block(m, 1)->ffn.experts, 0);
  ck_assert_int_eq(busy->params, m->params - 2 * 4 * (64 + 1));
  ck_assert_int_eq(block(busy, 0)->ffn.experts_per_token, 3);
}
END_TEST

#define STACKS(kind, keys)                                                                                     \
  "{\"model_type\":\"" kind "\",\"d_model\":64,\"encoder_layers\":2,\"decoder_layers\":2,"                       \
  "\"encoder_attention_heads\":4,\"decoder_attention_heads\":4,\"encoder_ffn_dim\":96,\"decoder_ffn_dim\":96,"   \
  "\"vocab_size\":128" keys "}"

/* Encoders whose queries see a stretch, and tables of positions of their own for both stacks. */
START_TEST(stretches)
{
  Planned f;

  setup(&f, STACKS("led", ",\"attention_window\":[32,32],\"max_encoder_position_embeddings\":256,"
                          "\"max_decoder_position_embeddings\":160"), 1);
  ck_assert_int_eq(block(f.model, 0)->attention.window, 33);
  ck_assert_int_eq(block(f.model, 2)->attention.window, 0);
  ck_assert_int_eq(block(f.model, 2)->params - block(f.model, 3)->params, 160 * 64 + 2 * 64);
  f.plan.seq = 256;
  f.plan.decoder_seq = 161;
  planned_refuse(&f, RULE_SEQUENCE, "plan: decoder_seq_length: 161: expected at most the 160 positions of model f");
  f.plan.decoder_seq = 0;
  planned_refuse(&f, RULE_SEQUENCE, "plan: decoder_seq_length: 256, as seq_length: expected at most the 160 positions "
                                    "of model f");
  planned_clear(&f);
}
END_TEST

/* Tokens that go along are more rows of the encoder's products, and of what its stages hand on, behind a norm of their
 * own. */
START_TEST(global_tokens)
{
  double flops[2] = { 0, 0 };
  Planned f;

  for (int i = 0; i < 2; i++) {
    setup(&f, i ? STACKS("pegasus_x", ",\"block_size\":16,\"num_global_tokens\":32")
                : STACKS("pegasus_x", ",\"block_size\":16,\"num_global_tokens\":16"), 1);
    ck_assert_int_eq(block(f.model, 0)->attention.window, i ? 80 : 48);
    counted_ops(&f, 1, "feed-forward up", &flops[i]);
    planned_clear(&f);
  }
  ck_assert_double_eq(flops[1], flops[0] * (128 + 32) / (128 + 16));
  setup(&f, STACKS("pegasus_x", ""), 1);
  ck_assert_double_eq(moved(&f, 1, "attention norm", FALSE), 2 * 2.0 * 128 * 64);
  ck_assert_double_eq(moved(&f, 1, "norm of global tokens", FALSE), 2 * 2.0 * 32 * 64);
  ck_assert_double_eq(moved(&f, 1, "feed-forward norm", FALSE), 2 * 2.0 * (128 + 32) * 64);
  f.plan.decoder_seq = 96;
  ck_assert_double_eq(op_boundary_bytes_at(f.model, PASSES(&f.plan), 2), 2.0 * (128 + 32) * 64);
  ck_assert_double_eq(op_boundary_bytes_at(f.model, PASSES(&f.plan), 3), 2.0 * 128 * 64);
  ck_assert_double_eq(op_boundary_bytes_at(f.model, PASSES(&f.plan), 4), 2.0 * (128 + 96) * 64);
  planned_clear(&f);
}
END_TEST

/* Of adapters of three languages each token goes through one. */
START_TEST(adapters_of_languages)
{
  g_autoptr(Model) one = parsed(DECODER("xmod", ""));
  g_autoptr(Model) three = parsed(DECODER("xmod", ",\"languages\":[\"a\",\"b\",\"c\"]"));
  gint64 adapter = 2 * 64 * 32 + 32 + 64;

  ck_assert_int_eq(three->params - one->params, 2 * 2 * adapter);
  ck_assert_int_eq(block(three, 0)->active_params, block(one, 0)->active_params);
  ck_assert_double_eq(model_flops(three, 128), model_flops(one, 128));
}
END_TEST

#define INKLING(keys)                                                                                            \
  DECODER("inkling_text", ",\"head_dim\":16,\"swa_num_attention_heads\":4,\"swa_head_dim\":16,"                    \
          "\"swa_num_key_value_heads\":4,\"sliding_window_size\":32,\"rel_extent\":64" EXPERTS keys)

/* Biases by distance from a bank, as many distances as a window where there is one; convolutions. */
START_TEST(distances)
{
  g_autoptr(Model) longer = parsed(INKLING(",\"local_layer_ids\":[0],\"conv_kernel_size\":5"));
  double flops = 0;
  Planned f;

  setup(&f, INKLING(",\"local_layer_ids\":[0]"), 1);
  ck_assert_double_eq(model_flops(f.model, 128) - model_flops_unmasked(f.model, 128, 128),
                      6.0 * 128 * 128 * 4 * (16 + 16) / 2); /* of biases nothing */
  ck_assert_int_eq(block(f.model, 0)->attention.rel_extent, 32);
  ck_assert_int_eq(block(f.model, 1)->attention.rel_extent, 64);
  ck_assert_int_eq(block(f.model, 0)->attention.kv_heads, 4);
  ck_assert_int_eq(block(f.model, 1)->attention.kv_heads, 2);
  ck_assert_int_eq(block(longer, 1)->params - block(f.model, 1)->params, 2 * 64 + 2 * 2 * 16);
  ck_assert_int_eq(counted_ops(&f, 2, "distance biases", &flops), 1);
  ck_assert_double_eq(flops, 2.0 * 128 * 4 * 16 * 64);
  planned_clear(&f);
}
END_TEST

#define JETMOE(keys) DECODER("jetmoe", ",\"kv_channels\":16,\"num_local_experts\":8" keys)

/* Each expert that a token visits has queries for all keys, and brings what they give back; others are held. */
START_TEST(experts_of_attention)
{
  g_autoptr(Model) three = parsed(JETMOE(",\"num_experts_per_tok\":3"));
  gint64 expert = 2 * 64 * 32;
  double flops[3] = { 0, 0, 0 };
  Planned f;

  setup(&f, JETMOE(""), 1);
  ck_assert_int_eq(block(f.model, 0)->attention.heads, 2 * 2);
  ck_assert_int_eq(three->params, f.model->params);
  ck_assert_int_eq(block(three, 0)->active_params - block(f.model, 0)->active_params, expert + 3 * 64 * 96);
  ck_assert_int_eq(counted_ops(&f, 1, "expert queries", &flops[0]), 1);
  ck_assert_double_eq(flops[0], 2.0 * 2 * 128 * 64 * 32);
  ck_assert_int_eq(counted_ops(&f, 1, "expert outputs", &flops[1]), 1);
  ck_assert_double_eq(flops[1], flops[0]);
  ck_assert_int_eq(counted_ops(&f, 1, "attention", &flops[2]), 1);
  ck_assert_double_eq(flops[2], 2.0 * 4 * 128 * 128 * (16 + 16));
  ck_assert_double_eq(moved(&f, 1, "queries to tokens", FALSE), 3 * 2.0 * 2 * 128 * 32);
  ck_assert_double_eq(saved_by(&f, 1, "outputs to experts"), 2.0 * 2 * 128 * 32);
  ck_assert_double_eq(saved_by(&f, 1, "expert outputs"), 2.0 * 2 * 128 * 32);
  f.plan.attention = ATTENTION_UNFUSED;
  ck_assert_double_eq(saved_by(&f, 1, "outputs to experts"), 0);
  planned_clear(&f);
}
END_TEST

#define ROC(keys)                                                                                                \
  DECODER("roc_bert", ",\"shape_vocab_size\":48,\"shape_embed_dim\":24,\"pronunciation_vocab_size\":32,"            \
          "\"pronunciation_embed_dim\":16" keys)

/* Sounds and shapes are joined to tokens and projected with them, those that are enabled; all are held. */
START_TEST(tables_beside_tokens)
{
  g_autoptr(Model) sounds = parsed(ROC(",\"enable_shape\":false"));
  double flops = 0;
  Planned f;

  setup(&f, ROC(""), 1);
  ck_assert_int_eq(f.model->params - sounds->params, 24 * 64);
  counted_ops(&f, 0, "table projection", &flops);
  ck_assert_double_eq(flops, 2.0 * 128 * (64 + 24 + 16) * 64);
  ck_assert_double_eq(moved(&f, 0, "beside tokens", FALSE), 2 * 2.0 * 128 * (24 + 16));
  planned_clear(&f);
}
END_TEST

#define CPM(keys)                                                                                                \
  "{\"model_type\":\"cpmant\",\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,\"dim_head\":16," \
  "\"dim_ff\":96,\"vocab_size\":128,\"prompt_types\":2,\"segment_types\":3,\"position_bias_num_buckets\":16" keys "}"

/* Prompts are tokens of all blocks, of scores and of what stages hand on, but not of the head. */
START_TEST(prompts)
{
  double flops[3] = { 0, 0, 0 };
  Planned f;

  setup(&f, CPM(",\"prompt_length\":16"), 1);
  ck_assert_int_eq(model_layer(f.model, 0)->params, (128 + 2 * 16 + 3) * 64);
  ck_assert_int_eq(block(f.model, 0)->params - block(f.model, 1)->params, (16 + 3 * 3) * 4);
  counted_ops(&f, 1, "feed-forward down", &flops[0]);
  ck_assert_double_eq(flops[0], 2.0 * (128 + 16) * 64 * 96);
  counted_ops(&f, 1, "attention", &flops[1]);
  ck_assert_double_eq(flops[1], 2.0 * 4 * (128 + 16) * (128 + 16) * (16 + 16));
  counted_ops(&f, 3, "logits", &flops[2]);
  ck_assert_double_eq(flops[2], 2.0 * 128 * 64 * 128);
  ck_assert_double_eq(op_boundary_bytes_at(f.model, PASSES(&f.plan), 2), 2.0 * (128 + 16) * 64);
  ck_assert_double_eq(model_flops(f.model, 128), 6.0 * 144 * 2 * (4 * 64 * 64 + 3 * 64 * 96) +
                                                     2 * 12.0 * 144 * 144 * 64 + 6.0 * 128 * 64 * 128);
  planned_clear(&f);
}
END_TEST

#define BERT(kind, keys)                                                                                         \
  "{\"model_type\":\"" kind "\",\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":96,"             \
  "\"num_attention_heads\":4,\"vocab_size\":128,\"max_position_embeddings\":256" keys "}"
#define PAIR(kind)                                                                                               \
  "{\"model_type\":\"encoder-decoder\",\"encoder\":" BERT(kind, "") ",\"decoder\":"                              \
  BERT("bert", ",\"add_cross_attention\":true") "}"

/* Each of two BERTs has tables of its own; the second one attends to the first, whose pooler is held and run. */
START_TEST(pairs)
{
  double flops[2] = { 0, 0 };
  Planned f;

  setup(&f, PAIR("bert"), 1);
  ck_assert_int_eq(block(f.model, 2)->params - block(f.model, 3)->params, (128 + 256 + 2) * 64 + 2 * 64);
  ck_assert_int_eq(block(f.model, 3)->params - block(f.model, 1)->params, 4 * (64 * 64 + 64) + 2 * 64);
  ck_assert_double_eq(moved(&f, 3, "token types", FALSE), 3 * 2.0 * 128 * 64);
  ck_assert_int_eq(counted_ops(&f, 3, "attention", &flops[0]), 2);
  ck_assert_int_eq(counted_ops(&f, 5, "pooler", &flops[1]), 1);
  ck_assert_double_eq(flops[1], 2.0 * 64 * 64);
  planned_clear(&f);
}
END_TEST

/* What reads tokens of other ranks' parts in another way than attention does. */
START_TEST(parts_of_sequences)
{
  static const struct { const char *text, *what; } cases[] = {
    { DECODER("doge", ""), "masks that depend on values" },
    { INKLING(""), "convolutions over tokens" },
    { CPM(""), "prompts before each sequence" },
    { M3(",\"layer_types\":" SPARSE), "an indexer that chooses keys" },
  };
  Planned f;

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text =
      g_strdup_printf("plan: context_parallel_size: 2: expected 1, model f has %s", cases[i].what);
    setup(&f, cases[i].text, 2);
    f.plan.tp = 1;
    f.plan.cp = 2;
    planned_refuse(&f, RULE_CONTEXT, text);
    planned_clear(&f);
  }
}
END_TEST

START_TEST(named)
{
  static const char *const cases[][2] = {
    { DECODER("llama", ""), NULL },
    { DECODER("diffllama", ""), "lambda_std_dev" },
    { DECODER("doge", ""), "keep_window_size" },
    { DECODER("axk2", LATENT EXPERTS), "gated_norm_rank" },
    { HYV4(""), "hc_mult" },
    { DOTS3(""), "norms of rotated keys alone" },
    { M3(""), NULL },
    { INKLING(""), "d_rel" },
    { JETMOE(""), "experts of attention" },
    { ROC(""), "tables beside tokens" },
    { PAIR("bert"), "an encoder and a decoder of BERT" },
    { CPM(""), "prompt_length" },
    { DECODER("xmod", ""), "adapter_reduction_factor" },
    { LONGCAT(",\"num_layers\":2"), "zero_expert_num" },
    { LONGCAT(",\"num_layers\":2,\"zero_expert_num\":0"), "two blocks a layer" },
    { STACKS("led", ""), "attention_window" },
    { STACKS("pegasus_x", ""), "num_global_tokens" },
    { GEMMA3N(2, ",\"intermediate_size\":96"), "altup_num_inputs" },
    { "{\"model_type\":\"rwkv\",\"num_hidden_layers\":2,\"hidden_size\":64,\"vocab_size\":128}", "time_mix_key" },
    { "{\"model_type\":\"recurrent_gemma\",\"num_hidden_layers\":3," HF "}", "lru_width" },
    { "{\"model_type\":\"xlstm\",\"num_hidden_layers\":2,\"hidden_size\":64,\"vocab_size\":128}", "qk_dim_factor" },
    { M3(",\"layer_types\":" SPARSE), "index_block_size" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) m = parsed(cases[i][0]);
    ck_assert_pstr_eq(model_own_mechanism(m), cases[i][1]);
  }
}
END_TEST

static const char *const not_counted[][2] = {
  { DECODER("doge", ",\"is_moe\":true"),
    "f: is_moe: true: expected false, as a row of a table for each expert is not counted" },
  { "{\"model_type\":\"diffllama\",\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":1,\"vocab_size\":128,\"intermediate_size\":96}",
    "f: num_key_value_heads: 1: expected an even number, as each attends to half of the values" },
  { DECODER("axk2", LATENT EXPERTS ",\"gated_norm_rank\":0"),
    "f: gated_norm_rank: 0: expected an integer from 1 to 1048576" },
  { "{\"model_type\":\"xlstm\",\"use_bias\":true,\"num_hidden_layers\":2,\"hidden_size\":64,\"vocab_size\":128}",
    "f: use_bias: true: expected false, as a bias of norms and of what heads give is not counted" },
  { XLSTM("\"num_blocks\":2,\"hidden_size\":64,\"embedding_dim\":32"),
    "f: embedding_dim: 32: expected 64 as hidden_size, all that its class takes" },
  { "{\"model_type\":\"recurrent_gemma\",\"num_hidden_layers\":3,\"block_types\":[\"recurrent\",\"sliding\"]," HF "}",
    "f: block_types[1]: \"sliding\": expected one of recurrent, attention" },
  { "{\"model_type\":\"recurrent_gemma\",\"num_hidden_layers\":3,\"lru_width\":66," HF "}",
    "f: num_attention_heads: 4: expected a divisor of the 66 channels" },
  { GEMMA3N(2, ",\"intermediate_size\":[96,64]"),
    "f: intermediate_size: […]: expected a number, or the same for each of 2 layers" },
  { GEMMA3N(2, ",\"activation_sparsity_pattern\":[0.5]"),
    "f: activation_sparsity_pattern: […]: expected an array of 2 shares, one a layer" },
  { "{\"model_type\":\"llama\",\"intermediate_size\":[96,96]}",
    "f: intermediate_size: […]: expected an integer from 1 to 16777216" },
  { STACKS("led", ",\"attention_window\":33"), "f: attention_window: 33: expected an even number from 2" },
  { STACKS("led", ",\"attention_window\":[32]"),
    "f: attention_window: […]: expected an even number, or one for each of 2 layers" },
  { STACKS("led", ",\"attention_window\":[32,64]"),
    "f: attention_window[1]: 64: expected 32 as in all layers, as others are not counted" },
  { DECODER("xmod", ",\"languages\":[]"), "f: languages: []: expected an array of at least one language" },
  { DECODER("xmod", ",\"adapter_layer_norm\":true"),
    "f: adapter_layer_norm: true: expected false, as a norm of adapters alone is not counted" },
  { INKLING(",\"unpadded_vocab_size\":100"),
    "f: unpadded_vocab_size: 100: expected null, as a head of another vocabulary is not counted" },
  { DECODER("inkling_text", ",\"head_dim\":16,\"swa_num_attention_heads\":8" EXPERTS),
    "f: swa_num_attention_heads: 8: expected 4, as num_attention_heads" },
  { DOTS3(",\"swa_num_attention_heads\":2"),
    "f: swa_num_attention_heads: 2: expected as many heads of keys as of queries in all layers" },
  { DOTS3(",\"num_key_value_heads\":2"),
    "f: num_key_value_heads: 2: expected 4 as num_attention_heads, all that its class takes" },
  { DOTS3(TYPES ",\"per_layer_config\":{\"1\":{\"head_dim\":24}}"),
    "f: per_layer_config.1: {…}: expected sizes of layers with a window alone, the same of all" },
  { DOTS3(TYPES ",\"per_layer_config\":{\"2\":{\"head_dim\":32}}"),
    "f: per_layer_config: {…}: expected a head_dim of layers with a window that is their qk_nope_head_dim and "
    "qk_rope_head_dim" },
  { HYV4(",\"indexer_types\":[\"shared\",\"full\"]"),
    "f: indexer_types[0]: \"shared\": expected full, as no layer before has an indexer" },
  { HYV4(",\"indexer_types\":[\"full\"]"), "f: indexer_types: […]: expected an array of 2 strings, one a layer" },
  { HYV4(",\"hc_mult\":1"),
    "f: hc_mult: 1: expected an integer from 2, as weights that mix one stream alone are not counted" },
  { HYV4(",\"hc_mult\":null"),
    "f: hc_mult: null: expected an integer from 2, as weights that mix one stream alone are not counted" },
  { GEMMA3N(2, ",\"intermediate_size\":96,\"altup_num_inputs\":1"),
    "f: altup_num_inputs: 1: expected an integer from 2, as weights that predict one stream alone are not counted" },
  { STACKS("pegasus_x", ",\"num_global_tokens\":0"),
    "f: num_global_tokens: 0: expected an integer from 1, as norms of no tokens are not counted" },
  { "{\"model_type\":\"jetmoe\",\"num_hidden_layers\":2,\"num_key_value_heads\":16384,\"kv_channels\":16384,"
    "\"num_experts_per_tok\":1,\"hidden_size\":64,\"intermediate_size\":96,\"vocab_size\":128}",
    "f: num_key_value_heads: 16384: expected heads of at most 16777216 values in all" },
  { PAIR("gpt2"), "f: encoder.model_type: \"gpt2\": expected \"bert\", as other pairs are not counted" },
  { ROC(",\"concat_input\":false"),
    "f: hidden_size: 64: expected 24 as shape_embed_dim, whose rows are added to tokens'" },
  { HYV4(",\"mtp_num_layers\":1"),
    "f: mtp_num_layers: 1: expected 0 in a model with several streams of hidden states" },
};

START_TEST(refused_keys)
{
  for (gsize i = 0; i < G_N_ELEMENTS(not_counted); i++)
    refused(not_counted[i][0], not_counted[i][1]);
}
END_TEST

TEST_MAIN("mechanisms", differences, masks, gated_norms, latent_windows, indexers, streams, shared_choices,
          chosen_blocks, recurrences, own_names, widths_by_factors, alternating_updates, two_blocks_a_layer, stretches,
          global_tokens, adapters_of_languages, distances, experts_of_attention, tables_beside_tokens,
          prompts, pairs, parts_of_sequences, named, refused_keys)
