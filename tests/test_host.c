/* What the host issues, what graphs spare it, and what may be recorded or run beside other passes. */
#include "main.h"
#include "planned.h"

#include "cost/kernel.h"

static void setup(Planned *f)
{
  planned_init(f, fixture_experts(1, 512, 8, 16, 1024, 1000), fixture_cluster("dgx", 16), "nemo-2026-04");
  planned_spread(f, 1);
  f->plan.ep = 16;
}

static PassPrice pass_of(const Planned *f, Pass pass)
{
  planned_accept(f);
  g_autoptr(PriceTable) prices = price_table_new(f->model, LAYOUT(&f->plan), f->cluster);
  return prices->layers[f->model->layers[1]].pass[pass];
}

/* Counted by hand: a product is as many as the framework says, for fewer bits apart, and one more for each expert that
 * is not in the same kernel. */
START_TEST(operations_are_counted)
{
  Framework f = { .product_operations = 2, .narrow_product_operations = 3 };
  const Op plain = { .kind = OP_MATMUL, .matmul = { .dtype = DTYPE_BF16, .batch = 8 } };
  const Op narrow = { .kind = OP_MATMUL, .matmul = { .dtype = DTYPE_FP8, .batch = 8, .loops = 8 } };
  const Op stream = { .kind = OP_MEMORY, .memory = { .kernels = 3, .operations = 3 } };
  const Op router = { .kind = OP_MEMORY, .memory = { .kernels = 3, .operations = 40 } };
  const Op alone = { .kind = OP_COLLECTIVE, .collective = { .group = { .size = 1 } } };
  const Op pair = { .kind = OP_COLLECTIVE, .collective = { .group = { .size = 2 } } };

  ck_assert_double_eq(op_operations(&plain, &f), 2);
  ck_assert_double_eq(op_operations(&narrow, &f), 3 + 8);
  ck_assert_double_eq(op_operations(&stream, &f), 3);
  ck_assert_double_eq(op_operations(&router, &f), 40);
  ck_assert_double_eq(op_operations(&alone, &f), 0);
  ck_assert_double_eq(op_operations(&pair, &f), 4);
}
END_TEST

/* Small passes last as long as the host, which knows how many rows experts have; a partial graph takes attention and
 * router from it, a full one all. A slower host takes as much longer as it is slower. */
START_TEST(graphs_spare_the_host)
{
  Planned f;

  setup(&f);
  f.plan.expert_capacity = 1;
  f.plan.expert_padded = TRUE;
  for (int pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass += PASS_BACKWARD - PASS_FORWARD) {
    f.plan.graph = GRAPH_NONE;
    PassPrice none = pass_of(&f, pass);
    f.plan.graph = GRAPH_PARTIAL;
    PassPrice partial = pass_of(&f, pass);
    f.plan.graph = GRAPH_FULL;
    PassPrice full = pass_of(&f, pass);
    ck_assert_double_eq(none.seconds, none.host_s);
    ck_assert_double_lt(partial.host_s, 0.8 * none.host_s);
    ck_assert_double_gt(partial.host_s, 0);
    ck_assert_double_eq(full.host_s, 0);
    ck_assert_double_lt(full.seconds, partial.seconds);
    f.plan.graph = GRAPH_NONE;
    f.cluster->device.host_slowdown = 2;
    ck_assert_double_eq_tol(pass_of(&f, pass).seconds, 2 * none.seconds, 1e-12);
    f.cluster->device.host_slowdown = 1;
    f.framework->operation_s = f.framework->issue_s = 0;
    ck_assert_double_eq_tol(pass_of(&f, pass).seconds, full.seconds, 1e-15);
    f.framework->operation_s = 30e-6;
  }
  planned_clear(&f);
}
END_TEST

static double host_of(const char *server)
{
  g_autofree char *text = g_strdup_printf("{\"name\":\"c\",\"nodes\":1,\"source\":\"default: x\",\"server\":%s}", server);
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = cluster_parse(text, strlen(text), "c.json", &error);

  ck_assert_msg(cluster != NULL, "%s", error ? error->message : "");
  return cluster->device.host_slowdown;
}

/* A server says more of its host than its devices do, and one made like it takes that over. */
START_TEST(hosts_of_servers)
{
  ck_assert_double_eq(host_of("\"dgx-b300\""), 0.83);
  ck_assert_double_eq(host_of("{\"like\":\"dgx-b300\",\"name\":\"x\",\"gpu\":\"h200-sxm5-141gb\",\"source\":\"default: x\"}"), 0.83);
  ck_assert_double_eq(host_of("\"aws-p6-b300-48xlarge\""), 1);
  ck_assert_double_eq(host_of("\"gb200-nvl72\""), 2.1);
}
END_TEST

/* Seconds a pass of many in a row, op by op: the host issues one after the other, and waits where it asks the device
 * for counts of rows, for which kernels first ask a thread `quiet_s` a time; the device runs all of it in order. */
static double pass_in_a_row(const GArray *ops, double operation_s, const Framework *framework, gboolean graph,
                            double quiet_s)
{
  double host_s = 0, device_s = 0, warm_s = 0;

  for (int pass = 0; pass < 20; pass++) {
    warm_s = pass == 10 ? device_s : warm_s;
    for (guint i = 0; i < ops->len; i++) {
      const PassOp *op = &g_array_index(ops, PassOp, i);
      double asked_s = op->op.counted && quiet_s > 0 ? op->share * op->op.collective.quiets * quiet_s : 0;
      device_s = asked_s > 0 ? MAX(device_s, host_s) + asked_s : device_s;
      host_s = op->op.counted ? MAX(host_s, device_s) : host_s;
      host_s += graph && op->op.part & RECORDED_USUAL ? 0 : op->share * op_operations(&op->op, framework) * operation_s;
      device_s = MAX(device_s, host_s) + op->seconds - asked_s;
    }
  }
  return (device_s - warm_s) / 10;
}

/* Where experts take what comes, the host waits for their rows to be counted, and the device for the host behind that:
 * as long as the passes of many layers take, run one by one. A host that is fast enough costs nothing. */
START_TEST(the_host_waits_for_counts)
{
  static const double operations_s[] = { 0, 1e-6, 10e-6, 30e-6, 100e-6 };
  Planned f;

  setup(&f);
  f.model->specs[f.model->layers[1]].ffn.width = 8192;
  for (int graph = GRAPH_NONE; graph <= GRAPH_PARTIAL; graph++)
    for (gsize i = 0; i < G_N_ELEMENTS(operations_s); i++) {
      f.plan.graph = graph;
      f.plan.recompute = graph ? RECOMPUTE_SELECTIVE : RECOMPUTE_FULL;
      f.framework->operation_s = operations_s[i];
      f.framework->issue_s = 0;
      planned_accept(&f);
      g_autoptr(PriceTable) prices = price_table_described(f.model, LAYOUT(&f.plan), f.cluster);
      const LayerPrice *p = &prices->layers[f.model->layers[1]];
      for (int pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass += PASS_BACKWARD - PASS_FORWARD) {
        double expected = pass_in_a_row(p->ops->pass[pass], operations_s[i], f.framework, graph, 0);
        ck_assert_double_eq_tol(p->pass[pass].seconds, expected, 1e-12);
      }
    }
  PassPrice asks = pass_of(&f, PASS_FORWARD);
  f.plan.expert_capacity = 1;
  f.plan.expert_padded = TRUE;
  PassPrice knows = pass_of(&f, PASS_FORWARD);
  ck_assert_double_eq_tol(asks.host_s, knows.host_s, 1e-12);
  ck_assert_double_gt(asks.seconds, 1.01 * knows.seconds);
  planned_clear(&f);
}
END_TEST

/* A thread that says 288 times a node that all is done is waited for with the counts, in each forward; what goes back
 * takes the places that were found, so the thread is asked, but the host goes on. */
START_TEST(the_host_waits_for_quiet_threads)
{
  Planned f;

  planned_init(&f, fixture_experts(1, 512, 8, 16, 1024, 1000), fixture_cluster("dgx-h100", 16), "nemo-2026-04");
  planned_spread(&f, 1);
  f.plan.ep = 16;
  f.plan.dispatch = DISPATCH_FLEX;
  f.plan.recompute = RECOMPUTE_FULL;
  f.framework->flex_quiets = 288;
  f.cluster->tiers[f.cluster->network_tier].link.proxy_post_s = 2e-6;
  for (int us = 0; us <= 300; us += 20) {
    f.framework->operation_s = 1e-6 * us;
    f.framework->issue_s = 0;
    g_autoptr(PriceTable) prices = price_table_described(f.model, LAYOUT(&f.plan), f.cluster);
    const LayerPrice *p = &prices->layers[f.model->layers[1]];
    for (int pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass += PASS_BACKWARD - PASS_FORWARD)
      ck_assert_double_eq_tol(p->pass[pass].seconds,
                              pass_in_a_row(p->ops->pass[pass], 1e-6 * us, f.framework, FALSE, 2e-6), 1e-12);
  }
  planned_clear(&f);
}
END_TEST

START_TEST(rules_of_exchanges)
{
  Planned f;

  setup(&f);
  f.plan.overlap.exchange = f.plan.overlap.experts = TRUE;
  static const char elsewhere[] = "plan: overlap: exchange: true: expected false but where nemo-2026-04 sends tokens to "
                                  "experts on other ranks, not by allgather, and without overlap of shared experts";
  planned_refuse(&f, RULE_EXCHANGE, elsewhere);
  f.plan.overlap.experts = FALSE;
  f.plan.dispatch = DISPATCH_GATHER;
  planned_refuse(&f, RULE_EXCHANGE, elsewhere);
  f.plan.dispatch = DISPATCH_ALL_TO_ALL;
  for (int full = 0; full < 2; full++) {
    f.plan.recompute = full ? RECOMPUTE_FULL : RECOMPUTE_SELECTIVE;
    f.plan.scope.modules = full ? 0 : 1u << MODULE_MOE;
    planned_refuse(&f, RULE_EXCHANGE, "plan: overlap: exchange: true: expected false where backwards exchange again what "
                                      "they recompute, which nemo-2026-04 cannot do beside other passes");
    f.framework->exchange_recompute = TRUE;
    planned_accept(&f);
    f.framework->exchange_recompute = FALSE;
  }
  f.plan.recompute = RECOMPUTE_NONE;
  f.model->mtp = 2;
  planned_refuse(&f, RULE_EXCHANGE, "plan: overlap: exchange: true: expected false, or a model with at most 1 module for "
                                    "multi-token prediction, it has 2");
  f.model->mtp = 0;
  LinearAttention *linear = &f.model->specs[f.model->layers[1]].linear;
  *linear = (LinearAttention) { .kind = LINEAR_MAMBA2, .heads = 8, .head_dim = 64, .groups = 1, .state = 16, .chunk = 64 };
  planned_refuse(&f, RULE_EXCHANGE, "plan: overlap: exchange: true: expected false, nemo-2026-04 runs passes of models with "
                                    "Mamba, or of attention and MLPs as layers of their own, one after the other");
  *linear = (LinearAttention) { 0 };
  f.plan.pp = 2;
  f.plan.dp = f.plan.ep = 8;
  planned_refuse(&f, RULE_EXCHANGE, "plan: overlap: exchange: true: expected virtual_pipeline_model_parallel_size above "
                                    "1 with a pipeline, which runs a forward beside a backward");
  f.plan.pp = 1;
  f.plan.dp = f.plan.ep = 16;
  planned_accept(&f);
  planned_clear(&f);
}
END_TEST

/* Of Transformer Engine's grouped products those that read numbers of rows on the device: before and after its 2.17. */
START_TEST(formats_of_graphs)
{
  static const struct {
    const char *framework, *cluster;
    DType format;
    Fp8Recipe recipe;
    const char *refused; /* the format, NULL: legal */
  } cases[] = {
    { "nemo-2026-06", "gb200-nvl72", DTYPE_FP8, FP8_MXFP8, NULL },
    { "nemo-2026-06", "hgx-b200", DTYPE_BF16, FP8_NONE, NULL },
    { "nemo-2026-06", "hgx-b200", DTYPE_FP16, FP8_NONE, NULL },
    { "nemo-2026-06", "hgx-b200", DTYPE_FP8, FP8_CURRENT, "current" },
    { "nemo-2026-06", "hgx-b200", DTYPE_FP8, FP8_NONE, "delayed" },
    { "nemo-2026-06", "hgx-b200", DTYPE_FP4, FP8_NONE, "nvfp4" },
    { "nemo-2026-06", "dgx-h100", DTYPE_BF16, FP8_NONE, "bf16" },
    { "nemo-2026-08", "hgx-b200", DTYPE_FP4, FP8_NONE, NULL },
    { "nemo-2026-08", "hgx-b200", DTYPE_FP32, FP8_NONE, "fp32" },
    { "nemo-2026-08", "dgx-h100", DTYPE_BF16, FP8_NONE, NULL },
    { "nemo-2026-08", "dgx-h100", DTYPE_FP8, FP8_CURRENT, "current" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    planned_init(&f, fixture_experts(2, 512, 8, 64, 256, 1000), fixture_cluster(cases[i].cluster, 8), cases[i].framework);
    planned_spread(&f, 1);
    f.plan.ep = 8;
    f.plan.dispatch = DISPATCH_HYBRID;
    f.plan.graph = GRAPH_FULL;
    plan_set_format(&f.plan, cases[i].format);
    f.plan.fp8_recipe = cases[i].recipe;
    g_autofree char *message =
      g_strdup_printf("plan: cuda_graph: \"full\": expected a format for which the kernels of all experts read numbers of "
                      "rows on the device, as in %s they do not for %s on %s", cases[i].framework, cases[i].refused,
                      f.cluster->device.name);
    if (cases[i].refused)
      planned_refuse(&f, RULE_GRAPH, message);
    else
      planned_accept(&f);
    planned_clear(&f);
  }
}
END_TEST

/* A step is recorded whole where all shapes are known before it, or rows that only the device counts stay there. */
START_TEST(rules_of_graphs)
{
  static const char stays[] = "plan: cuda_graph: \"full\": expected experts padded to a capacity, or whole ones on "
                              "other ranks by hybridep and fewer than 1000 micro-batches, the host knows no number of rows while a recorded step runs";
  Planned f;

  setup(&f);
  f.plan.graph = GRAPH_FULL;
  planned_refuse(&f, RULE_GRAPH, "plan: cuda_graph: \"full\": expected experts padded to a capacity, the host knows no "
                                 "number of rows while a recorded step runs");
  f.plan.dispatch = DISPATCH_HYBRID;
  f.framework->paged_stash = f.framework->stash_elsewhere = TRUE;
  f.cluster->device.kernels.dispatch.s_per_byte = 1e-11;
  planned_accept(&f);
  f.plan.recompute = RECOMPUTE_FULL;
  planned_accept(&f);
  f.plan.dispatch = DISPATCH_FLEX;
  planned_refuse(&f, RULE_GRAPH, stays);
  f.plan.dispatch = DISPATCH_HYBRID;
  f.plan.global_batch = 16 * 1000;
  planned_refuse(&f, RULE_GRAPH, stays);
  f.plan.global_batch = 16 * 999;
  planned_accept(&f);
  f.plan.global_batch = 16;
  f.plan.tp = 2; /* ranks share experts */
  f.plan.dp = f.plan.ep = 8;
  f.plan.sequence_parallel = TRUE;
  planned_refuse(&f, RULE_GRAPH, stays);
  f.plan.etp = 1;
  planned_accept(&f);
  f.plan.tp = 1;
  f.plan.dp = f.plan.ep = 16;
  f.plan.etp = f.plan.sequence_parallel = 0;
  f.plan.dispatch = DISPATCH_HYBRID;
  f.plan.ep = 1; /* nothing is sent */
  planned_refuse(&f, RULE_GRAPH, stays);
  f.plan.expert_capacity = 1;
  f.plan.expert_padded = TRUE;
  planned_accept(&f);
  f.plan.graph = GRAPH_PARTIAL;
  planned_refuse(&f, RULE_GRAPH, "plan: cuda_graph: \"partial\": expected none or full where recompute_granularity is "
                                 "full: what is recorded of a layer cannot be made again with the rest of it");
  f.plan.recompute = RECOMPUTE_SELECTIVE;
  planned_accept(&f);
  f.plan.ep = 16;
  f.plan.overlap.exchange = TRUE;
  planned_accept(&f);
  f.model->specs[1].attention.qkv_bias = TRUE;
  planned_refuse(&f, RULE_GRAPH, "plan: cuda_graph: \"partial\": expected none, full or modules without attn where the exchange "
                                 "of tokens overlaps and attention has biases: nemo-2026-04 cannot record what then delays "
                                 "their gradients");
  f.plan.graph_modules = 1u << RECORDED_MOE_ROUTER;
  planned_accept(&f);
  f.plan.graph_modules = 0;
  f.plan.overlap.exchange = FALSE;
  planned_accept(&f);
  f.framework->graphs = 1u << GRAPH_NONE;
  planned_refuse(&f, RULE_GRAPH, "plan: cuda_graph: \"partial\": expected one that nemo-2026-04 runs");
  planned_clear(&f);
}
END_TEST

/* Operations of a block's pass that only routers' modules record. */
static double routers_operations(const Planned *f, gboolean backward)
{
  const guint routers = 1u << RECORDED_MOE_ROUTER | 1u << RECORDED_MOE_PREPROCESS;
  LayerWork work;
  double sum = 0;

  layer_work_init(&work, f->model, model_layer(f->model, 1), PASSES(&f->plan), f->cluster);
  const GArray *ops = backward ? work.backward : work.forward;
  for (guint i = 0; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, Op, i);
    sum += op->part & routers ? op_operations(op, f->framework) : 0;
  }
  layer_work_clear(&work);
  return sum;
}

/* Parts that are recorded have no router where whole experts are made again: the host then issues it and the norm before
 * it, in forwards and backwards. */
START_TEST(routers_of_remade_experts_are_issued)
{
  Planned f;

  setup(&f);
  f.plan.recompute = RECOMPUTE_SELECTIVE;
  for (int pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass += PASS_BACKWARD - PASS_FORWARD) {
    double left_s = routers_operations(&f, pass == PASS_BACKWARD) * f.framework->operation_s;
    double spared[2];
    for (int again = 0; again < 2; again++) {
      f.plan.scope.modules = 1u << (again ? MODULE_MOE : MODULE_MOE_ACT);
      f.plan.graph = GRAPH_NONE;
      PassPrice none = pass_of(&f, pass);
      f.plan.graph = GRAPH_PARTIAL;
      spared[again] = none.host_s - pass_of(&f, pass).host_s;
    }
    ck_assert_double_gt(left_s, 20 * f.framework->operation_s);
    ck_assert_double_eq_tol(spared[0], spared[1] + left_s, 1e-9 * spared[0]);
    ck_assert_double_gt(spared[1], 0);
  }
  planned_clear(&f);
}
END_TEST

/* Shared experts are recorded with the router, unless they run beside the exchange; routed ones never are, in any pass,
 * nor what follows them. */
START_TEST(shared_experts_are_recorded)
{
  Planned f;

  setup(&f);
  f.model->specs[f.model->layers[1]].ffn.shared_width = 512;
  f.plan.graph = GRAPH_PARTIAL;
  for (int beside = 0; beside < 2; beside++) {
    int shared = 0, routed = 0;
    LayerWork work;
    f.plan.overlap.experts = beside;
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    const GArray *const passes[] = { work.forward, work.backward };
    for (int p = 0; p < 2; p++)
      for (guint o = 0; o < passes[p]->len; o++) {
        const Op *op = &g_array_index(passes[p], Op, o);
        shared += g_str_has_prefix(op->name, "shared ");
        routed += g_str_has_prefix(op->name, "experts ");
        ck_assert(!g_str_has_prefix(op->name, "shared ") || op_is_recorded(op, PASSES(&f.plan)) == !beside);
        ck_assert(!g_str_has_prefix(op->name, "experts ") || !op_is_recorded(op, PASSES(&f.plan)));
      }
    ck_assert(!op_is_recorded(&g_array_index(work.forward, Op, work.forward->len - 1), PASSES(&f.plan)));
    ck_assert_int_eq(shared, 6);
    ck_assert_int_eq(routed, 6);
    layer_work_clear(&work);
  }
  planned_clear(&f);
}
END_TEST

/* Casts of a rank's experts: kernels of each (with scales of the tensor: zero, largest value, scale, cast), all in one
 * with scales of earlier steps, or where the framework groups them: in mxfp8, in steps that are one graph. The host makes
 * each expert's tensors and launches its first kernel in one operation, the first expert's as part of the product; each
 * further kernel is a launch. */
START_TEST(casts_of_experts)
{
  static const struct {
    Fp8Recipe recipe;
    gboolean grouped;
    CudaGraph graph;
    double kernels, operations;
  } casts[] = { { FP8_CURRENT, FALSE, GRAPH_NONE, 16, 3 + 12 * 0.25 }, { FP8_BLOCKWISE, FALSE, GRAPH_NONE, 4, 3 },
                { FP8_MXFP8, FALSE, GRAPH_FULL, 4, 3 }, { FP8_MXFP8, TRUE, GRAPH_FULL, 1, 0 },
                { FP8_MXFP8, TRUE, GRAPH_PARTIAL, 4, 3 }, { FP8_CURRENT, TRUE, GRAPH_FULL, 16, 3 + 12 * 0.25 } };
  Planned f;

  setup(&f);
  f.plan.ep = 4; /* four experts a rank */
  f.framework->operation_s = 40e-6;
  f.framework->issue_s = 10e-6;
  for (gsize i = 0; i < G_N_ELEMENTS(casts); i++) {
    gboolean found = FALSE;
    LayerWork work;
    plan_set_format(&f.plan, DTYPE_FP8);
    f.plan.fp8_recipe = casts[i].recipe;
    f.framework->grouped_kernels = casts[i].grouped;
    f.plan.graph = casts[i].graph;
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    for (guint o = 1; o < work.forward->len; o++) {
      const Op *op = &g_array_index(work.forward, Op, o), *cast = op - 1;
      if (!g_str_equal(op->name, "experts up"))
        continue;
      found = TRUE;
      ck_assert_str_eq(cast->name, "cast");
      ck_assert_double_eq(cast->memory.kernels, casts[i].kernels);
      ck_assert_double_eq(op_operations(cast, f.framework), casts[i].operations);
      ck_assert_double_eq(op->matmul.loops, casts[i].kernels == 1 ? 0 : 4);
    }
    ck_assert(found);
    layer_work_clear(&work);
  }
  planned_clear(&f);
}
END_TEST

/* Attention is in 8 bits only where the framework says so, in mxfp8, in steps that are one graph. */
START_TEST(attention_in_8_bits)
{
  static const struct {
    gboolean narrow;
    DType format;
    Fp8Recipe recipe;
    CudaGraph graph;
    DType attention;
  } cases[] = { { TRUE, DTYPE_FP8, FP8_MXFP8, GRAPH_FULL, DTYPE_FP8 },
                { FALSE, DTYPE_FP8, FP8_MXFP8, GRAPH_FULL, DTYPE_BF16 },
                { TRUE, DTYPE_FP8, FP8_MXFP8, GRAPH_PARTIAL, DTYPE_BF16 },
                { TRUE, DTYPE_FP8, FP8_CURRENT, GRAPH_FULL, DTYPE_BF16 },
                { TRUE, DTYPE_FP4, FP8_NONE, GRAPH_FULL, DTYPE_BF16 },
                { TRUE, DTYPE_BF16, FP8_NONE, GRAPH_FULL, DTYPE_BF16 } };
  Planned f;

  setup(&f);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    int found = 0;
    LayerWork work;
    plan_set_format(&f.plan, cases[i].format);
    f.plan.fp8_recipe = cases[i].recipe;
    f.plan.graph = cases[i].graph;
    f.framework->narrow_attention = cases[i].narrow;
    layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
    const GArray *const passes[] = { work.forward, work.backward };
    for (int p = 0; p < 2; p++)
      for (guint o = 0; o < passes[p]->len; o++) {
        const Op *op = &g_array_index(passes[p], Op, o);
        if (op->kind != OP_ATTENTION)
          continue;
        found++;
        ck_assert_int_eq(op->attention.dtype, cases[i].attention);
      }
    ck_assert_int_eq(found, 2);
    layer_work_clear(&work);
  }
  planned_clear(&f);
}
END_TEST

/* Rows over multiprocessors, by hand; where the links take longer, they count; HybridEP's calls take longer than its
 * kernels. */
START_TEST(rows_are_sent_by_multiprocessors)
{
  const DispatchModel model = { .base_s = 1e-5, .row_s = 1e-7, .s_per_byte = 1e-10, .hybrid_slowdown = 1.5 };
  const DispatchModel unknown = { .hybrid_slowdown = 1 };
  Planned f;

  ck_assert_double_eq_tol(dispatch_s(&model, 1000, 1000, 10), 1e-5 + 1000 * 2e-7 / 10, 1e-15);
  ck_assert_double_eq(dispatch_s(&unknown, 1000, 1000, 10), 0);
  setup(&f);
  Op op = { .kind = OP_COLLECTIVE,
            .collective = { .what = COLLECTIVE_ALL_TO_ALL, .bytes = 1e6, .axis = AXIS_EXPERT,
                            .group = group_shape(f.cluster, 8, 1) } };
  double link = op_s(&op, PASSES(&f.plan), f.cluster), call = f.framework->collective_s;
  f.cluster->device.kernels.dispatch = model;
  ck_assert_double_eq(op_s(&op, PASSES(&f.plan), f.cluster), link); /* NCCL's */
  op.collective.rows = 100;
  op.collective.row_bytes = 1e4;
  op.collective.sms = 20;
  ck_assert_double_eq(op_s(&op, PASSES(&f.plan), f.cluster), link);
  op.collective.rows = 1e6;
  ck_assert_double_eq_tol(op_s(&op, PASSES(&f.plan), f.cluster), dispatch_s(&model, 1e6, 1e4, 20) + call, 1e-12);
  op.collective.rows = 0;
  op.collective.hybrid = TRUE;
  op.collective.copied = 1;
  ck_assert_double_eq_tol(op_s(&op, PASSES(&f.plan), f.cluster), 1.5 * (link - call) + call, 1e-12);
  op.collective.copied = 0.5; /* the rest is sent and not copied */
  ck_assert_double_eq_tol(op_s(&op, PASSES(&f.plan), f.cluster), 1.25 * (link - call) + call, 1e-12);
  planned_clear(&f);
}
END_TEST

/* Bytes of the cast before the product of this name, 0 without one. */
static double cast_before(const GArray *ops, const char *name)
{
  for (guint i = 1; i < ops->len; i++)
    if (g_str_equal(g_array_index(ops, Op, i).name, name)) {
      const Op *before = &g_array_index(ops, Op, i - 1);
      return g_str_equal(before->name, "cast") ? before->memory.bytes : 0;
    }
  ck_abort_msg("%s", name);
  return 0;
}

/* With scales of earlier steps a norm writes fp8; what experts' rows and activations are is cast, 4 bytes a value, and
 * with them the 7.5 rows that fill each expert's up. */
START_TEST(casts_with_scales_of_earlier_steps)
{
  Planned f;
  LayerWork work;

  setup(&f);
  plan_set_format(&f.plan, DTYPE_FP8);
  f.plan.fp8_recipe = FP8_DELAYED;
  f.plan.ep = 1;
  const FeedForward *ffn = &model_layer(f.model, 1)->ffn;
  double rows = op_tokens(PASSES(&f.plan)) * ffn->experts_per_token + 7.5 * ffn->experts;
  layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
  ck_assert_double_eq(cast_before(work.forward, "qkv"), 0);
  ck_assert_double_eq(cast_before(work.forward, "experts up"), 4 * rows * 512);
  ck_assert_double_eq(cast_before(work.forward, "experts down"), 4 * rows * ffn->width);
  layer_work_clear(&work);
  planned_clear(&f);
}
END_TEST

TEST_MAIN("host", hosts_of_servers, rows_are_sent_by_multiprocessors, operations_are_counted, graphs_spare_the_host,
          the_host_waits_for_counts, the_host_waits_for_quiet_threads, formats_of_graphs, rules_of_graphs,
          routers_of_remade_experts_are_issued, shared_experts_are_recorded, rules_of_exchanges,
          attention_in_8_bits, casts_of_experts, casts_with_scales_of_earlier_steps)
