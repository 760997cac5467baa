/* Layers that use the weights of others, or that tokens go through again: what they hold, and what they do. */
#include "main.h"
#include "test_worked.h"

#define SIZES "\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
              "\"vocab_size\":128,\"max_position_embeddings\":256"
#define DORY(keys) "{\"model_type\":\"dory\",\"head_dim\":16," SIZES keys "}"
#define HRM(keys) "{\"model_type\":\"hrm_text\",\"head_dim\":16," SIZES keys "}"
#define SECTION ",\"num_hidden_layers\":4,\"n_input_layers\":1,\"n_output_layers\":1"

/* Layers between the first and the last one come three times, and are held once. */
START_TEST(sections)
{
  double flops[2] = { 0, 0 };
  Planned f;

  setup(&f, DORY(SECTION ",\"n_recurrent_loops\":3"), 1);
  ck_assert_int_eq(f.model->blocks, 1 + 3 * 2 + 1);
  ck_assert_int_eq(block(f.model, 3)->params, 0);
  ck_assert_int_eq(block(f.model, 3)->tied_params, block(f.model, 1)->params);
  ck_assert_int_eq(block(f.model, 3)->matrix_params, block(f.model, 1)->matrix_params);
  ck_assert_double_eq(planned_layer(&f, 4).params, 0);
  ck_assert_double_eq(planned_layer(&f, 4).flops, planned_layer(&f, 2).flops);
  ck_assert_double_eq(planned_layer(&f, 4).saved_bytes, planned_layer(&f, 2).saved_bytes);
  for (int i = 0; i < 2; i++)
    counted_ops(&f, 2 + 2 * i, "qkv", &flops[i]);
  ck_assert_double_eq(flops[0], 2.0 * 128 * 64 * (4 + 4 + 2 + 2) * 16);
  ck_assert_double_eq(flops[1], flops[0]);
  planned_clear(&f);
}
END_TEST

/* A section starts from what came before it each time; heads, gates, what a feed-forward makes and logits are
 * scaled. */
START_TEST(unit_lengths)
{
  double rows = 2.0 * 128 * 64, heads = 2.0 * 128 * 4 * 16;
  Planned f;

  setup(&f, DORY(SECTION), 1);
  ck_assert_double_eq(moved(&f, 2, "join states", FALSE), 3 * rows);
  ck_assert_double_eq(moved(&f, 3, "join states", FALSE), 0);
  ck_assert_double_eq(moved(&f, 4, "join states", FALSE), 3 * rows);
  ck_assert_double_eq(moved(&f, 1, "residual scale", FALSE), 2 * 2 * rows);
  ck_assert_double_eq(moved(&f, 1, "query scale", FALSE), 2 * heads);
  ck_assert_double_eq(moved(&f, 1, "gate scale", TRUE), 5 * heads);
  ck_assert_double_eq(moved(&f, 1, "gate and up scales", FALSE), 2 * 2 * 2.0 * 128 * 96);
  ck_assert_double_eq(moved(&f, 7, "logit scales", FALSE), 2 * 4.0 * 128 * 128);
  ck_assert_int_eq(block(f.model, 0)->params, 64 * 16 * (4 + 2 + 2 + 4 + 4) + 3 * 64 * 96 + 2 * 64 + 2 * 64 + 2 * 96);
  planned_clear(&f);
}
END_TEST

/* Files that list attention and feed-forward apart count both. */
START_TEST(parts_apart)
{
#define APART "[\"full_attention\",\"mlp\",\"sliding_attention\",\"mlp\",\"full_attention\",\"mlp\"]"
  g_autoptr(Model) m = parsed(DORY(",\"num_hidden_layers\":6,\"n_input_layers\":2,\"n_output_layers\":2,"
                                   "\"layer_types\":" APART));

  ck_assert_int_eq(m->blocks, 1 + 2 * 1 + 1);
  ck_assert_int_eq(block(m, 0)->attention.window, 0);
  ck_assert_int_eq(block(m, 1)->attention.window, 1024);
}
END_TEST

/* Two stacks in turn, of whose cycles some go forward alone: of low ones in each high one all but the last, and in the
 * last high one all but two. */
START_TEST(cycles)
{
  static const gboolean detached[] = { TRUE, TRUE, FALSE, FALSE, TRUE, FALSE, FALSE, FALSE };
  g_autoptr(Model) all = parsed(HRM(",\"num_hidden_layers\":1,\"L_bp_cycles\":[3,3]"));
  gint64 matrices = 5 * 64 * 64 + 3 * 64 * 96;
  double scores = 4 * 128.0 * 128 * 64, transient[8];
  Planned f;

  setup(&f, HRM(",\"num_hidden_layers\":1"), 1);
  ck_assert_int_eq(f.model->blocks, 2 * (3 + 1));
  ck_assert_int_eq(f.model->params, 2 * matrices + 2 * 128 * 64 + 64);
  for (int i = 0; i < f.model->blocks; i++) {
    LayerSums sums = planned_layer(&f, 1 + i);
    ck_assert_int_eq(block(f.model, i)->detached, detached[i]);
    ck_assert_int_eq(block(f.model, i)->params, i == 0 || i == 3 ? matrices : 0);
    ck_assert_double_eq(sums.params, i == 0 || i == 3 ? matrices : 0);
    ck_assert(detached[i] ? sums.saved_bytes == 0 : sums.saved_bytes > 0);
    transient[i] = planned_transient(&f, 1 + i);
    ck_assert_double_eq(transient[i], transient[i % 4] + (detached[i] ? 0 : detached[i % 4] ? 2.0 * 128 * 64 : 0));
  }
  ck_assert_double_eq_tol(model_flops(all, 128) - model_flops(f.model, 128), 3 * 2 * (2.0 * 128 * matrices + scores),
                          1);
  f.plan.recompute = RECOMPUTE_FULL;
  ck_assert_double_eq(planned_layer(&f, 1).saved_bytes, 0);
  ck_assert_double_eq(planned_layer(&f, 3).saved_bytes, 2.0 * 128 * 64);
  planned_clear(&f);
}
END_TEST

#define HYBRID(kind, types, keys)                                                                               \
  "{\"model_type\":\"" kind "\",\"num_hidden_layers\":4,\"layers_block_type\":[" types "],\"hidden_size\":64," \
  "\"intermediate_size\":96,\"num_attention_heads\":4,\"num_key_value_heads\":4,\"vocab_size\":128" keys "}"
#define TWICE "\"hybrid\",\"mamba\",\"hybrid\",\"linear_attention\""

/* Attention reads the embedding beside the block's input; the second branch is the first one's, and what is behind it
 * its own. */
START_TEST(branches)
{
  gint64 branch = 4 * 128 * 128 - 64 * 128 + 3 * 64 * 96 + 3 * 64, own;
  double flops = 0;
  Planned f;

  setup(&f, HYBRID("zamba", TWICE, ""), 1);
  own = block(f.model, 1)->params + 64 * 64;
  ck_assert_int_eq(block(f.model, 0)->params, branch + own);
  ck_assert_int_eq(block(f.model, 2)->params, own);
  ck_assert_int_eq(block(f.model, 2)->tied_params, branch);
  ck_assert_double_eq(planned_layer(&f, 3).params, own);
  ck_assert_double_eq(planned_layer(&f, 3).flops, planned_layer(&f, 1).flops);
  counted_ops(&f, 3, "qkv", &flops);
  ck_assert_double_eq(flops, 2.0 * 128 * 128 * 3 * 128);
  flops = 0;
  counted_ops(&f, 3, "branch projection", &flops);
  ck_assert_double_eq(flops, 2.0 * 128 * 64 * 64);
  flops = 0;
  counted_ops(&f, 2, "select", &flops); /* of two heads, each of half of the channels */
  ck_assert_double_eq(flops, 2.0 * 128 * 128 * (4 + 2 * 16));
  ck_assert_double_eq(moved(&f, 3, "beside embedding", FALSE), 4 * 2.0 * 128 * 64);
  planned_clear(&f);
  setup(&f, HYBRID("zamba", TWICE, ""), 2); /* on each rank one of these heads whole */
  ck_assert_int_eq(counted_ops(&f, 2, "sum selected", &flops), 0);
  planned_clear(&f);
}
END_TEST

/* Each layer has low-rank products of its own beside those of two branches, which layers take in turn. */
START_TEST(low_ranks)
{
#define RANK ",\"adapter_rank\":6,\"use_shared_attention_adapter\":true"
  gint64 ranks = 6 * (64 + 2 * 96) + 3 * 6 * (128 + 128);
  g_autoptr(Model) two = parsed(HYBRID("zamba2", "\"hybrid\",\"hybrid\",\"hybrid\",\"hybrid\"",
                                       RANK ",\"num_mem_blocks\":2"));
  double flops = 0;
  Planned f;

  setup(&f, HYBRID("zamba2", TWICE, RANK), 1);
  ck_assert_int_eq(block(f.model, 2)->params, block(f.model, 1)->params + 64 * 64 + ranks);
  ck_assert_double_eq(planned_layer(&f, 3).params, block(f.model, 2)->params);
  ck_assert_int_eq(counted_ops(&f, 3, "low rank up", &flops), 2);
  ck_assert_double_eq(flops, 2.0 * 128 * 6 * (3 * 128 + 2 * 96));
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(block(two, i)->reused, i >= 2);
  planned_clear(&f);
}
END_TEST

/* No stage and no rank has a part of weights that others use too. */
START_TEST(undivided)
{
  Planned f;

  setup(&f, DORY(SECTION), 2);
  f.plan.tp = 1;
  f.plan.pp = 2;
  planned_refuse(&f, RULE_FAMILY, "plan: pipeline_model_parallel_size: 2: expected 1, layers of model f share weights");
  f.plan.pp = 1;
  f.plan.dp = f.plan.global_batch = 2;
  planned_accept(&f);
  f.plan.zero = 2;
  planned_accept(&f);
  f.plan.zero = 3;
  planned_refuse(&f, RULE_FAMILY, "plan: zero_stage: 3: expected at most 2, layers of model f share weights");
  planned_clear(&f);
  setup(&f, HYBRID("zamba", TWICE, ""), 2);
  f.plan.tp = f.plan.gpus = 4;
  f.cluster = (cluster_free(f.cluster), fixture_cluster("dgx-h100", 4));
  planned_refuse(&f, RULE_HEADS, "plan: tensor_model_parallel_size: 4: expected a divisor of the 2 heads that make "
                                 "steps of linear attention");
  planned_clear(&f);
}
END_TEST

/* Nor has one layer weights in other shares than another that uses them. */
START_TEST(alike)
{
  g_autoptr(Model) m = parsed(DORY(SECTION));
  Planned f;

  planned_init(&f, g_steal_pointer(&m), fixture_cluster("dgx-h100", 2), "galvatron");
  f.plan.gpus = f.plan.dp = f.plan.global_batch = 2;
  f.plan.seq = 128;
  planned_accept(&f);
  ck_assert(strategies_append(&f.plan.strategies, (StrategyRun) { .tp = 1, .layers = f.model->blocks }));
  planned_refuse(&f, RULE_STRATEGIES,
                 "plan: layer_strategies: expected a model whose layers do not share weights beside them");
  planned_clear(&f);
}
END_TEST

/* What goes to the host: nothing of blocks that no gradient passes, which come first; of a block with a branch what its
 * attention, with the embedding beside, its feed-forward, the projection and linear attention read, and the norms. */
START_TEST(offloaded)
{
  double input = 128 * 2.0 * 64, each = 128 * 2.0 * (7 * 64 + 2 * 4 * (32 + 32) + (2 + 1) * 128 + 3 * 96);
  Planned f;

  setup(&f, HRM(",\"num_hidden_layers\":1"), 1);
  f.plan.offload.layers = 2;
  f.cluster->host_memory_bytes = 1;
  planned_accept(&f);
  f.plan.offload.layers = 3;
  planned_refuse(&f, RULE_OFFLOAD, "plan: offload: expected at most the 0 GiB of a node's memory, it takes 0 GiB");
  f.plan.offload = (Offload) { .activations = STORE_CPU };
  f.plan.framework = (framework_free(f.framework), f.framework = fixture_framework("deepspeed"));
  f.plan.recompute = RECOMPUTE_FULL;
  f.cluster->host_memory_bytes = 5 * input;
  planned_accept(&f);
  f.cluster->host_memory_bytes -= 1;
  planned_refuse(&f, RULE_OFFLOAD, "plan: offload: expected at most the 0 GiB of a node's memory, it takes 0 GiB");
  planned_clear(&f);
  setup(&f, HYBRID("zamba", TWICE, ""), 1);
  f.plan.offload.layers = 1;
  f.cluster->host_memory_bytes = each;
  planned_accept(&f);
  f.cluster->host_memory_bytes -= 1;
  planned_refuse(&f, RULE_OFFLOAD, "plan: offload: expected at most the 0 GiB of a node's memory, it takes 0 GiB");
  planned_clear(&f);
}
END_TEST

static const char *const not_read[][2] = {
  { DORY(SECTION ",\"n_recurrent_layers\":3"),
    "f: num_hidden_layers: 4: expected n_input_layers (1) + n_recurrent_layers (3) + n_output_layers (1)" },
  { DORY(",\"num_hidden_layers\":4,\"n_output_layers\":1"),
    "f: num_hidden_layers: 4: expected at least n_input_layers (8) + n_output_layers (1)" },
  { DORY(SECTION ",\"layer_types\":[\"full_attention\"]"), "f: layer_types: […]: expected an array of 4 strings" },
  { DORY(SECTION ",\"attention_bias\":true"),
    "f: attention_bias: true: expected false, as a bias of attention without one of its gate is not counted" },
  { DORY(SECTION ",\"mtp_num_layers\":1"),
    "f: mtp_num_layers: 1: expected 0 in a model with layers that share weights" },
  { HRM(",\"num_hidden_layers\":1,\"L_bp_cycles\":[1,1,1]"),
    "f: L_bp_cycles: […]: expected an array of at most 2 integers" },
  { HYBRID("zamba", "\"hybrid\"", ""), "f: layers_block_type: […]: expected an array of 4 strings, one a layer" },
  { HYBRID("zamba", TWICE, ",\"attention_hidden_size\":64"),
    "f: attention_hidden_size: 64: expected 128, twice hidden_size, which it reads" },
  { HYBRID("zamba", TWICE, ",\"n_mamba_heads\":3"), "f: n_mamba_heads: 3: expected a divisor of the 128 channels" },
  { HYBRID("zamba", TWICE, ",\"tie_word_embeddings\":false"),
    "f: tie_word_embeddings: false: expected true, as a branch of each layer's own is not counted" },
  { HYBRID("zamba2", TWICE, ",\"mamba_headdim\":8"),
    "f: mamba_headdim: 8: expected 16, the channels of each of 8 heads" },
  { HYBRID("zamba2", TWICE, ",\"attention_head_dim\":8" RANK),
    "f: num_attention_heads: 4: expected heads of 128 in all beside use_shared_attention_adapter" },
  { HRM(",\"num_hidden_layers\":60000,\"H_cycles\":1,\"L_cycles\":1"),
    "f: num_hidden_layers: 60000: expected at most 100000 layers with those that come again" },
  { HRM(",\"num_hidden_layers\":100,\"H_cycles\":100000"),
    "f: num_hidden_layers: 100: expected at most 100000 layers with those that come again" },
};

START_TEST(refused_keys)
{
  for (gsize i = 0; i < G_N_ELEMENTS(not_read); i++)
    refused(not_read[i][0], not_read[i][1]);
}
END_TEST

TEST_MAIN("reused", sections, unit_lengths, parts_apart, cycles, branches, low_ranks, undivided, alike, offloaded,
          refused_keys)
