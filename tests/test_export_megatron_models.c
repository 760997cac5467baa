/* Models of other kinds for Megatron-LM: what they are called there, and what it lacks. */
#include "test_export.h"

#include "fixture.h"

#include <string.h>

/* Of a small model of these fields of Hugging Face's. */
static Case small_model(const char *type, const char *more)
{
  Case c = case_new("llama-3.1-8b", "dgx-h100", 64);
  g_autofree char *text = g_strdup_printf("{\"model_type\":\"%s\",\"hidden_size\":64,\"num_hidden_layers\":8,"
                                          "\"vocab_size\":100,\"num_attention_heads\":4,\"intermediate_size\":96%s%s}",
                                          type, *more ? "," : "", more);
  model_free(c.model);
  c.model = model_parse(text, strlen(text), "f", NULL);
  c.plan.seq = c.model->seq;
  return c;
}

START_TEST(megatron_latent_attention)
{
  Case c = case_new("deepseek-v3", "dgx-h100", 64);
  has(&c, "megatron", "--multi-latent-attention --kv-lora-rank 512 --q-lora-rank 1536 --qk-head-dim 128 "
                      "--qk-pos-emb-head-dim 64 --v-head-dim 128 --qk-layernorm --swiglu --ffn-hidden-size 18432\n"
                      "  --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 --moe-grouped-gemm "
                      "--moe-permute-fusion --moe-layer-freq '([0]*3+[1]*58)*1' --moe-router-num-groups 8 "
                      "--moe-router-group-topk 4 --moe-shared-expert-intermediate-size 2048 "
                      "--moe-router-score-function sigmoid --moe-router-enable-expert-bias\n");
  has(&c, "megatron", " --moe-router-topk-scaling-factor 2.5\n");
  has_not(&c, "megatron", "# - model: routed_scaling_factor");
  has_not(&c, "megatron", "--kv-channels");
  has_not(&c, "megatron", "--group-query-attention");
  has_not(&c, "megatron", "--attention-backend"); /* some Transformer Engine has no FlashAttention for it */
  has(&c, "megatron", "# - attention: flash: Megatron-LM chooses ");
  has_not(&c, "megatron", "--no-rope-fusion");
  c.plan.framework = &c.framework;
  c.framework.latent_rope_apart = TRUE;
  has(&c, "megatron", "--no-rope-fusion");
  c.framework.latent_rope_apart = FALSE;
  c.plan.attention = ATTENTION_UNFUSED;
  has(&c, "megatron", "--attention-backend unfused");
  test_text(lost(&c, "megatron"), "");
  case_clear(&c);
  c = case_new("deepseek-v3.2", "dgx-h100", 64);
  has(&c, "megatron", "--experimental-attention-variant dsa");
  has(&c, "megatron", "--no-rope-fusion"); /* "RoPE fusion is not supported for DSAttention" */
  has(&c, "megatron", "# - model: index_topk: Megatron-LM rotates ");
  test_text(lost(&c, "megatron"), "");
  case_clear(&c);
}
END_TEST

/* What a router is trained with: of the file, of the family, or a line of note. */
START_TEST(megatron_routers)
{
#define DEEPSEEK3 "\"n_routed_experts\":16,\"n_group\":4,\"topk_group\":2,\"num_experts_per_tok\":2,\"first_k_dense_replace\":1," \
                  "\"kv_lora_rank\":16,\"q_lora_rank\":16,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":16,\"v_head_dim\":16"
  Case c = small_model("deepseek_v3", DEEPSEEK3 ",\"aux_loss_alpha\":0.001,\"seq_aux\":true,\"routed_scaling_factor\":3");
  has(&c, "megatron", " --moe-aux-loss-coeff 0.001 --moe-router-load-balancing-type seq_aux_loss "
                      "--moe-router-topk-scaling-factor 3\n");
  case_clear(&c);
  c = small_model("deepseek_v3", DEEPSEEK3 ",\"seq_aux\":true"); /* of a loss that there is not */
  has(&c, "megatron", " --moe-router-topk-scaling-factor 2.5\n");
  has_not(&c, "megatron", "--moe-router-load-balancing-type");
  case_clear(&c);
  c = case_new("kimi-k2", "dgx-h100", 64);
  has(&c, "megatron", "# - model: routed_scaling_factor: not in its file, so Megatron-LM scales by 1\n");
  has_not(&c, "megatron", "--moe-router-topk-scaling-factor");
  case_clear(&c);
  c = case_new("mixtral-8x7b", "dgx-h100", 64);
  has_not(&c, "megatron", "routed_scaling_factor");
  case_clear(&c);
}
END_TEST

START_TEST(megatron_windows)
{
  Case c = case_new("gpt-oss-20b", "dgx-h100", 64);
  has(&c, "megatron", "--kv-channels 64 --softmax-type learnable --window-size 127,0 "
                      "--window-attn-skip-freq '([1]*1+[0]*1)*12'");
  test_text(lost(&c, "megatron"), "");
  has(&c, "megatron", " --quick-geglu --glu-linear-offset 1 --activation-func-clamp-value 7 --ffn-hidden-size 2880");
  has(&c, "megatron", "--moe-grouped-gemm --no-bias-dropout-fusion --moe-permute-fusion");
  has_not(&c, "megatron", "--swiglu");
  has(&c, "megatron", "# - attention: flash: Megatron-LM chooses ");
  has_not(&c, "megatron", "--attention-backend");
  c.plan.tp = 2;
  c.plan.dp = 32;
  c.plan.sequence_parallel = TRUE;
  test_text(lost(&c, "megatron"),
            "expert_tensor_parallel_size: TransformerConfig asserts expert tensor parallelism 1 where experts have "
            "biases, written as 1\n"
            "moe_token_dispatcher_type: TransformerConfig asserts expert tensor parallelism 1 where experts have "
            "biases, written as alltoall\n");
  has(&c, "megatron", "--expert-tensor-parallel-size 1 ");
  c.plan.seq = 128;
  has_not(&c, "megatron", "--window");
  case_clear(&c);
  c = case_new("mistral-7b", "dgx-h100", 64);
  c.plan.seq = 8192;
  has(&c, "megatron", "--window-size 4095,0 --swiglu");
  case_clear(&c);
}
END_TEST

START_TEST(megatron_other_models)
{
  static const struct {
    const char *model, *losses, *part;
  } cases[] = {
    {"gpt-neox-20b",
     "model: attention and feed-forward side by side: not in Megatron-LM core 0.20, written one after the other\n",
     "--position-embedding-type rope"},
    {"bloom",
     "model: norm behind the embedding: not in Megatron-LM core 0.20, left out\n"
     "model: alibi: not in Megatron-LM core 0.20, written without positions\n",
     "--position-embedding-type none"},
    {"qwen2.5-7b", "", "--disable-bias-linear --add-qkv-bias"},
    {"qwen3-8b", "", "--num-query-groups 8 --qk-layernorm --swiglu"},
    {"opt-1.3b", "", "--seq-length 2048 --max-position-embeddings 2050\n"},
    {"gemma-2-9b", "model: norms behind attention and feed-forward: not in Megatron-LM core 0.20, left out\n",
     "--kv-channels 256"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Case c = case_new(cases[i].model, "dgx-h100", 64);
    c.plan.global_batch = 64;
    test_text(lost(&c, "megatron"), cases[i].losses);
    has(&c, "megatron", cases[i].part);
    case_clear(&c);
  }
}
END_TEST

/* Hybrids: a letter a layer, stages between bars, modules behind slashes; the flags of Mamba-2 and of experts' latent.
 * Stages are told nowhere else. Other kinds of linear attention, and other targets, are refused. */
START_TEST(megatron_hybrids)
{
  Case c = case_new("nemotron-3-super-120b-a12b-mtp", "dgx-h100", 64);

  c.framework.mtp = TRUE;
  c.plan.framework = &c.framework;
  c.plan.pp = 8;
  c.plan.dp = 8;
  c.plan.global_batch = 64;
  has(&c, "megatron", " --hybrid-layer-pattern 'MEMEMEM*EME|MEMEM*EMEME|MEM*EMEMEME|MEM*EMEMEME|MEM*EMEMEME|MEM*EMEMEME|MEM*"
                      "EMEMEME|M*EMEMEMEME/*E/*E'");
  has(&c, "megatron", "  --spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec\n");
  has(&c, "bridge", "  hybrid_layer_pattern: \"MEMEMEM*EME|MEMEM*EMEME|MEM*EMEMEME|");
  has_not(&c, "bridge", "pipeline_model_parallel_layout");
  has(&c, "megatron", "--mamba-num-heads 128 --mamba-head-dim 64 --mamba-num-groups 8 --mamba-state-dim 128\n");
  has(&c, "megatron", " --moe-latent-size 1024 ");
  has(&c, "megatron", "  --group-query-attention --num-query-groups 2 ");
  has(&c, "megatron", "  pretrain_hybrid.py \"${MODEL[@]}\"");
  has_not(&c, "megatron", "--num-layers");
  has_not(&c, "megatron", "moe-layer-freq");
  has_not(&c, "megatron", "pipeline-model-parallel-layout");
  test_text(lost(&c, "megatron"), "");
  case_clear(&c);
}
END_TEST

/* Blocks of two parts have two letters; the convolution and the chunk are Megatron-LM's. */
START_TEST(megatron_two_letters)
{
  static const char two[] = "{\"layers\":4,\"hidden\":512,\"heads\":8,\"vocab\":1024,\"seq\":1024,\"mlp\":\"swiglu\","
                            "\"norm\":\"rmsnorm\",\"positions\":\"none\",\"tied_embeddings\":false,"
                            "\"linear_attention\":\"%s\",\"linear_heads\":16,\"linear_head_dim\":64,"
                            "\"linear_groups\":8,\"linear_state\":32,\"full_attention_interval\":4,"
                            "\"linear_conv\":%d}";
  g_autofree char *mamba = g_strdup_printf(two, "mamba2", 4), *wide = g_strdup_printf(two, "mamba2", 8);
  g_autofree char *delta = g_strdup_printf(two, "kimi_delta", 4);
  const char *texts[] = { mamba, wide, delta };
  const char *losses[] = { "", "model: linear_conv: 8: Megatron-LM's Mamba-2 sees 4 tokens, with a bias of the convolution "
                               "alone\n" };

  for (int i = 0; i < 3; i++) {
    Case c = case_new("gpt3", "dgx-h100", 8);
    model_free(c.model);
    c.model = model_parse(texts[i], strlen(texts[i]), "two", NULL);
    c.plan = plan_default(c.model, &framework);
    c.plan.gpus = c.plan.dp = c.plan.global_batch = 8;
    if (i < 2) {
      has(&c, "megatron", "--hybrid-layer-pattern 'M-M-M-*-'");
      has(&c, "megatron", "# - model: linear_chunk: 256: Megatron-LM takes 128 tokens at once\n");
      test_text(lost(&c, "megatron"), losses[i]);
      cannot(&c, "torchtitan", "torchtitan: model two: linear_attention: expected a decoder without it");
    } else {
      cannot(&c, "megatron", "megatron: model two: expected linear_attention mamba2, which is what Megatron-LM core 0.20 "
                             "trains");
    }
    case_clear(&c);
  }
}
END_TEST

/* Facts of families that Megatron-LM is told, or cannot be. */
START_TEST(megatron_families)
{
  static const struct {
    const char *type, *losses, *part;
  } cases[] = {
    {"olmo2",
     "model: norms behind attention and feed-forward alone: not in Megatron-LM core 0.20, written before them\n"
     "model: norms over the queries and keys of all heads: not in Megatron-LM core 0.20, written for each head\n",
     "--qk-layernorm"},
    {"smollm3", "", "--rotary-base 2000000 --no-rope-freq 4 --norm-epsilon 1e-06\n"},
    {"phi",
     "model: attention and feed-forward side by side: not in Megatron-LM core 0.20, written one after the other\n"
     "model: bias of the head: not in Megatron-LM core 0.20, left out\n",
     "--rotary-percent 0.5"},
    {"arcee", "", "--squared-relu"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Case c = small_model(cases[i].type, "");
    test_text(lost(&c, "megatron"), cases[i].losses);
    has(&c, "megatron", cases[i].part);
    case_clear(&c);
  }
}
END_TEST

/* Rotary positions are scaled as Llama 3.1 scales them, or that is lost. */
START_TEST(rope_scaling)
{
#define LLAMA "\"rope_type\":\"llama3\",\"factor\":32,\"low_freq_factor\":1,\"original_max_position_embeddings\":8192"
#define YARN "\"rope_type\":\"yarn\",\"factor\":40,\"original_max_position_embeddings\":4096"
  static const struct {
    const char *key, *losses, *part;
  } cases[] = {
    {"\"rope_scaling\":{" LLAMA ",\"high_freq_factor\":4}", "", " --use-rope-scaling --rope-scaling-factor 32 "},
    {"\"rope_parameters\":{\"rope_theta\":5e5," LLAMA ",\"high_freq_factor\":4}", "",
     "--rotary-base 500000 --use-rope-scaling --rope-scaling-factor 32 "},
    {"\"rope_scaling\":{" LLAMA ",\"high_freq_factor\":1}",
     "model: rope_scaling: llama3: expected llama3 with the wavelengths of Llama 3.1, or yarn outside of latent attention, "
     "left out\n", "--rotary-base"},
    {"\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}",
     "model: rope_scaling: linear: expected llama3 with the wavelengths of Llama 3.1, or yarn outside of latent attention, "
     "left out\n", "--rotary-base"},
    {"\"rope_scaling\":{" YARN "}", "", "--rotary-base 10000 --rotary-scaling-factor 40 "
     "--yarn-original-max-position-embeddings 4096 --norm"},
    {"\"rope_scaling\":{" YARN ",\"beta_fast\":24,\"beta_slow\":2,\"mscale\":0.7,\"mscale_all_dim\":1,\"truncate\":true}", "",
     "4096 --yarn-beta-fast 24 --yarn-beta-slow 2 --mscale 0.7 --mscale-all-dim 1 --norm"},
    {"\"rope_scaling\":{" YARN ",\"mscale\":0.7,\"truncate\":false}", "",
     "4096 --no-yarn-correction-range-round-to-int --norm"},
    {"\"rope_scaling\":{" YARN ",\"attention_factor\":1.3688879454113936,\"mscale\":0.7,\"mscale_all_dim\":1}", "",
     "4096 --mscale 1 --norm"},
    {"\"rope_scaling\":null", "", "--rotary-base"},
    {"\"rope_parameters\":{\"rope_type\":\"default\"}", "", "--rotary-base"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Case c = small_model("llama", cases[i].key);
    test_text(lost(&c, "megatron"), cases[i].losses);
    has(&c, "megatron", cases[i].part);
    if (!strstr(cases[i].part, "--use-rope-scaling"))
      has_not(&c, "megatron", "--use-rope-scaling");
    (strstr(cases[i].key, "yarn") ? has : has_not)(&c, "megatron", "--position-embedding-type yarn");
    g_autofree char *other = lost(&c, "nanotron");
    ck_assert_int_eq(strstr(other, "model: rope_scaling: ") != NULL, c.model->rope_scaling.kind != NULL);
    case_clear(&c);
  }
  Case oss = case_new("gpt-oss-20b", "dgx-h100", 64);
  oss.plan.seq = oss.model->seq;
  has(&oss, "megatron", "--rotary-base 150000 --rotary-scaling-factor 32 --yarn-original-max-position-embeddings 4096 "
      "--yarn-beta-fast 32 --yarn-beta-slow 1 --no-yarn-correction-range-round-to-int");
  g_autofree char *older = lost(&oss, "primus"); /* core 0.16 */
  ck_assert_ptr_nonnull(strstr(older, "model: rope_scaling: yarn: expected llama3 with the wavelengths of Llama 3.1, left out\n"));
  has_not(&oss, "primus", "yarn_");
  oss.model->rope_scaling.tokens = 0;
  has(&oss, "megatron", "# - model: rope_scaling: original_max_position_embeddings: not in its file, so Megatron-LM takes 4096");
  Case latent = case_new("deepseek-v2-lite", "dgx-h100", 64);
  latent.plan.seq = latent.model->seq;
  latent.model->rope_scaling = oss.model->rope_scaling;
  has_not(&latent, "megatron", "position-embedding-type yarn");
  case_clear(&latent);
  case_clear(&oss);
#undef LLAMA
#undef YARN
}
END_TEST

START_TEST(megatron_encoders)
{
  GError *error = NULL;
  Case c = case_new("t5-3b", "dgx", 16);

  c.plan.tp = 2;
  c.plan.dp = 8;
  c.plan.global_batch = 128;
  c.plan.decoder_seq = 128;
  c.plan.zero = 1;
  test_text(lost(&c, "megatron"), "");
  golden_export(&c, "megatron", "t5-megatron");
  g_autofree char *line = launch_line(exporter_find("megatron"), c.model, c.cluster, &c.plan, NULL);
  ck_assert_ptr_nonnull(strstr(line, " examples/t5/pretrain_t5.py --tensor"));
  c.plan.pp = 2;
  c.plan.dp = 4;
  ck_assert_ptr_null(export_plan(exporter_find("megatron"), c.model, c.cluster, &c.plan, NULL, &error));
  test_error(&error, TDP_ERROR_INFEASIBLE, "megatron: model t5-3b: expected pipeline_model_parallel_size 1, which is what "
                                           "Megatron-LM core 0.20 trains");
  case_clear(&c);
  c = case_new("bert-large", "dgx", 8);
  c.plan.pp = 2;
  c.plan.dp = 4;
  test_text(lost(&c, "megatron"),
            "model: norm behind the embedding: not in Megatron-LM core 0.20, left out\n"
            "model: no norm before the head: not in Megatron-LM core 0.20, written with one\n"
            "model: norms behind the sums: not in Megatron-LM core 0.20, written before attention and feed-forward\n");
  golden_export(&c, "megatron", "bert-megatron");
  case_clear(&c);
}
END_TEST

TEST_MAIN("export megatron models", megatron_latent_attention, megatron_routers, megatron_windows, megatron_other_models, megatron_hybrids,
          megatron_two_letters, megatron_families, rope_scaling, megatron_encoders)
