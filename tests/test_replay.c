/* What replaying the recorded part of a block takes. */
#include "main.h"
#include "planned.h"

/* A dense block and one of experts, two a token. */
static void setup(Planned *f)
{
  planned_init(f, fixture_experts(2, 512, 8, 16, 1024, 1000), fixture_cluster("dgx", 16), "nemo-2026-04");
  planned_spread(f, 1);
  f->plan.ep = 16;
}

/* Bytes, kernels and operations of the host of a block's replay; returns what it keeps. */
static double replay_of(const Planned *f, int layer, double bytes[2], double kernels[2], double operations[2])
{
  LayerWork work;
  layer_work_init(&work, f->model, model_layer(f->model, layer), PASSES(&f->plan), f->cluster);
  const GArray *const passes[] = { work.forward, work.backward };
  double saved = work.saved_bytes;

  for (int p = 0; p < 2; p++) {
    bytes[p] = kernels[p] = operations[p] = 0;
    for (guint o = 0; o < passes[p]->len; o++) {
      const Op *op = &g_array_index(passes[p], Op, o);
      if (!g_str_equal(op->name, "graph input"))
        continue;
      bytes[p] += op->memory.bytes;
      kernels[p] += op->memory.kernels;
      operations[p] += op_operations(op, f->framework);
      ck_assert(!op->captured);
    }
  }
  layer_work_clear(&work);
  return saved;
}

/* A recorded part's input and a mask of a byte a pair of tokens are copied to where they were recorded, and the gradients of
 * what it gives: what goes around the experts, the rows that are sent (of an all-to-all of two experts a token,
 * permuted), their weights, and what shared experts made. What blocks keep is the same. */
START_TEST(recorded_inputs_are_copied)
{
  static const struct {
    ExpertDispatch dispatch;
    int shared, layer;
    gboolean again, beside;
    double rows; /* given, over those of the block */
    int tensors;
  } cases[] = {
    { DISPATCH_ALL_TO_ALL, 0, 2, FALSE, FALSE, 1 + 2, 3 },   { DISPATCH_FLEX, 0, 2, FALSE, FALSE, 1 + 1, 3 },
    { DISPATCH_HYBRID, 256, 2, FALSE, FALSE, 1 + 1 + 1, 4 }, { DISPATCH_ALL_TO_ALL, 256, 2, FALSE, TRUE, 1 + 2, 3 },
    { DISPATCH_ALL_TO_ALL, 0, 2, TRUE, FALSE, 1 + 2, 3 },    { DISPATCH_ALL_TO_ALL, 0, 1, FALSE, FALSE, 1, 1 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    double bytes[2], kernels[2], operations[2];
    setup(&f);
    for (int s = 0; s < f.model->n_specs; s++)
      f.model->specs[s].ffn.shared_width = f.model->specs[s].ffn.experts ? cases[i].shared : 0;
    f.plan.dispatch = cases[i].dispatch;
    f.plan.overlap.experts = cases[i].beside;
    if (cases[i].again) {
      f.plan.recompute = RECOMPUTE_SELECTIVE;
      f.plan.scope.modules = 1u << MODULE_MOE;
    }
    f.plan.graph = GRAPH_NONE;
    double saved = replay_of(&f, cases[i].layer, bytes, kernels, operations);
    ck_assert(bytes[0] == 0 && bytes[1] == 0 && operations[0] == 0 && operations[1] == 0);
    f.plan.graph = GRAPH_PARTIAL;
    ck_assert_double_eq(replay_of(&f, cases[i].layer, bytes, kernels, operations), saved);
    double tokens = (double)f.plan.micro_batch * f.plan.seq, once = 2.0 * tokens * f.model->hidden;
    ck_assert_msg(bytes[0] == 2 * once + 3 * tokens * f.plan.seq && kernels[0] == 3 && operations[0] == 5, "%zu", i);
    ck_assert_msg(bytes[1] == 2 * once * cases[i].rows && kernels[1] == cases[i].tensors &&
                  operations[1] == cases[i].tensors + 2, "%zu: %g %g", i, bytes[1] / once, kernels[1]);
    planned_clear(&f);
  }
}
END_TEST

/* Neither Mamba's layers have a mask nor those of experts alone. */
START_TEST(recorded_mamba)
{
  Planned f;
  double bytes[2], kernels[2], operations[2];

  planned_init(&f, fixture_known_model("nemotron-3-nano-30b-a3b"), fixture_cluster("dgx-h100", 8), "nemo-2026-04");
  planned_spread(&f, 1);
  f.plan.seq = f.model->seq;
  f.plan.graph = GRAPH_PARTIAL;
  replay_of(&f, 1, bytes, kernels, operations);
  ck_assert(kernels[0] == 1 && operations[0] == 3 && kernels[1] == 1 && operations[1] == 3);
  ck_assert_double_eq(bytes[0], bytes[1]);
  int experts = 1;
  while (spec_mixes(model_layer(f.model, experts)))
    experts++;
  replay_of(&f, experts, bytes, kernels, operations);
  ck_assert(kernels[0] == 1 && operations[0] == 3 && bytes[0] == 4.0 * f.plan.seq * f.model->hidden);
  planned_clear(&f);
}
END_TEST

TEST_MAIN("replay", recorded_inputs_are_copied, recorded_mamba)
