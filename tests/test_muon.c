/* Muon: its Newton-Schulz steps, what ranks gather and sum for it. */
#include "cost/kernel.h"
#include "cost/orthogonal.h"
#include "main.h"
#include "planned.h"

/* Blocks of width h = 1,024 with feed-forwards of f = 3,072, untied, 1,024 rows of vocabulary. */
#define H 1024.0
#define LAYERS 4

static void setup(Planned *f, const char *framework, int devices)
{
  planned_init(f, fixture_llama(LAYERS, 1024, 16, 16, 1024, 1024), fixture_cluster("dgx", devices), framework);
  planned_spread(f, 2);
}

/* In each block qkv, output, gate and up, down. */
static double matrix_values(void)
{
  return LAYERS * (3 * H * H + H * H + 2 * H * 3 * H + 3 * H * H);
}

static double square_s(const Cluster *c, double m, double n)
{
  return matmul_s(&c->device, &(Matmul) { m, m, n, 1, DTYPE_BF16 }) +
         matmul_s(&c->device, &(Matmul) { m, m, m, 1, DTYPE_BF16 }) +
         matmul_s(&c->device, &(Matmul) { m, n, m, 1, DTYPE_BF16 });
}

static OptimizerWork block_work(Planned *f)
{
  g_autoptr(PriceTable) prices = price_table_new(f->model, LAYOUT(&f->plan), f->cluster);
  return price_of_layer(prices, f->model, 0, 1)->optimizer[0];
}

static double sides_s(const Cluster *c, double rows, double columns)
{
  return square_s(c, MIN(rows, columns), MAX(rows, columns));
}

/* Of a block: queries, keys and values, the projection, gate and up (`fused`: as one matrix) and down. */
static double matrices_s(const Cluster *c, double keys, gboolean fused)
{
  double up = fused ? square_s(c, H, 6 * H) : 2 * square_s(c, H, 3 * H);
  return square_s(c, H, H) + 2 * sides_s(c, H, keys) + square_s(c, H, H) + up + square_s(c, H, 3 * H);
}

START_TEST(newton_schulz_by_its_products)
{
  Planned f;
  setup(&f, "fsdp", 1);
  f.plan.optimizer.name = OPTIMIZER_MUON;
  OptimizerWork w = block_work(&f);

  double once = matrices_s(f.cluster, H, FALSE);
  ck_assert_double_eq_tol(w.newton_s, 5 * once, 1e-12);
  ck_assert_double_eq(w.matrices, matrix_values() / LAYERS);
  ck_assert_double_eq_tol(w.newton_most_s, 5 * square_s(f.cluster, H, 3 * H), 1e-12);
  f.plan.optimizer.newton_steps = 10;
  ck_assert_double_eq_tol(block_work(&f).newton_s, 10 * once, 1e-12);
  f.plan.optimizer.name = OPTIMIZER_ADAM;
  ck_assert_double_eq(block_work(&f).newton_s, 0);
  planned_clear(&f);
}
END_TEST

/* Two ranks share each matrix: its block, all of it, or together. */
START_TEST(ranks_share_matrices)
{
  Planned f;
  setup(&f, "fsdp", 2);
  f.plan.optimizer.name = OPTIMIZER_MUON;
  f.plan.tp = 2;
  f.plan.dp = 1;
  GroupShape pair = mesh_group(MESH(&f.plan), f.cluster, AXIS_TENSOR);

  double blocks = 3 * square_s(f.cluster, H / 2, H) + square_s(f.cluster, H / 2, H) + 3 * square_s(f.cluster, H, 1.5 * H);
  ck_assert_double_eq_tol(block_work(&f).newton_s, 5 * blocks, 1e-12);
  ck_assert_double_eq(block_work(&f).tensor_s, 0);
  f.plan.optimizer.muon_mode = MUON_DUPLICATED;
  double once = matrices_s(f.cluster, H, FALSE);
  ck_assert_double_eq_tol(block_work(&f).newton_s, 5 * once, 1e-12);
  double gathers = 0;
  for (int i = 0; i < 7; i++) /* in fp32, which the steps are cast from */
    gathers += collective_cost(f.cluster, COLLECTIVE_ALL_GATHER, 4 * (const double[]) { 1, 1, 1, 1, 3, 3, 3 }[i] * H * H,
                               &pair).seconds;
  ck_assert_double_eq_tol(block_work(&f).tensor_s, gathers, 1e-12);
  f.plan.optimizer.muon_mode = MUON_DISTRIBUTED;
  double together = 3 * square_s(f.cluster, H, H / 2) + square_s(f.cluster, H, H / 2) + 3 * square_s(f.cluster, H, 1.5 * H);
  ck_assert_double_eq_tol(block_work(&f).newton_s, 5 * together, 1e-12);
  ck_assert_double_eq_tol(block_work(&f).tensor_s,
                          7 * 5 * collective_cost(f.cluster, COLLECTIVE_ALL_REDUCE, 2 * H * H, &pair).seconds, 1e-12);
  planned_clear(&f);
}
END_TEST

/* Queries, keys and values of fewer heads are matrices of their own, whose sizes add up; of Megatron's layer of all of
 * them one, where a rank has a part of a head's. Its gate and up are one. */
START_TEST(queries_and_keys_apart)
{
  Planned f;

  planned_init(&f, fixture_llama(LAYERS, (int)H, 16, 4, (int)(3 * H), 1000), fixture_cluster("dgx-h100", 8),
               "megatron-core-2026");
  planned_spread(&f, 1);
  f.plan.optimizer.name = OPTIMIZER_MUON;
  OptimizerWork w = block_work(&f);
  ck_assert_double_eq_tol(w.newton_s, 5 * matrices_s(f.cluster, H / 4, TRUE), 1e-12);
  ck_assert_double_eq(w.matrices, H * (H + H / 2 + H + 6 * H + 3 * H));
  f.plan.tp = 8;
  f.plan.dp = 1;
  double block = sides_s(f.cluster, H, 1.5 * H / 8) + sides_s(f.cluster, H, H / 8) + sides_s(f.cluster, H, 6 * H / 8) +
                 sides_s(f.cluster, H, 3 * H / 8);
  ck_assert_double_eq_tol(block_work(&f).newton_s, 5 * block, 1e-12);
  f.framework->fused_weights = FALSE;
  block += 2 * sides_s(f.cluster, H, H / 32) + sides_s(f.cluster, H, H / 8) - sides_s(f.cluster, H, 1.5 * H / 8) +
           2 * sides_s(f.cluster, H, 3 * H / 8) - sides_s(f.cluster, H, 6 * H / 8);
  ck_assert_double_eq_tol(block_work(&f).newton_s, 5 * block, 1e-12);
  planned_clear(&f);
}
END_TEST

/* The sides of a layer's first n matrices, in pairs. */
static void has_matrices(const char *name, int layer, const char *framework, const double (*sides)[2], int n)
{
  Planned f;

  planned_init(&f, fixture_known_model(name), fixture_cluster("dgx-h100", 8), framework);
  planned_spread(&f, 1);
  f.plan.optimizer.name = OPTIMIZER_MUON;
  LayerWork work;
  layer_work_init(&work, f.model, model_layer(f.model, layer), PASSES(&f.plan), f.cluster);
  ck_assert_uint_ge(work.matrices->len, n);
  for (int i = 0; i < n; i++) {
    const OpMatrix *m = &g_array_index(work.matrices, OpMatrix, i);
    ck_assert_msg(m->rows == sides[i][0] && m->columns == sides[i][1], "%s: %g x %g, expected %g x %g", framework, m->rows,
                  m->columns, sides[i][0], sides[i][1]);
  }
  layer_work_clear(&work);
  planned_clear(&f);
}

/* Qwen3-Next's layer of queries makes their gate, too, which Megatron's Muon takes for itself; latents of MLA have layers
 * of their own everywhere. */
START_TEST(gates_and_latents_apart)
{
  const double next = 2048, q = 16 * 256, kv = 2 * 256, lite = 2048;
  const double megatron[][2] = { { next, q }, { next, kv }, { next, kv }, { next, q }, { q, next } };
  const double others[][2] = { { next, 2 * q }, { next, kv }, { next, kv }, { q, next } };
  const double latent[][2] = { { lite, 16 * 192 }, { lite, 512 + 64 }, { 512, 16 * 256 }, { 16 * 128, lite } };

  has_matrices("qwen3-next-80b-a3b", 4, "megatron-core-2026", megatron, 5);
  has_matrices("qwen3-next-80b-a3b", 4, "deepspeed", others, 4);
  has_matrices("deepseek-v2-lite", 1, "megatron-core-2026", latent, 4);
  has_matrices("deepseek-v2-lite", 1, "fsdp", latent, 4);
}
END_TEST

/* DeepSpeed's steps on the square of a matrix: it is made twice and applied twice; 14 products of squares in five steps.
 * What is square itself, as here queries, keys, values and the projection, goes the usual way. */
START_TEST(steps_on_the_square)
{
  Planned f;

  setup(&f, "deepspeed", 1);
  f.plan.optimizer.name = OPTIMIZER_MUON;
  const Device *d = &f.cluster->device;
  double expected = 5 * 4 * square_s(f.cluster, H, H);
  for (int i = 0; i < 3; i++) /* gate, up and down */
    expected += 2 * matmul_s(d, &(Matmul) { H, H, 3 * H, 1, DTYPE_BF16 }) +
                2 * matmul_s(d, &(Matmul) { H, 3 * H, H, 1, DTYPE_BF16 }) +
                14 * matmul_s(d, &(Matmul) { H, H, H, 1, DTYPE_BF16 });
  ck_assert_double_eq_tol(block_work(&f).newton_s, expected, 1e-12);
  f.framework->muon_gram = FALSE;
  ck_assert_double_eq_tol(block_work(&f).newton_s, 5 * matrices_s(f.cluster, H, FALSE), 1e-12);
  planned_clear(&f);
}
END_TEST

static double reduced_s(Planned *f, Collective *what)
{
  planned_build(f);
  for (guint i = 0; i < f->program->segments->len; i++) {
    const Segment *s = &g_array_index(f->program->segments, Segment, i);
    if (s->kind == TASK_REDUCE) {
      *what = s->collective;
      return s->seconds;
    }
  }
  return 0;
}

/* Seconds of a step's gathers of momentum, and how many bytes. */
static double momentum_s(Planned *f, double *bytes)
{
  planned_build(f);
  const Segment *last = NULL;
  for (guint i = 0; i < f->program->segments->len; i++) {
    const Segment *s = &g_array_index(f->program->segments, Segment, i);
    last = s->kind == TASK_GATHER && s->n_layers == 0 ? s : last;
  }
  ck_assert_ptr_nonnull(last);
  *bytes = last->comm_bytes;
  return last->seconds;
}

/* A bucket's momentum is gathered at once, its matrices in turn, as many as there are ranks: each a collective. */
START_TEST(gathers_of_buckets)
{
  Planned f;
  double bytes, again, matrices = matrix_values();

  setup(&f, "deepspeed", 8);
  f.plan.zero = 3;
  f.plan.optimizer.name = OPTIMIZER_MUON;
  f.framework->bucket_params = matrices / 2;
  f.framework->bucket_params_per_rank = 0;
  const StateLayout *s = STATES(&f.plan);
  OptimizerWork w = { .matrices = matrices, .count = 7 * LAYERS };
  ck_assert_double_eq(optimizer_gathers(&w, s, 2), 2 * 2 * (1 + 2 * 2)); /* 14 of a bucket's on 8 ranks */
  w.count = 2 * 8;
  ck_assert_double_eq(optimizer_gathers(&w, s, 2), 2 * 2 * (1 + 2));
  double buckets_s = momentum_s(&f, &bytes);
  ck_assert_double_eq_tol(bytes, 3 * 2 * matrices * s->reduce_bytes, 1e-3);
  GroupShape all = state_group(LAYOUT(&f.plan), f.cluster, FALSE, RANKS_SHARDS);
  double each = collective_cost(f.cluster, COLLECTIVE_ALL_GATHER, bytes / 20, &all).seconds + f.framework->collective_s;
  ck_assert_double_eq_tol(buckets_s, 20 * each, 1e-9);
  double held = op_bucket_bytes(s, matrices);
  f.framework->bucket_params = matrices;
  ck_assert_double_gt(buckets_s, momentum_s(&f, &again));
  ck_assert_double_eq(again, bytes);
  f.framework->bucket_params = matrices / 2;
  f.framework->muon_by_bucket = FALSE; /* no momentum beside its gradients, gathered and by matrices */
  ck_assert_double_eq_tol(held - op_bucket_bytes(STATES(&f.plan), matrices), 2 * matrices / 2 * s->reduce_bytes, 1e-3);
  ck_assert_double_eq(optimizer_gathers(&w, STATES(&f.plan), 2), 2); /* of momentum, then of results */
  double whole_s = momentum_s(&f, &bytes);
  ck_assert_double_eq(bytes, 2 * matrices * 2);
  each = collective_cost(f.cluster, COLLECTIVE_ALL_GATHER, bytes / 2, &all).seconds + f.framework->collective_s;
  ck_assert_double_eq_tol(whole_s, 2 * each, 1e-9);
  f.plan.zero = 1; /* DeepSpeed's ranks hold whole matrices then */
  ck_assert_double_eq(optimizer_gathers(&w, STATES(&f.plan), 2), 0);
  planned_clear(&f);
}
END_TEST

/* DeepSpeed's parts of stages 1 and 2 end within matrices: one more of each, but never more than all. Megatron's are whole
 * matrices. */
START_TEST(parts_cut_matrices)
{
  static const struct { const char *framework; int zero; double seconds; } cases[] = {
    { "deepspeed", 0, 8 }, { "deepspeed", 1, 1.5 }, { "deepspeed", 2, 1.5 }, { "megatron-core-2026", 1, 1 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    OptimizerWork w = { .newton_s = 8, .newton_most_s = 0.5 };
    Planned f;
    setup(&f, cases[i].framework, 8);
    f.plan.optimizer.name = OPTIMIZER_MUON;
    f.plan.zero = cases[i].zero;
    ck_assert_double_eq(optimizer_work_price(&w, STATES(&f.plan), 1, f.cluster).seconds, cases[i].seconds);
    w.newton_most_s = 8;
    ck_assert_double_eq(optimizer_work_price(&w, STATES(&f.plan), 1, f.cluster).seconds, 8);
    planned_clear(&f);
  }
}
END_TEST

/* DeepSpeed's stage 3: gradients are summed on all ranks, and with each micro-batch three gathers and the steps follow,
 * of which a bucket has at least one matrix for a rank. */
START_TEST(muon_by_bucket)
{
  OptimizerWork w = { .matrices = 1e6, .newton_s = 8, .newton_most_s = 0.5 };
  Planned f;

  setup(&f, "deepspeed", 8);
  f.plan.zero = 3;
  f.plan.optimizer.name = OPTIMIZER_MUON;
  const StateLayout *s = STATES(&f.plan);
  ck_assert_double_eq(optimizer_gather_bytes(&w, s, 4), 3 * 4 * 1e6 * s->reduce_bytes);
  ck_assert_double_eq(optimizer_work_price(&w, s, 4, f.cluster).seconds, 4 * 1);
  w.matrices = 3 * op_bucket_params(s);
  ck_assert_double_eq(optimizer_work_price(&w, s, 4, f.cluster).seconds, 4 * 3 * 0.5);
  Collective what = COLLECTIVE_SEND;
  double all = reduced_s(&f, &what);
  ck_assert_int_eq(what, COLLECTIVE_ALL_REDUCE);
  double muon = planned_run(&f).iteration_s;
  f.framework->muon_by_bucket = FALSE;
  ck_assert_double_gt(all, reduced_s(&f, &what));
  ck_assert_int_eq(what, COLLECTIVE_REDUCE_SCATTER);
  ck_assert_double_gt(muon, planned_run(&f).iteration_s);
  f.framework->muon_by_bucket = TRUE;
  f.plan.optimizer.name = OPTIMIZER_ADAM;
  reduced_s(&f, &what);
  ck_assert_int_eq(what, COLLECTIVE_REDUCE_SCATTER);
  f.plan.optimizer.name = OPTIMIZER_MUON;
  f.plan.zero = 2;
  reduced_s(&f, &what);
  ck_assert_int_eq(what, COLLECTIVE_REDUCE_SCATTER);
  ck_assert_double_eq(optimizer_gather_bytes(&w, STATES(&f.plan), 4), 0);
  planned_clear(&f);
}
END_TEST

/* Moonlight's algorithm 1: one more gather, of 2 bytes for a parameter of a matrix; its part of the products. */
START_TEST(muon_under_zero)
{
  Planned f;

  setup(&f, "fsdp", 8);
  f.plan.zero = 1;
  Metrics adam = planned_run(&f);
  f.plan.optimizer.name = OPTIMIZER_MUON;
  Metrics muon = planned_run(&f);
  OptimizerWork w = { .matrices = matrix_values() };
  ck_assert_double_eq(optimizer_gather_bytes(&w, STATES(&f.plan), 1), 2 * matrix_values());
  f.plan.zero = 3;
  ck_assert_double_eq(optimizer_gather_bytes(&w, STATES(&f.plan), 1), 4 * matrix_values());
  ck_assert_double_gt(muon.data_comm_s, adam.data_comm_s);
  w = (OptimizerWork) { .newton_s = 8, .newton_most_s = 0.5 };
  ck_assert_double_eq(optimizer_work_price(&w, STATES(&f.plan), 1, f.cluster).seconds, 1);
  w.newton_most_s = 2; /* a matrix is not divided */
  ck_assert_double_eq(optimizer_work_price(&w, STATES(&f.plan), 1, f.cluster).seconds, 2);
  planned_clear(&f);
}
END_TEST

/* Whole matrices on each rank: under ZeRO-1 of Megatron, 1 and 2 of DeepSpeed, and those that have whole tensors. */
START_TEST(muon_of_whole_matrices)
{
  static const struct {
    const char *framework;
    int gathers[4]; /* by stage of ZeRO, of each matrix */
  } cases[] = {
    { "megatron-core-2026", { 0, 0, 1, 2 } },
    { "nemo-2026-08", { 0, 0, 1, 2 } },
    { "deepspeed", { 0, 0, 0, 3 } },
    { "internevo-2023", { 0, 0, 0, 2 } },
    { "fsdp", { 0, 1, 1, 2 } },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    for (int zero = 0; zero <= 3; zero++) {
      Planned f;
      setup(&f, cases[i].framework, 8);
      f.plan.optimizer.name = OPTIMIZER_MUON;
      f.plan.zero = zero;
      const OptimizerWork w = { .matrices = matrix_values() };
      ck_assert_msg(optimizer_gather_bytes(&w, STATES(&f.plan), 1) == 2 * cases[i].gathers[zero] * matrix_values(),
                    "%s, stage %d", cases[i].framework, zero);
      planned_clear(&f);
    }
}
END_TEST

/* All that data-parallel ranks of Megatron exchange under Muon is what they do under Adam. */
START_TEST(muon_gathers_no_momentum_of_whole_matrices)
{
  Planned f;

  setup(&f, "megatron-core-2026", 8);
  f.plan.zero = 1;
  f.plan.overlap.gradients = f.plan.overlap.parameters = FALSE;
  Metrics adam = planned_run(&f);
  f.plan.optimizer.name = OPTIMIZER_MUON;
  Metrics muon = planned_run(&f);
  ck_assert_double_gt(adam.data_comm_s, 0);
  ck_assert_double_eq_tol(muon.data_comm_s, adam.data_comm_s, 1e-12);
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("muon", { newton_schulz_by_its_products }, { ranks_share_matrices }, { queries_and_keys_apart },
           { gates_and_latents_apart }, { steps_on_the_square }, { gathers_of_buckets }, { parts_cut_matrices },
           { muon_by_bucket }, { muon_under_zero }, { muon_of_whole_matrices },
           { muon_gathers_no_momentum_of_whole_matrices })
