#include "main.h"
#include "planned.h"

static void start(Planned *p, Model *model, const char *framework)
{
  planned_init(p, model, fixture_cluster("dgx", 8), framework);
  planned_spread(p, 1);
  plan_set_format(&p->plan, DTYPE_BF16);
}

/* Of 1,024 tokens, in values of a token. */
static double moved(const Planned *p, const char *name, gboolean backward)
{
  return planned_op_bytes(p, 1, name, backward) / (2 * 1024);
}

/* Transformer Engine takes what is one tensor: grouped queries are copied unless they are one group, values beside turned
 * keys always, and gradients are joined; heads that share nothing and are not turned stay as they are split. */
START_TEST(transformer_engine_copies_views)
{
  static const struct { int kv_heads, tp; double forward, backward; } cases[] = {
    { 4, 1, 2 * (1024 + 256), 2 * (1024 + 2 * 256) }, { 4, 2, 512 + 128 + 512 + 128, 2 * (512 + 2 * 128) },
    { 4, 4, 2 * 64, 2 * (256 + 2 * 64) }, { 16, 1, 2 * 1024, 2 * 3 * 1024 } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned p;
    start(&p, fixture_llama(2, 1024, 16, cases[i].kv_heads, 1024, 1024), "megatron-core");
    planned_divide(&p, cases[i].tp, 1, 8 / cases[i].tp);
    ck_assert_double_eq_tol(moved(&p, "copy split qkv", FALSE), cases[i].forward, 1e-6);
    ck_assert_double_eq_tol(moved(&p, "copy split qkv", TRUE), cases[i].backward, 1e-6);
    planned_clear(&p);
  }
  Planned p;
  start(&p, fixture_model(2, 1024, 16, 1024, 1024), "megatron-core");
  ck_assert_double_eq(moved(&p, "copy split qkv", FALSE) + moved(&p, "copy split qkv", TRUE), 0);
  planned_clear(&p);
}
END_TEST

/* Of 16 heads of 64 in 4 groups on 8 ranks: all 1,536 values are gathered, a copy joins them; of these a group is 384, its
 * queries are 256 and the rank's own 128. The host does more than there are kernels. */
START_TEST(ranks_take_their_heads)
{
  static const double full = 1024 + 2 * 256, group = 256 + 2 * 64;

  for (int tp = 4; tp <= 8; tp *= 2) {
    Planned p;
    gboolean takes = tp > 4;
    start(&p, fixture_llama(2, 1024, 16, 4, 1024, 1024), "megatron-core");
    planned_divide(&p, tp, 1, 8 / tp);
    ck_assert_double_eq_tol(moved(&p, "take heads", FALSE), takes ? 2 * full : 0, 1e-6);
    ck_assert_double_eq_tol(moved(&p, "take heads", TRUE),
                            takes ? 2 * full + (full + 2 * group) + (256 + 2 * 128) : 0, 1e-6);
    ck_assert_double_eq(planned_op_operations(&p, 1, "take heads", FALSE), takes ? 3 : 0);
    ck_assert_double_eq(planned_op_operations(&p, 1, "take heads", TRUE), takes ? 6 : 0);
    planned_clear(&p);
  }
}
END_TEST

/* Megatron's own modules: a bias, views into the core and gradients beside each other; the context is laid out anew
 * forward alone. Before FlashAttention all three are copied; behind it one sequence has both layouts. */
START_TEST(megatron_joins_gradients)
{
  Planned p;

  start(&p, fixture_model(2, 1024, 16, 1024, 1024), "megatron-2023");
  p.plan.tp = 1;
  ck_assert_double_eq_tol(moved(&p, "bias", FALSE), 2 * 3 * 1024, 1e-6);
  ck_assert_double_eq_tol(moved(&p, "join qkv gradients", TRUE), 2 * 3 * 1024, 1e-6);
  ck_assert_double_eq_tol(moved(&p, "transpose", FALSE), 2 * 1024, 1e-6);
  ck_assert_double_eq(moved(&p, "transpose", TRUE) + moved(&p, "copy qkv", FALSE), 0);
  planned_clear(&p);
  start(&p, fixture_model(2, 1024, 16, 1024, 1024), "megatron-2024");
  ck_assert_double_eq_tol(moved(&p, "copy qkv", FALSE), 2 * 3 * 1024, 1e-6);
  ck_assert_double_eq_tol(moved(&p, "join qkv gradients", TRUE), 2 * 3 * 1024, 1e-6);
  ck_assert_double_eq(moved(&p, "copy qkv", TRUE) + moved(&p, "copy context", FALSE) + moved(&p, "copy context", TRUE), 0);
  p.plan.micro_batch = 2;
  p.plan.global_batch = 16;
  ck_assert_double_eq_tol(moved(&p, "copy context", FALSE), 2 * 2 * 1024, 1e-6);
  ck_assert_double_eq_tol(moved(&p, "copy context", TRUE), 2 * 2 * 1024, 1e-6);
  planned_clear(&p);
}
END_TEST

/* Queries of cross attention are a projection of their own, so that keys and values alone are split; both have biases. */
START_TEST(cross_attention_splits_the_memory)
{
  Model *model = fixture_known_model("t5-base");
  Planned p;

  for (int s = 0; s < model->n_specs; s++)
    model->specs[s].attention.qkv_bias = model->specs[s].cross.qkv_bias = TRUE;
  start(&p, model, "megatron-2021");
  int decoder = p.model->n_layers - 2, encoder = 1;
  double each = 2.0 * model->seq * 768;
  ck_assert_double_eq_tol(planned_op_bytes(&p, encoder, "join qkv gradients", TRUE), 2 * 3 * each, 1);
  ck_assert_double_eq_tol(planned_op_bytes(&p, decoder, "join qkv gradients", TRUE), 2 * (3 + 2) * each, 1);
  ck_assert_double_eq_tol(planned_op_bytes(&p, encoder, "bias", FALSE), 2 * 3 * each, 1);
  ck_assert_double_eq_tol(planned_op_bytes(&p, decoder, "bias", FALSE), 2 * (3 + 3) * each, 1);
  planned_clear(&p);
}
END_TEST

/* torchtitan until January 2026; what is copied is kept. */
START_TEST(torchtitan_repeats_keys)
{
  Planned old, new;

  start(&old, fixture_llama(2, 1024, 16, 4, 1024, 1024), "torchtitan");
  start(&new, fixture_llama(2, 1024, 16, 4, 1024, 1024), "torchtitan-2026-05");
  for (int backward = FALSE; backward <= TRUE; backward++) {
    ck_assert_double_eq_tol(moved(&old, "repeat keys", backward), 2 * 256 + 2 * 1024, 1e-6);
    ck_assert_double_eq(moved(&new, "repeat keys", backward), 0);
  }
  ck_assert_double_eq_tol(planned_layer(&old, 1).saved_bytes - planned_layer(&new, 1).saved_bytes,
                          2.0 * 1024 * 2 * (1024 - 256), 1e-6);
  planned_clear(&old);
  planned_clear(&new);
}
END_TEST

/* torchtitan's rows are [batch, sequence, hidden] until August 2026; [tokens, hidden] are gathered as they lie. */
START_TEST(folded_rows_are_not_copied)
{
  static const char *const frameworks[] = { "torchtitan-2026-08", "torchtitan-2026-09" };

  for (int folded = FALSE; folded <= TRUE; folded++) {
    Planned p;
    start(&p, fixture_llama(2, 1024, 16, 4, 1024, 1024), frameworks[folded]);
    planned_divide(&p, 4, 1, 2);
    p.plan.sequence_parallel = TRUE;
    for (int backward = FALSE; backward <= TRUE; backward++)
      ck_assert_int_eq(moved(&p, "copy rows", backward) > 0, !folded);
    planned_clear(&p);
  }
}
END_TEST

/* Ranks of a context exchange what the core is given: keys and values of all 16 heads, not of the 4 that they share. */
START_TEST(repeated_keys_travel)
{
  Planned p;
  double bytes[2];

  start(&p, fixture_llama(2, 1024, 16, 4, 1024, 1024), "torchtitan");
  p.plan.gpus = p.plan.cp = 2;
  p.plan.dp = 1;
  p.plan.attention = ATTENTION_FLASH;
  p.plan.context = CONTEXT_GATHER;
  for (int backward = FALSE; backward <= TRUE; backward++) {
    const char *name = backward ? "sum key gradients" : "gather keys";
    for (int i = 0; i < 2; i++) {
      p.framework->repeats_keys = i;
      bytes[i] = planned_op_bytes(&p, 1, name, backward);
    }
    ck_assert_double_gt(bytes[0], 0);
    ck_assert_double_eq_tol(bytes[1] / bytes[0], 4, 1e-9);
  }
  planned_clear(&p);
}
END_TEST

/* A fused kernel reads the scores that a causal mask leaves and writes all; without a mask it reads all. */
START_TEST(causal_softmax_reads_a_triangle)
{
  static const struct { const char *framework; gboolean causal; double forward, backward; } cases[] = {
    { "megatron-2023", TRUE, 1.5, 2 }, { "megatron-2023", FALSE, 2, 3 }, { "fsdp-2023-eager", TRUE, 8, 7 } };
  const double scores = 2.0 * 16 * 1024 * 1024;

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned p;
    start(&p, fixture_model(2, 1024, 16, 1024, 1024), cases[i].framework);
    for (int s = 0; s < p.model->n_specs; s++)
      p.model->specs[s].attention.causal = cases[i].causal;
    ck_assert_double_eq_tol(planned_op_bytes(&p, 1, "softmax", FALSE), cases[i].forward * scores, 1);
    ck_assert_double_eq_tol(planned_op_bytes(&p, 1, "softmax", TRUE), cases[i].backward * scores, 1);
    planned_clear(&p);
  }
}
END_TEST

/* Bytes of a table's element: zeros (2), and read with what is accumulated in 4 bytes, or summed with the tied logits'. */
START_TEST(tables_have_whole_gradients)
{
  static const struct { const char *framework; gboolean tied; int tp; double bytes; } cases[] = {
    { "megatron-core", TRUE, 1, 2 + 2 + 2 * 4 }, { "megatron-core", TRUE, 4, (2 + 2 + 2 * 4) / 4.0 },
    { "fsdp", TRUE, 1, 2 + 3 * 2 }, { "fsdp", FALSE, 1, 2 }, { "tdp-run", TRUE, 1, 0 }, { "maxtext-2026", TRUE, 1, 0 } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned p;
    start(&p, fixture_model(2, 1024, 16, 1024, 2048), cases[i].framework);
    p.model->tied_embeddings = cases[i].tied;
    planned_divide(&p, cases[i].tp, 1, 8 / cases[i].tp);
    ck_assert_double_eq_tol(planned_op_bytes(&p, 0, "table gradient", TRUE), cases[i].bytes * 2048 * 1024, 1);
    planned_clear(&p);
  }
}
END_TEST

/* Norms of fp32 copies: a cast (2 + 4 bytes of a value), which the norm reads and keeps; backward it reads and writes as
 * much (8, not 4), and its gradient is cast back. In fp32 there is nothing to copy. */
START_TEST(internevo_norms_wide_copies)
{
  static const struct { DType precision; double cast, forward, backward, kept; } cases[] = {
    { DTYPE_BF16, 6, 4 + 2, 3 * 2 + 4 + 4 + 2, 2 }, { DTYPE_FP32, 0, 4 + 4, 3 * 4 + 4 + 4 + 4, 0 } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    double values = 1024 * 1024, kept[2];
    Planned p;
    start(&p, fixture_model(2, 1024, 16, 1024, 2048), "internevo-2023");
    plan_set_format(&p.plan, cases[i].precision);
    p.framework->checkpointed_norms = FALSE;
    for (int wide = 0; wide < 2; wide++) {
      p.framework->wide_norm_inputs = wide;
      kept[wide] = planned_layer(&p, 1).saved_bytes;
    }
    ck_assert_double_eq_tol(kept[1] - kept[0], 2 * cases[i].kept * values, 1);
    ck_assert_double_eq_tol(planned_op_bytes(&p, 1, "norm input cast", FALSE), 2 * cases[i].cast * values, 1);
    ck_assert_double_eq_tol(planned_op_bytes(&p, 1, "norm input cast", TRUE), 2 * cases[i].cast * values, 1);
    ck_assert_double_eq_tol(planned_op_bytes(&p, 1, "attention norm", FALSE), cases[i].forward * values, 1);
    ck_assert_double_eq_tol(planned_op_bytes(&p, 1, "attention norm", TRUE), cases[i].backward * values, 1);
    planned_clear(&p);
  }
}
END_TEST

TEST_MAIN("copies", internevo_norms_wide_copies, transformer_engine_copies_views, ranks_take_their_heads,
          megatron_joins_gradients, cross_attention_splits_the_memory, torchtitan_repeats_keys,
          folded_rows_are_not_copied, repeated_keys_travel,
          causal_softmax_reads_a_triangle, tables_have_whole_gradients)
