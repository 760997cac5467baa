/* What stands for weight gradients that went into accumulated ones: op/placeholder.c. */
#include "main.h"
#include "planned.h"

enum { HIDDEN = 1024, WIDTH = 512, HEADS = 16, KV_HEADS = 4, TOKENS = 128, VOCAB = 64000, EXPERTS = 8 };

static void setup(Planned *p, Model *model, Placeholders kind)
{
  planned_init(p, model, fixture_cluster("dgx", 8), "megatron-core-2026");
  p->framework->placeholders = kind;
}

static LayerWork work_of(const Planned *p, int layer)
{
  LayerWork work;

  layer_work_init(&work, p->model, model_layer(p->model, layer), PASSES(&p->plan), p->cluster);
  return work;
}

/* Elements of a block's products: two of attention; two feed forward, gate and up as one. */
static double attention(int tp)
{
  return (double)HIDDEN * (HIDDEN + 2 * HIDDEN / HEADS * KV_HEADS + HIDDEN) / tp;
}

static double wide_llama(const Planned *p)
{
  return 3.0 * HIDDEN * model_layer(p->model, 1)->ffn.width;
}

START_TEST(one_of_each_shape_stays)
{
  static const int degrees[] = { 1, 4 };
  Planned p;

  setup(&p, fixture_llama(2, HIDDEN, HEADS, KV_HEADS, TOKENS, VOCAB), PLACEHOLDERS_KEPT);
  p.plan.tp = degrees[_i];
  LayerWork work = work_of(&p, 1), head = work_of(&p, 3);
  ck_assert_double_eq(work.placeholder_bytes, 2 * (attention(p.plan.tp) + wide_llama(&p) / p.plan.tp));
  ck_assert_double_eq(head.placeholder_bytes, 0);
  layer_work_clear(&work);
  layer_work_clear(&head);
  planned_clear(&p);
}
END_TEST

/* A rank's experts share theirs. */
START_TEST(experts_share_one)
{
  double bytes[2];

  for (int i = 0; i < 2; i++) {
    Planned p;
    setup(&p, fixture_moe(2, HIDDEN, HEADS, TOKENS, VOCAB, EXPERTS << i, 2, 0), PLACEHOLDERS_KEPT);
    LayerWork work = work_of(&p, 1);
    bytes[i] = work.placeholder_bytes;
    ck_assert_double_ge(bytes[i], 2 * 3.0 * HIDDEN * model_layer(p.model, 1)->ffn.width);
    layer_work_clear(&work);
    planned_clear(&p);
  }
  ck_assert_double_eq_tol(bytes[0], bytes[1], 2.0 * HIDDEN * 2 * EXPERTS); /* but for routers */
}
END_TEST

/* That of a grouped product has all of its experts'. */
START_TEST(passing_ones_are_scratch)
{
  Planned p;

  setup(&p, fixture_moe(2, HIDDEN, HEADS, TOKENS, VOCAB, EXPERTS, 2, 0), PLACEHOLDERS_PASSING);
  LayerWork work = work_of(&p, 1);
  ck_assert_double_eq(work.placeholder_bytes, 0);
  double stream = op_boundary_bytes(p.model, PASSES(&p.plan)); /* the residual's gradient beside it */
  ck_assert_double_eq(work.transient_bytes - stream, 2 * EXPERTS * 2.0 * HIDDEN * model_layer(p.model, 1)->ffn.width);
  layer_work_clear(&work);
  planned_clear(&p);
}
END_TEST

/* The gradient of the logits in 16 bits took the place of what the loss kept in fp32; the gradient of rows, which are
 * gathered under sequence parallelism. */
START_TEST(the_head_has_its_own)
{
  static const Placeholders kinds[] = { PLACEHOLDERS_NONE, PLACEHOLDERS_PASSING, PLACEHOLDERS_KEPT };
  const double rows = (double)TOKENS * HIDDEN, table = (double)VOCAB * HIDDEN, logits = (double)TOKENS * VOCAB;
  Planned p;

  setup(&p, fixture_llama(2, HIDDEN, HEADS, KV_HEADS, TOKENS, VOCAB), kinds[_i]);
  for (int sp = 0; sp < 2; sp++) {
    double tp = p.plan.tp = sp ? 2 : 1;
    p.plan.sequence_parallel = sp;
    LayerWork head = work_of(&p, 3);
    if (kinds[_i] == PLACEHOLDERS_NONE)
      ck_assert_double_eq(head.transient_bytes, (6 - 4) * logits / tp);
    else
      ck_assert_double_eq(head.transient_bytes, 2 * (table / tp + (1 + sp) * rows + logits / tp) - 4 * logits / tp);
    layer_work_clear(&head);
  }
  planned_clear(&p);
}
END_TEST

/* Those of adapters alone. */
START_TEST(frozen_weights_have_none)
{
  Planned p;

  setup(&p, fixture_llama(2, HIDDEN, HEADS, KV_HEADS, TOKENS, VOCAB), PLACEHOLDERS_KEPT);
  p.plan.adapter = (Adapter) { .kind = ADAPTER_LORA, .rank = 8, .targets = 1 };
  LayerWork work = work_of(&p, 1), head = work_of(&p, 3);
  ck_assert_double_eq(work.placeholder_bytes, 2 * 2 * 8.0 * HIDDEN); /* queries: to 8 values and back */
  ck_assert_double_lt(head.transient_bytes, 2.0 * VOCAB * HIDDEN);
  layer_work_clear(&work);
  layer_work_clear(&head);
  planned_clear(&p);
}
END_TEST

static double buffers(int layers, int pp, Placeholders kind)
{
  Planned p;

  setup(&p, fixture_llama(layers, HIDDEN, HEADS, KV_HEADS, TOKENS, VOCAB), kind);
  p.plan.global_batch = 8;
  planned_divide(&p, 1, pp, 1);
  planned_build(&p);
  double bytes = p.program->rows[pp - 1].static_bytes[PART_BUFFERS];
  planned_clear(&p);
  return bytes;
}

/* However many blocks a device has. */
START_TEST(a_device_keeps_one_set)
{
  static const struct {
    int layers, pp;
  } cases[] = { { 2, 1 }, { 8, 1 }, { 8, 2 } };
  Planned p;

  setup(&p, fixture_llama(2, HIDDEN, HEADS, KV_HEADS, TOKENS, VOCAB), PLACEHOLDERS_KEPT);
  double set = 2 * (attention(1) + wide_llama(&p));
  planned_clear(&p);
  ck_assert_double_eq_tol(buffers(cases[_i].layers, cases[_i].pp, PLACEHOLDERS_KEPT) -
                          buffers(cases[_i].layers, cases[_i].pp, PLACEHOLDERS_NONE), set, 0.5);
}
END_TEST

/* Transformer Engine keeps them since 2.3, which these take; and where nothing is fused there are none. */
START_TEST(software_says_which)
{
  static const struct {
    const char *framework;
    Placeholders kind;
  } files[] = {
    { "megatron-core", PLACEHOLDERS_KEPT }, { "nemo-2025-02", PLACEHOLDERS_PASSING },
    { "megatron-core-2026", PLACEHOLDERS_KEPT }, { "nemo-2026-08", PLACEHOLDERS_KEPT },
    { "megatron-2021", PLACEHOLDERS_NONE }, { "tdp-run", PLACEHOLDERS_NONE }, { "torchtitan", PLACEHOLDERS_NONE },
  };

  g_autoptr(Framework) f = fixture_framework(files[_i].framework);
  ck_assert_int_eq(f->placeholders, files[_i].kind);
}
END_TEST

TEST_LOOPS("placeholder", { one_of_each_shape_stays, 2 }, { experts_share_one }, { passing_ones_are_scratch },
           { the_head_has_its_own, 3 }, { frozen_weights_have_none }, { a_device_keeps_one_set, 3 },
           { software_says_which, 7 })
