/* ZAYA: convolutions of queries and keys, residual sums with scales and biases, routers with a state. */
#include "main.h"
#include "test_worked.h"

#define SIZED(width, keys)                                                                                       \
  "{\"model_type\":\"zaya\",\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,"                 \
  "\"num_key_value_heads\":2,\"head_dim\":16,\"vocab_size\":128,\"max_position_embeddings\":256,\"num_experts\":4," \
  "\"moe_intermediate_size\":32,\"router_hidden_size\":" width keys "}"
#define ZAYA(keys) SIZED("16", keys)

/* Each head's values through a matrix for each token that is seen, behind a convolution of single values. */
START_TEST(convolutions)
{
  g_autoptr(Model) longer = parsed(ZAYA(",\"cca_time0\":4,\"cca_time1\":3"));
  double queries = 2.0 * 128 * 4 * 16, keys = 2.0 * 128 * 2 * 16, flops = 0;
  Planned f;

  setup(&f, ZAYA(""), 1);
  ck_assert_int_eq(block(longer, 1)->params - block(f.model, 1)->params, 6 * 16 * (4 - 2) + 6 * 16 * 16 * (3 - 2));
  ck_assert_int_eq(block(longer, 1)->matrix_params - block(f.model, 1)->matrix_params, 6 * 16 * 16);
  ck_assert_int_eq(counted_ops(&f, 1, "head convolution", &flops), 1);
  ck_assert_double_eq(flops, 2.0 * 128 * 6 * 16 * (2 * 16));
  ck_assert_double_eq(moved(&f, 1, "convolution", FALSE), 2 * (queries + keys));
  ck_assert_double_eq(moved(&f, 1, "query and key means", FALSE), 10 * queries + 5 * keys);
  ck_assert_double_eq(moved(&f, 1, "values of two tokens", FALSE), 3 * keys);
  ck_assert_double_eq(moved(&f, 1, "key scales", FALSE), 2 * keys);
  planned_clear(&f);
}
END_TEST

/* Of the first layer nothing comes to a router but its input; one choice is none. */
START_TEST(router_states)
{
  g_autoptr(Model) wider = parsed(SIZED("24", ""));
  double flops = 0;
  Planned f;

  setup(&f, ZAYA(""), 1);
  ck_assert_int_eq(block(f.model, 1)->params - block(f.model, 0)->params, 16);
  ck_assert_int_eq(block(wider, 0)->params - block(f.model, 0)->params,
                   (64 + 2 + 5) * (24 - 16) + 2 * (24 * 25 - 16 * 17));
  counted_ops(&f, 1, "router", &flops);
  ck_assert_double_eq(flops, 2.0 * 128 * 16 * (4 + 1));
  ck_assert_double_eq(moved(&f, 1, "carried state", FALSE), 0);
  ck_assert_double_eq(moved(&f, 2, "carried state", FALSE), 2 * 2.0 * 128 * 16);
  planned_clear(&f);
}
END_TEST

/* What goes past halves of blocks is wide, between stages too; a router's state goes along. */
START_TEST(wide_residuals)
{
  double elements = 128 * 64;
  Planned f;

  setup(&f, ZAYA(""), 1);
  ck_assert_double_eq(moved(&f, 1, "affine residual", FALSE), 2 * (6 * 2 + 7 * 4) * elements);
  ck_assert_double_eq(moved(&f, 1, "residual", FALSE), 0);
  ck_assert_double_eq(moved(&f, 0, "affine embedding", FALSE), (5 * 2 + 4) * elements);
  ck_assert_double_eq(op_boundary_bytes(f.model, PASSES(&f.plan)), 4 * elements + 2 * 128 * 16);
  f.plan.recompute = RECOMPUTE_FULL;
  ck_assert_double_eq(planned_layer(&f, 1).saved_bytes, 4 * elements + 2 * 128 * 16);
  planned_clear(&f);
}
END_TEST

/* A window where the file says which layers have one. */
START_TEST(windows)
{
  g_autoptr(Model) none = parsed(ZAYA(",\"sliding_window\":32"));
  g_autoptr(Model) one = parsed(ZAYA(",\"sliding_window\":32,\"layer_types\":[\"hybrid\",\"hybrid_sliding\"]"));

  ck_assert_int_eq(block(none, 1)->attention.window, 0);
  ck_assert_int_eq(block(one, 0)->attention.window, 0);
  ck_assert_int_eq(block(one, 1)->attention.window, 32);
  ck_assert_pstr_eq(model_own_mechanism(one), "cca_time0");
  ck_assert_pstr_eq(spec_across_parts(block(one, 0)), "convolutions over tokens");
  refused(ZAYA(",\"layer_types\":[\"hybrid\",\"sliding\"]"),
          "f: layer_types[1]: \"sliding\": expected one of hybrid, hybrid_sliding");
  refused(ZAYA(",\"num_experts_per_tok\":2"), "f: num_experts_per_tok: 2: expected 1, all that its class takes");
}
END_TEST

/* No rank has a part of a head's convolutions. */
START_TEST(whole_heads)
{
  Planned f;

  planned_init(&f, parsed(ZAYA("")), fixture_cluster("dgx-h100", 4), "megatron-core-2026");
  f.plan.gpus = f.plan.tp = 4;
  f.plan.dp = f.plan.global_batch = 1;
  f.plan.seq = 128;
  planned_refuse(&f, RULE_HEADS,
                 "plan: tensor_model_parallel_size: 4: expected a divisor of the 2 key-value heads");
  planned_clear(&f);
}
END_TEST

TEST_MAIN("convolved", convolutions, router_states, wide_residuals, windows, whole_heads)
