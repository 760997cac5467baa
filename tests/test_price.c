#include "main.h"
#include "cost/kernel.h"
#include "search/price_cache.h"
#include "planned.h"

#include <math.h>

static void setup(Planned *f)
{
  planned_init(f, fixture_model(2, 512, 8, 128, 1024), fixture_cluster("dgx", 8), "megatron-core");
  f->plan.gpus = 1; /* no slowest of many */
  f->framework->issue_s = 0;
}

static LayerPrice price_of(const Planned *f, const LayerWork *work)
{
  LayerTimes times = layer_times(work, PASSES(&f->plan), f->cluster, NULL);
  LayerPrice price;

  layer_price_at(&price, NULL, work, &times, PASSES(&f->plan), f->cluster);
  layer_times_clear(&times);
  return price;
}

static Op product(Pass pass)
{
  return (Op) { .name = "p", .kind = OP_MATMUL, .pass = pass, .flops = 2e12,
                .matmul = { .m = 10000, .n = 10000, .k = 10000, .batch = 1, .dtype = DTYPE_BF16 } };
}

static Op sum(gboolean async)
{
  return (Op) { .name = "c", .kind = OP_COLLECTIVE, .pass = PASS_INPUT, .async = async,
                .collective = { .what = COLLECTIVE_ALL_REDUCE, .bytes = 1e8, .group = { 8, { 8, 8 } } } };
}

static LayerPrice price(const Planned *f, Op collective)
{
  LayerWork work = { .forward = g_array_new(FALSE, FALSE, sizeof(Op)),
                     .backward = g_array_new(FALSE, FALSE, sizeof(Op)) };
  Op ops[] = { product(PASS_INPUT), collective, product(PASS_WEIGHT) };
  Op forward = product(PASS_FORWARD);
  LayerPrice p;

  g_array_append_val(work.forward, forward);
  g_array_append_vals(work.backward, ops, 3);
  p = price_of(f, &work);
  layer_work_clear(&work);
  return p;
}

START_TEST(collectives_wait_or_hide)
{
  Planned f;

  setup(&f);
  Op p = product(PASS_INPUT), c = sum(FALSE);
  double product_s = op_s(&p, PASSES(&f.plan), f.cluster), sum_s = op_s(&c, PASSES(&f.plan), f.cluster);
  LayerPrice waits = price(&f, c), hides = price(&f, sum(TRUE));

  ck_assert(sum_s < product_s && sum_s > 0);
  ck_assert_double_eq_tol(waits.pass[PASS_BACKWARD].seconds, 2 * product_s + sum_s, 1e-12);
  /* beside the sum the product does 1 / slowdown of its work */
  double slowdown = overlap_slowdown(f.cluster, &c.collective.group);
  ck_assert(slowdown > 1 && slowdown * product_s > sum_s);
  ck_assert_double_eq_tol(hides.pass[PASS_BACKWARD].seconds, 2 * product_s + sum_s * (1 - 1 / slowdown), 1e-12);
  ck_assert_double_eq_tol(hides.pass[PASS_INPUT].seconds, product_s + sum_s, 1e-12);
  ck_assert_double_eq_tol(hides.pass[PASS_WEIGHT].seconds, product_s, 1e-12);
  ck_assert_double_eq_tol(waits.pass[PASS_BACKWARD].compute_s, 2 * product_s, 1e-12);
  c.overlaps = TRUE; /* where the plan says so */
  for (int overlap = 0; overlap < 2; overlap++) {
    f.plan.overlap.tensor = overlap;
    LayerPrice asked = price(&f, c);
    ck_assert_mem_eq(asked.pass, overlap ? hides.pass : waits.pass, sizeof asked.pass);
  }
  planned_clear(&f);
}
END_TEST

/* Seconds from the start of n products of 1 / n of the rows to the end of all: each waits for a transfer of `gathered`
 * rows but the first, whose rows are there; or each but the last has its rows sent when it is done. */
static double in_chunks(double transfers_s, double products_s, int n, gboolean gathered)
{
  double transferred = 0, multiplied = 0;

  for (int i = 0; i < n; i++) {
    if (gathered && i > 0)
      transferred += transfers_s / (n - 1);
    multiplied = MAX(multiplied, gathered ? transferred : 0) + products_s / n;
    if (!gathered && i > 0) /* of the rows before, beside these */
      transferred = MAX(transferred, multiplied - products_s / n) + transfers_s / (n - 1);
  }
  return MAX(transferred, multiplied);
}

/* What eight ranks save by chunks of a collective beside a product, where nothing slows the product meanwhile. */
static double saved_by_chunks(const Planned *f, const PassOp *collective, const PassOp *product)
{
  int n = f->plan.tp;
  double bytes = collective->op.collective.bytes;
  gboolean gathers = collective->op.collective.what == COLLECTIVE_ALL_GATHER;
  double moved = gathers ? 2 * bytes / n : bytes + bytes / n;
  Op parts = product->op;

  if (parts.pass == PASS_WEIGHT)
    parts.matmul.k /= n;
  else
    parts.matmul.m /= n;
  parts.matmul.batch *= n;
  parts.matmul.loops = parts.matmul.batch == n ? 1 : parts.matmul.loops;
  double whole_s = op_s(&product->op, PASSES(&f->plan), f->cluster), slowest = product->seconds / whole_s;
  double products_s = slowest * MAX(whole_s, op_s(&parts, PASSES(&f->plan), f->cluster));
  double moved_s = slowest * memory_s(&f->cluster->device, moved, 1);
  double chunks_s = in_chunks(collective->seconds, products_s, n, gathers) + moved_s;
  return MAX(0, collective->seconds + product->seconds - chunks_s);
}

/* A block of eight ranks whose rows travel in chunks: each gather is pipelined with the product behind it, each
 * scatter with the one before, where nothing slows the products meanwhile. */
START_TEST(rows_travel_in_chunks)
{
  Planned f;

  planned_init(&f, fixture_model(2, 4096, 32, 2048, 1024), fixture_cluster("dgx", 8), "megatron-core");
  f.plan.gpus = f.plan.tp = 8;
  f.plan.sequence_parallel = TRUE;
  f.framework->issue_s = 0;
  f.cluster->tiers[0].link.compute_slowdown = 1;
  for (int bulk = 0; bulk <= 2; bulk++) { /* the last on links that products do not hide */
    f.plan.overlap.tensor = bulk > 0;
    f.cluster->tiers[0].bytes_per_s /= bulk == 2 ? 20 : 1;
    f.plan.comm_chunks = FALSE;
    Layout layout = layout_of(&f.plan);
    g_autoptr(PriceTable) whole = price_table_described(f.model, &layout, f.cluster);
    f.plan.comm_chunks = TRUE;
    planned_accept(&f);
    layout = layout_of(&f.plan);
    g_autoptr(PriceTable) chunks = price_table_described(f.model, &layout, f.cluster);
    const LayerPrice *a = price_of_layer(whole, f.model, 0, 1), *b = price_of_layer(chunks, f.model, 0, 1);
    for (int pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++) {
      const GArray *ops = a->ops->pass[pass];
      double saved = 0;
      int pairs = 0;
      const PassOp *before = NULL;
      for (guint i = 0; i < ops->len; i++) {
        const PassOp *op = &g_array_index(ops, PassOp, i), *next;
        before = op->op.kind == OP_MATMUL ? op : before;
        if (op->op.kind != OP_COLLECTIVE || op->op.async)
          continue;
        gboolean gathers = op->op.collective.what == COLLECTIVE_ALL_GATHER;
        for (next = op; gathers && (next->op.kind != OP_MATMUL || next->op.pass != op->op.pass); next++)
          ;
        saved += saved_by_chunks(&f, op, gathers ? next : before);
        pairs++;
      }
      ck_assert_int_eq(pairs, pass == PASS_FORWARD ? 4 : bulk ? 2 : 6);
      ck_assert_double_gt(saved, 0);
      ck_assert_double_eq_tol((a->pass[pass].seconds - b->pass[pass].seconds) / saved, 1, 1e-9);
    }
    ck_assert_double_eq(a->saved_bytes, b->saved_bytes);
  }
  planned_clear(&f);
}
END_TEST

/* Gathers before products of 6656 columns on 8 H100, by NCCL and cuBLAS and by PyTorch's fused_all_gather_matmul
 * (meta-pytorch/kraken#2): chunks of 512 rows gain, of 128 and 256 lose, where ours run whole. */
START_TEST(gathers_gain_as_measured)
{
  static const struct { double rows, inputs, whole_us, chunks_us; } measured[] = {
    { 128, 4096, 141.984, 277.184 }, { 128, 8192, 284.288, 635.072 }, { 128, 16384, 513.600, 1166.944 },
    { 256, 4096, 272.992, 309.920 }, { 256, 8192, 499.392, 548.480 }, { 256, 16384, 953.216, 1333.120 },
    { 512, 4096, 514.496, 455.776 }, { 512, 8192, 912.384, 837.792 }, { 512, 16384, 1810.432, 1633.312 },
  };
  Planned f;

  planned_init(&f, fixture_model(2, 1024, 16, 512, 1024), fixture_cluster("dgx-h100", 8), "torchtitan");
  f.plan.gpus = f.plan.tp = 8;
  f.plan.sequence_parallel = TRUE;
  f.framework->issue_s = 0;
  f.cluster->device.rate_jitter = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(measured); i++) {
    double rows = 8 * measured[i].rows, seconds[2];
    Op ops[] = {
      { .name = "gather", .kind = OP_COLLECTIVE, .pass = PASS_FORWARD,
        .collective = { .what = COLLECTIVE_ALL_GATHER, .axis = AXIS_TENSOR, .bytes = 2 * rows * measured[i].inputs,
                        .group = { 8, { 8, 8 } } } },
      { .name = "p", .kind = OP_MATMUL, .pass = PASS_FORWARD,
        .matmul = { .m = rows, .n = 6656, .k = measured[i].inputs, .batch = 1, .dtype = DTYPE_BF16 } },
    };
    for (int chunks = 0; chunks < 2; chunks++) {
      LayerWork work = { .forward = g_array_new(FALSE, FALSE, sizeof(Op)),
                         .backward = g_array_new(FALSE, FALSE, sizeof(Op)) };
      f.plan.comm_chunks = chunks;
      g_array_append_vals(work.forward, ops, G_N_ELEMENTS(ops));
      seconds[chunks] = price_of(&f, &work).pass[PASS_FORWARD].seconds;
      layer_work_clear(&work);
    }
    double gain = 1 - seconds[1] / seconds[0], measured_gain = 1 - measured[i].chunks_us / measured[i].whole_us;
    if (measured_gain < 0)
      ck_assert_double_lt(gain, 0.02);
    else
      ck_assert_double_eq_tol(gain, measured_gain, 0.05);
  }
  planned_clear(&f);
}
END_TEST

/* The head's rows travel so, too; sums of its loss are of all logits and wait for the product. */
START_TEST(sums_travel_whole)
{
  Planned f;

  planned_init(&f, fixture_model(2, 4096, 32, 2048, 32768), fixture_cluster("dgx", 8), "megatron-core");
  f.plan.gpus = f.plan.tp = 8;
  f.plan.sequence_parallel = TRUE;
  f.framework->issue_s = 0;
  f.cluster->tiers[0].link.compute_slowdown = 1;
  Layout layout = layout_of(&f.plan);
  g_autoptr(PriceTable) whole = price_table_described(f.model, &layout, f.cluster);
  f.plan.comm_chunks = TRUE;
  layout = layout_of(&f.plan);
  g_autoptr(PriceTable) chunks = price_table_described(f.model, &layout, f.cluster);
  int head = f.model->n_layers - 1, sums = 0;
  const LayerPrice *a = price_of_layer(whole, f.model, 0, head), *b = price_of_layer(chunks, f.model, 0, head);
  const GArray *ops = a->ops->pass[PASS_FORWARD];
  const PassOp *gather = NULL, *logits = NULL;
  for (guint i = 0; i < ops->len; i++) {
    const PassOp *op = &g_array_index(ops, PassOp, i);
    gather = op->op.kind == OP_COLLECTIVE && op->op.collective.what == COLLECTIVE_ALL_GATHER ? op : gather;
    logits = op->op.kind == OP_MATMUL ? op : logits;
    sums += op->op.kind == OP_COLLECTIVE && op->op.collective.what == COLLECTIVE_ALL_REDUCE;
  }
  ck_assert_int_gt(sums, 0);
  double saved = saved_by_chunks(&f, gather, logits);
  ck_assert_double_gt(saved, 0);
  ck_assert_double_eq_tol(a->pass[PASS_FORWARD].seconds - b->pass[PASS_FORWARD].seconds, saved, 1e-12);
  planned_clear(&f);
}
END_TEST

/* Whatever slows products meanwhile, chunks take no longer than the whole, and no less than the longer of the two. */
START_TEST(chunks_are_never_slower)
{
  Planned f;

  planned_init(&f, fixture_model(2, 1024, 16, 512, 1024), fixture_cluster("dgx-h100", 8), "megatron-core");
  f.plan.gpus = f.plan.tp = 8;
  f.plan.sequence_parallel = TRUE;
  double least = INFINITY;
  for (double slowdown = 1; slowdown < 1e9; slowdown *= 1.5) {
    f.cluster->tiers[0].link.compute_slowdown = slowdown;
    f.plan.comm_chunks = FALSE;
    Layout layout = layout_of(&f.plan);
    g_autoptr(PriceTable) whole = price_table_new(f.model, &layout, f.cluster);
    f.plan.comm_chunks = TRUE;
    layout = layout_of(&f.plan);
    g_autoptr(PriceTable) chunks = price_table_new(f.model, &layout, f.cluster);
    for (int layer = 0; layer < f.model->n_layers; layer++)
      for (int pass = 0; pass < PASS_COUNT; pass++) {
        const PassPrice *a = &price_of_layer(whole, f.model, 0, layer)->pass[pass];
        const PassPrice *b = &price_of_layer(chunks, f.model, 0, layer)->pass[pass];
        ck_assert_double_le(b->seconds, a->seconds);
        ck_assert_double_ge(b->seconds * (1 + 1e-12), b->compute_s);
        ck_assert_double_eq(b->tensor_s, a->tensor_s);
      }
    double saved = price_of_layer(whole, f.model, 0, 1)->pass[PASS_FORWARD].seconds -
                   price_of_layer(chunks, f.model, 0, 1)->pass[PASS_FORWARD].seconds;
    ck_assert(saved <= least && (slowdown > 1 || saved > 0));
    least = saved;
  }
  ck_assert_double_lt(least, 1e-9);
  f.plan.sequence_parallel = FALSE;
  planned_refuse(&f, RULE_SHARDING, "plan: tp_comm_overlap: true: expected sequence_parallel, by ranks that "
                                    "NVLink or the like joins, of Transformer Engine neither fp4 nor fp8_recipe blockwise");
  f.plan.sequence_parallel = TRUE;
  for (int kind = 0; kind < LINK_KIND_COUNT; kind++) {
    f.cluster->tiers[0].link.kind = kind;
    gboolean linked = kind == LINK_SWITCH || kind == LINK_MESH;
    ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), linked ? RULE_NONE : RULE_SHARDING);
  }
  planned_divide(&f, 16, 1, 1);
  f.cluster->tiers[0].link.kind = LINK_SWITCH;
  ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), RULE_SHARDING);
  planned_divide(&f, 8, 1, 1);
  f.framework->choices = 0;
  planned_refuse(&f, RULE_SHARDING, "plan: tp_comm_overlap: expected nothing, megatron-core does not run it");
  planned_clear(&f);
}
END_TEST

/* Userbuffers take no rows of 4 bits, nor such with scales of 128; torchao's casts are behind the gathers. */
START_TEST(chunks_of_formats)
{
  static const struct { const char *framework; Fp8Recipe recipe; PlanRule rule; } cases[] = {
    { "nemo-2026-08", FP8_NONE, RULE_NONE }, { "nemo-2026-08", FP8_MXFP8, RULE_NONE },
    { "nemo-2026-08", FP8_CURRENT, RULE_NONE }, { "nemo-2026-08", FP8_BLOCKWISE, RULE_SHARDING },
    { "nemo-2026-08", FP8_NVFP4, RULE_SHARDING }, { "torchtitan-2026-08", FP8_NVFP4, RULE_NONE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    planned_init(&f, fixture_llama(4, 1024, 16, 16, 1024, 1024), fixture_cluster("hgx-b200", 8), cases[i].framework);
    planned_divide(&f, 8, 1, 1);
    f.plan.sequence_parallel = f.plan.comm_chunks = TRUE;
    if (cases[i].recipe)
      plan_set_format(&f.plan, cases[i].recipe == FP8_NVFP4 ? DTYPE_FP4 : DTYPE_FP8);
    f.plan.fp8_recipe = cases[i].recipe == FP8_NVFP4 ? FP8_NONE : cases[i].recipe;
    ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), cases[i].rule);
    f.plan.comm_chunks = FALSE;
    ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), RULE_NONE);
    planned_clear(&f);
  }
}
END_TEST

START_TEST(slower_links_slow_less)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 16);
  GroupShape node = { 8, { 8, 8 } }, apart = { 2, { 1, 2 } }, alone = { 1, { 1, 1 } };
  const Tier *tier = cluster->tiers;
  double ratio = tier[1].link.efficiency * tier[1].bytes_per_s / (tier[0].link.efficiency * tier[0].bytes_per_s);

  cluster->tiers[0].link.compute_slowdown = 1.5;
  ck_assert_double_eq_tol(overlap_slowdown(cluster, &node), 1.5, 1e-12);
  ck_assert_double_eq_tol(overlap_slowdown(cluster, &apart), 1 + 0.5 * ratio, 1e-12);
  ck_assert_double_eq_tol(overlap_slowdown(cluster, &alone), 1, 1e-12);
}
END_TEST

START_TEST(the_host_can_be_the_limit)
{
  Planned f;

  setup(&f);
  f.framework->issue_s = 1;
  ck_assert_double_eq(price(&f, sum(TRUE)).pass[PASS_FORWARD].seconds, 1);
  ck_assert_double_eq(price(&f, sum(TRUE)).pass[PASS_BACKWARD].seconds, 2);
  planned_clear(&f);
}
END_TEST

START_TEST(the_slowest_of_many)
{
  Planned f;

  setup(&f);
  double one = price(&f, sum(FALSE)).pass[PASS_FORWARD].seconds;
  f.plan.gpus = 1000;
  ck_assert_double_eq_tol(price(&f, sum(FALSE)).pass[PASS_FORWARD].seconds / one,
                          1 + f.cluster->device.rate_spread * 3.241436, 1e-8);
  planned_clear(&f);
}
END_TEST

/* Only the product with a sum before it loses; half where the sum is half as long as it takes. */
START_TEST(products_lose_by_switching)
{
  Planned f;

  setup(&f);
  LayerPrice without = price(&f, sum(FALSE));
  Op between = sum(FALSE);
  f.cluster->device.switch_s = 1e-3;
  for (int half = 0; half < 2; half++) {
    f.cluster->device.switch_after_s = (1 + half) * op_s(&between, PASSES(&f.plan), f.cluster);
    LayerPrice with = price(&f, sum(FALSE));
    ck_assert_double_eq_tol(with.pass[PASS_FORWARD].seconds, without.pass[PASS_FORWARD].seconds, 1e-12);
    ck_assert_double_eq_tol(with.pass[PASS_BACKWARD].seconds - without.pass[PASS_BACKWARD].seconds,
                            half ? 0.5e-3 : 1e-3, 1e-9);
  }
  planned_clear(&f);
}
END_TEST

/* Full recomputation runs the forward again, selective its core, none nothing. */
START_TEST(recomputation_is_paid)
{
  Planned f;
  double seconds[RECOMPUTE_COUNT];

  setup(&f);
  f.plan.attention = ATTENTION_UNFUSED;
  for (int r = 0; r < RECOMPUTE_COUNT; r++) {
    f.plan.recompute = r;
    g_autoptr(PriceTable) table = price_table_new(f.model, LAYOUT(&f.plan), f.cluster);
    const LayerPrice *block = &table->layers[f.model->layers[1]];
    seconds[r] = block->pass[PASS_BACKWARD].seconds;
    if (r == RECOMPUTE_FULL)
      ck_assert_double_eq_tol(seconds[r] - seconds[RECOMPUTE_NONE], block->pass[PASS_FORWARD].seconds, 1e-12);
    /* what is kept and what is made again is the same sum however it is split */
    ck_assert_double_eq_tol(block->saved_bytes + block->recomputed_bytes,
                            34.0 * 128 * 512 + 5.0 * 8 * 128 * 128, 1);
  }
  ck_assert(seconds[RECOMPUTE_NONE] < seconds[RECOMPUTE_SELECTIVE] &&
            seconds[RECOMPUTE_SELECTIVE] < seconds[RECOMPUTE_FULL]);
  planned_clear(&f);
}
END_TEST

START_TEST(recomputation_may_stop_early)
{
  Planned f;
  LayerPrice all, some;
  LayerWork work;
  double dropped_s = 0;

  setup(&f);
  f.plan.recompute = RECOMPUTE_FULL;
  f.model->dropout = FALSE;
  layer_work_init(&work, f.model, &f.model->specs[f.model->layers[1]], PASSES(&f.plan), f.cluster);
  all = price_of(&f, &work);
  f.framework->recompute_stops_early = TRUE;
  some = price_of(&f, &work);
  /* the block's last product and the residual sum behind it */
  for (guint i = work.forward->len - 2; i < work.forward->len; i++)
    dropped_s += op_s(&g_array_index(work.forward, Op, i), PASSES(&f.plan), f.cluster);
  ck_assert_str_eq(g_array_index(work.forward, Op, work.forward->len - 2).name, "feed-forward down");
  ck_assert_double_eq_tol(all.pass[PASS_BACKWARD].seconds - some.pass[PASS_BACKWARD].seconds, dropped_s, 1e-12);
  layer_work_clear(&work);
  planned_clear(&f);
}
END_TEST

/* Each pass of a layer's products has the constants of its own kind, on devices that have such. */
START_TEST(gradients_have_constants_of_their_own)
{
  static const Product own[] = { PRODUCT_INPUT_GRADIENT, PRODUCT_WEIGHT_GRADIENT };
  static const Pass passes[] = { PASS_INPUT, PASS_WEIGHT };
  Planned f;

  setup(&f);
  Kernels *kernels = &f.cluster->device.kernels;
  LayerPrice plain = price(&f, sum(FALSE));
  for (gsize i = 0; i < G_N_ELEMENTS(own); i++) {
    MatmulModel *model = &kernels->gradients[own[i]][DTYPE_BF16];
    *model = kernels->matmul[DTYPE_BF16];
    model->known = TRUE;
    model->launch_s += 1;
    LayerPrice slow = price(&f, sum(FALSE));
    Op op = product(passes[i]);
    ck_assert_double_gt(op_s(&op, PASSES(&f.plan), f.cluster), 1);
    ck_assert_double_eq(slow.pass[PASS_FORWARD].seconds, plain.pass[PASS_FORWARD].seconds);
    for (gsize k = 0; k < G_N_ELEMENTS(passes); k++)
      ck_assert_double_eq_tol(slow.pass[passes[k]].seconds - plain.pass[passes[k]].seconds, k == i, 1e-9);
    ck_assert_double_eq_tol(slow.pass[PASS_BACKWARD].seconds - plain.pass[PASS_BACKWARD].seconds, 1, 1e-9);
    model->known = FALSE;
  }
  planned_clear(&f);
}
END_TEST

START_TEST(early_libraries_are_slower)
{
  Planned f;
  Op op = product(PASS_FORWARD);

  setup(&f);
  f.cluster->device.kernels.early_cuda_version = 12;
  f.cluster->device.kernels.early_product_share = 0.5;
  f.framework->cuda_version = 12;
  double later = op_s(&op, PASSES(&f.plan), f.cluster);
  f.framework->cuda_version = 11.8;
  ck_assert_double_eq_tol(op_s(&op, PASSES(&f.plan), f.cluster), 2 * later, 1e-12);
  planned_clear(&f);
}
END_TEST

START_TEST(promoted_sums_are_slower)
{
  Planned f;
  Op op = product(PASS_FORWARD);

  setup(&f);
  f.cluster->device.peak_flops_per_s[DTYPE_FP8] = 1e15;
  op.matmul.dtype = DTYPE_FP8;
  f.cluster->device.kernels.promoted_share = 0.5;
  double others = op_s(&op, PASSES(&f.plan), f.cluster);
  op.matmul.promoted = TRUE;
  double halved = op_s(&op, PASSES(&f.plan), f.cluster);
  ck_assert_double_gt(halved, 1.2 * others);
  f.cluster->device.kernels.promoted_overhead_s = 1e-6;
  ck_assert_double_gt(op_s(&op, PASSES(&f.plan), f.cluster), halved);
  f.cluster->device.kernels.promoted_share = 0; /* not known */
  ck_assert_double_eq(op_s(&op, PASSES(&f.plan), f.cluster), others);
  planned_clear(&f);
}
END_TEST

/* Of products of two activations those whose rows are not aligned are slower by more, format by format. */
START_TEST(early_unaligned_products_are_slower)
{
  static const struct {
    DType dtype;
    double k;
    gboolean activations;
    double slower;
  } rows[] = {
    { DTYPE_BF16, 140, TRUE, 8 },  { DTYPE_BF16, 140, FALSE, 2 }, { DTYPE_BF16, 144, TRUE, 2 },
    { DTYPE_FP16, 140, TRUE, 4 },  { DTYPE_FP16, 136, TRUE, 2 },
  };
  Planned f;
  Op op = product(PASS_FORWARD);

  setup(&f);
  f.cluster->device.kernels.early_cuda_version = 12;
  f.cluster->device.kernels.early_product_share = 0.5;
  f.cluster->device.kernels.early_unaligned_share[DTYPE_BF16] = 0.25;
  f.cluster->device.kernels.early_unaligned_share[DTYPE_FP16] = 0.5;
  op.matmul.dtype = rows[_i].dtype;
  op.matmul.k = rows[_i].k;
  op.matmul.activations = rows[_i].activations;
  f.framework->cuda_version = 12;
  double later = op_s(&op, PASSES(&f.plan), f.cluster);
  f.framework->cuda_version = 11.8;
  ck_assert_double_eq_tol(op_s(&op, PASSES(&f.plan), f.cluster), rows[_i].slower * later, 1e-12);
  planned_clear(&f);
}
END_TEST

/* Prices from remembered ops and layers are those of a table of its own, to the last bit. */
START_TEST(remembered_ops_cost_the_same)
{
  static const char *const names[] = { "gpt3", "mixtral-8x7b", "deepseek-v3-mtp", "bert-large-sparse" };
  GRand *rand = g_rand_new_with_seed(3);
  Cluster *cluster = fixture_cluster("dgx", 8);
  Framework *frameworks[] = { fixture_framework("megatron-core"), fixture_framework("deepspeed") };
  Model *models[G_N_ELEMENTS(names)];
  PriceCache *caches[G_N_ELEMENTS(names)];
  int compared[G_N_ELEMENTS(names)] = { 0 };

  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    models[i] = fixture_known_model(names[i]);
    caches[i] = price_cache_new(models[i], cluster);
  }
  for (int i = 0; i < 1600; i++) {
    const Model *model = models[i % 4];
    Plan plan;
    if (!fixture_draw_plan(rand, model, cluster, frameworks[i / 4 % 2], &plan) || plan.gpus != 8)
      continue; /* the cluster is as it was whenever it has 8 devices */
    compared[i % 4]++;
    for (plan.recompute = 0; plan.recompute < RECOMPUTE_COUNT; plan.recompute++) {
      g_autoptr(PriceTable) one = price_cache_own(caches[i % 4], &plan);
      g_autoptr(PriceTable) own = price_table_new(model, LAYOUT(&plan), cluster);
      ck_assert_mem_eq(one->layers, own->layers, own->n * sizeof(LayerPrice));
    }
  }
  for (gsize i = 0; i < G_N_ELEMENTS(names); i++)
    ck_assert_msg(compared[i] > 2, "%s: %d plans", names[i], compared[i]);
  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    price_cache_free(caches[i]);
    model_free(models[i]);
  }
  g_rand_free(rand);
  cluster_free(cluster);
  framework_free(frameworks[0]);
  framework_free(frameworks[1]);
}
END_TEST

/* A gradient of weights and one of inputs of the same sides differ in where their rows start. */
START_TEST(remembered_by_pass)
{
  g_autoptr(OpTimes) times = op_times_new();
  double seconds[2];
  Planned f;

  planned_init(&f, fixture_model(2, 1024, 8, 1024, 1000), fixture_cluster("dgx", 8), "megatron-core");
  planned_spread(&f, 1);
  for (int i = 0; i < 2; i++) {
    Op op = { .name = "qkv", .kind = OP_MATMUL, .pass = i ? PASS_WEIGHT : PASS_INPUT,
              .matmul = { .m = 4096, .n = 4096, .k = 4001, .batch = 1, .dtype = DTYPE_BF16 } };
    seconds[i] = op_times_s(times, &op, PASSES(&f.plan), f.cluster);
    ck_assert_double_eq(seconds[i], op_s(&op, PASSES(&f.plan), f.cluster));
  }
  ck_assert_double_gt(seconds[0], 1.2 * seconds[1]);
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("price", { gradients_have_constants_of_their_own },
           { remembered_ops_cost_the_same }, { remembered_by_pass }, { collectives_wait_or_hide },
           { rows_travel_in_chunks },
           { chunks_of_formats },
           { gathers_gain_as_measured }, { sums_travel_whole },
           { chunks_are_never_slower }, { slower_links_slow_less }, { the_host_can_be_the_limit },
           { the_slowest_of_many }, { products_lose_by_switching }, { recomputation_is_paid },
           { recomputation_may_stop_early }, { early_libraries_are_slower }, { promoted_sums_are_slower },
           { early_unaligned_products_are_slower, 5 })
