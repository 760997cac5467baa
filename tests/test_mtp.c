/* Multi-token prediction and latent attention: counts, work, placement. */
#include "main.h"
#include "planned.h"
#include "search/balanced.h"

static void setup(Planned *f, const char *model, int devices)
{
  planned_init(f, fixture_known_model(model), fixture_cluster("dgx-h100", devices), "megatron-core");
  f->plan.gpus = f->plan.dp = devices;
}

/* The module of DeepSeek-V3 has 11.6 B parameters: its published weights, 685 B, are the
 * model's 671 B, the module and a second copy of the table and of the head. FLOPs: those
 * of a block, of the projection and of another pass through the head. */
START_TEST(modules_count)
{
  g_autoptr(Model) plain = fixture_known_model("deepseek-v3");
  Planned f;

  setup(&f, "deepseek-v3-mtp", 8);
  const LayerSpec *block = model_layer(plain, 61);
  gint64 h = 7168, table = (gint64)129280 * h;
  ck_assert_int_eq(f.model->params - plain->params, block->params + 2 * h * h + 3 * h);
  ck_assert_double_eq_tol((f.model->params + 2 * table) / 684.53e9, 1, 1e-4);
  ck_assert_int_eq(f.model->n_layers, 65);
  ck_assert_int_eq(f.model->blocks, 61);
  double flops = model_flops(f.model, 4096) - model_flops(plain, 4096);
  double attention = 6.0 * 4096 * 4096 * 128 * (192 + 128);
  ck_assert_double_eq_tol(flops / (6.0 * 4096 * (block->matrix_params + 2 * h * h + table) + attention), 1, 1e-12);
  planned_clear(&f);
}
END_TEST

/* Beside gradients inside a module stands that of its residual stream, as in a block. */
START_TEST(modules_have_a_stream)
{
  Planned f;

  setup(&f, "deepseek-v3-mtp", 8);
  ck_assert_int_eq(model_layer(f.model, 62)->kind, LAYER_MTP);
  ck_assert_double_eq(planned_transient(&f, 62), planned_transient(&f, 61));
  planned_clear(&f);
}
END_TEST

/* Weights on one device are the parameters, with shared ones once; the work its FLOPs. */
START_TEST(modules_work)
{
  Planned f;
  double params = 0, flops = 0;

  setup(&f, "deepseek-v3-mtp", 1);
  for (int i = 0; i < f.model->n_layers; i++) {
    LayerSums layer = planned_layer(&f, i);
    params += layer.params;
    flops += layer.flops;
  }
  ck_assert_double_eq(params, f.model->params);
  ck_assert_double_eq_tol(flops / model_flops(f.model, 4096), 1, 1e-3);
  planned_clear(&f);
}
END_TEST

static int tied_sums(const Program *p)
{
  int n = 0;
  for (guint i = 0; i < p->tasks->len; i++)
    n += g_array_index(p->tasks, Task, i).kind == TASK_TIED;
  return n;
}

/* Modules stand on the last stage, which holds a copy of the table and fewer blocks. */
START_TEST(modules_are_on_the_last_stage)
{
  Planned f;

  setup(&f, "deepseek-v3-mtp", 64);
  f.plan.pp = 8;
  f.plan.dp = 8;
  f.plan.ep = 8;
  f.plan.global_batch = 64;
  f.plan.balanced = TRUE;
  ck_assert(balance_plan(f.model, f.cluster, &f.plan, NULL));
  ck_assert_int_eq(split_layers(&f.plan.split), 61);
  ck_assert_int_lt(f.plan.split.layers[7], f.plan.split.layers[1]);
  planned_build(&f);
  ck_assert_int_eq(tied_sums(f.program), 2);
  double own = model_layer(f.model, 62)->params - model_layer(f.model, 62)->expert_params;
  ck_assert_double_eq(planned_layer(&f, 62).params, own + (double)op_vocab(f.model, PASSES(&f.plan)) * 7168);
  planned_clear(&f);
}
END_TEST

/* Modules are no blocks of their stage, also where it holds no other: they are never counted, made again or moved. */
START_TEST(modules_are_no_blocks)
{
  Planned f;

  setup(&f, "deepseek-v3-mtp", 8);
  StageCut cut = { .stages = 3, .split = { 3, { 31, 30, 0 } } };
  for (int stage = 0, next = 1; stage < 3; stage++) {
    StageBlocks blocks = stage_blocks(&cut, f.model, stage);
    ck_assert_int_eq(blocks.first, next);
    ck_assert_int_eq(blocks.end - blocks.first, cut.split.layers[stage]);
    next = blocks.end;
  }
  ck_assert_int_eq(stage_first_layer(&cut, f.model, 3) - stage_first_layer(&cut, f.model, 2), 3);
  planned_clear(&f);
}
END_TEST

START_TEST(modules_have_rules)
{
  Planned f;

  setup(&f, "deepseek-v3-mtp", 8);
  f.framework->mtp = FALSE;
  planned_refuse(&f, RULE_FAMILY, "plan: model deepseek-v3-mtp: mtp_num_layers: 1: expected 0 under megatron-core and "
                                  "schedule 1f1b");
  planned_clear(&f);
}
END_TEST

/* Kept of MLA, of a token, beside norms: the block's input, both latents before and
 * behind their norms, queries, keys and values of all heads, and the core's output. */
START_TEST(latent_attention_keeps)
{
  Planned f;
  LayerWork work;
  double kept = 0;

  setup(&f, "deepseek-v3", 8);
  layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
  for (guint i = 0; i < work.forward->len; i++) {
    const Op *op = &g_array_index(work.forward, Op, i);
    if (g_str_equal(op->name, "residual"))
      break;
    kept += op->saved_bytes;
  }
  double latents = 2 * (1536 + 512), heads = 128 * (192 + 192 + 128), out = 128 * 128, norm = 7168, input = 7168;
  ck_assert_double_eq(kept / 4096, 2 * (norm + input + latents + heads + out) + 4 * 128);
  layer_work_clear(&work);
  planned_clear(&f);
}
END_TEST

/* Tensor-parallel ranks gather latents, not rows: (1536 + 576) of 7168 values a token into attention. */
START_TEST(latents_are_gathered)
{
  Planned f;
  LayerWork work;
  double bytes = 0;

  setup(&f, "deepseek-v3", 8);
  f.plan.tp = 8;
  f.plan.dp = 1;
  f.plan.sequence_parallel = TRUE;
  layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
  for (guint i = 0; i < work.forward->len; i++) {
    const Op *op = &g_array_index(work.forward, Op, i);
    if (op->kind == OP_ATTENTION)
      break;
    bytes += op->kind == OP_COLLECTIVE ? op->collective.bytes : 0;
  }
  ck_assert_double_eq(bytes, 2.0 * 4096 * (1536 + 576));
  layer_work_clear(&work);
  planned_clear(&f);
}
END_TEST

TEST_MAIN("mtp", modules_have_a_stream, modules_count, modules_work, modules_are_on_the_last_stage,
          modules_are_no_blocks, modules_have_rules, latent_attention_keeps, latents_are_gathered)
