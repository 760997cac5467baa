/* Clusters of several node types: tiers, placement, splits, search; against brute force. */
#include "accuracy/run_kind.h"
#include "main.h"
#include "program/balance.h"
#include "program_check.h"
#include "report/compare.h"
#include "report/report.h"
#include "search/balanced.h"
#include "search/least_work.h"
#include "search_instance.h"
#include "sim/simulate.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#define SERVER(gpu, gpus, link, rate)                                                                                  \
  "{\"name\": \"s\", \"gpu\": \"" gpu "\", \"devices_per_node\": " gpus ", \"tiers\": [{\"name\": \"nvlink\", \"link\": \"" link \
  "\", \"gb_per_s\": " rate ", \"source\": \"default: test\"}], \"source\": \"default: test\"}"

#define NETWORK(gbit)                                                                                                  \
  "{\"nics_per_node\": 1, \"nic_gbit_per_s\": " gbit ", \"link\": \"infiniband-hdr\", \"source\": \"default: test\"}"

/* 1 node of 4 A100 and 2 of 4 V100. */
static const char small_text[] =
    "{\"name\": \"small\", \"node_types\": ["
    "{\"name\": \"fast\", \"nodes\": 1, \"server\": " SERVER("a100-sxm4-40gb", "4", "nvlink3-switch", "300")
    ", \"network\": " NETWORK("200") ", \"source\": \"default: test\"},"
    "{\"name\": \"slow\", \"nodes\": 2, \"server\": " SERVER("v100-sxm2-16gb", "4", "nvlink2-mesh", "150")
    ", \"network\": " NETWORK("100") ", \"source\": \"default: test\"}]}";

static Cluster *mixed_cluster(void)
{
  GError *error = NULL;
  Cluster *c = cluster_parse(small_text, strlen(small_text), "small", &error);

  ck_assert_msg(c != NULL, "%s", error ? error->message : "");
  return c;
}

START_TEST(what_joins_types_is_the_slower_network)
{
  g_autoptr(Cluster) c = mixed_cluster();

  ck_assert_int_eq(c->n_types, 2);
  ck_assert_int_eq(c->devices, 12);
  ck_assert_int_eq(c->nodes, 3);
  ck_assert_str_eq(c->device.name, c->types[0]->device.name);
  ck_assert_double_eq(c->tiers[c->network_tier].bytes_per_s, 100e9 / 8 / 4);
  ck_assert_double_eq(c->types[0]->tiers[1].bytes_per_s, 200e9 / 8 / 4);
  ck_assert_double_eq(cluster_peak_flops_per_s(c, DTYPE_FP16), (4 * 312e12 + 8 * 125e12) / 12);
  GError *error = NULL;
  ck_assert(!cluster_resize(c, 8, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "expected the 12 of its node types"));
  g_error_free(error);
}
END_TEST

static void setup(Instance *in, int layers, int hidden, int batch)
{
  in->model = fixture_model(layers, hidden, 8, hidden / 2, 2048);
  in->model->position_rows = 0;
  in->cluster = mixed_cluster();
  in->framework = fixture_framework("megatron-core");
  in->base = plan_default(in->model, in->framework);
  plan_set_format(&in->base, DTYPE_FP16);
  in->base.gpus = in->cluster->devices;
  in->base.global_batch = batch;
  in->options = (SearchOptions) { .base = &in->base, .fixed = fixed_none(), .top = 1, .threads = 1, .least = TRUE };
}

/* A pipeline of 3 or 6 stages on the small cluster, the slow nodes first if asked for. */
static Plan pipeline(const Instance *in, int pp, gboolean slow_first)
{
  Plan p = in->base;

  p.pp = pp;
  p.dp = 12 / pp;
  p.types[slow_first] = g_intern_string("fast");
  p.types[!slow_first] = g_intern_string("slow");
  p.balanced = TRUE;
  return p;
}

START_TEST(stages_run_on_their_devices)
{
  Instance in;
  setup(&in, 9, 512, 24);
  Plan p = pipeline(&in, 6, TRUE);

  ck_assert(balance_plan(in.model, in.cluster, &p, NULL));
  ck_assert_int_eq(plan_check(&p, in.model, in.cluster, NULL), RULE_NONE);
  for (int rank = 0; rank < 6; rank++)
    ck_assert_str_eq(mesh_site(MESH(&p), in.cluster, rank)->name, rank < 4 ? "slow" : "fast");
  g_autoptr(PriceTable) prices = price_table_new(in.model, LAYOUT(&p), in.cluster);
  g_autoptr(Program) program = program_new(in.model, LAYOUT(&p), in.cluster, prices);
  ck_assert(program_check(program, NULL));
  for (int rank = 0; rank < 6; rank++)
    ck_assert_double_eq(program->rows[rank].capacity_bytes, mesh_site(MESH(&p), in.cluster, rank)->device.memory_bytes);
  /* each stage's forward takes what its blocks take on its devices */
  for (guint i = 0; i < program->tasks->len; i++) {
    const Task *t = &g_array_index(program->tasks, Task, i);
    const Segment *s = &g_array_index(program->segments, Segment, t->segment);
    double seconds = 0;
    if (t->kind != TASK_PASS || t->pass != PASS_FORWARD)
      continue;
    for (int layer = s->first_layer; layer < s->first_layer + s->n_layers; layer++)
      seconds += price_of_layer(prices, in.model, t->row < 4, layer)->pass[PASS_FORWARD].seconds;
    ck_assert_double_eq_tol(s->seconds, seconds, 1e-12);
  }
  instance_clear(&in);
}
END_TEST

/* Two pipeline ranks of one type speak over its own links, others over the slower network. */
START_TEST(pairs_cross_the_network_of_the_slower)
{
  Instance in;
  GroupShape pair;
  setup(&in, 9, 512, 24);
  Plan p = pipeline(&in, 6, FALSE);

  ck_assert_ptr_eq(mesh_pair_site(MESH(&p), in.cluster, 0, 1, &pair), in.cluster->types[0]);
  ck_assert_int_eq(pair.per_domain[0], 2); /* the 4 of a node are two stages */
  ck_assert_ptr_eq(mesh_pair_site(MESH(&p), in.cluster, 1, 2, &pair), in.cluster);
  ck_assert_int_eq(pair.per_domain[0], 1);
  ck_assert_ptr_eq(mesh_pair_site(MESH(&p), in.cluster, 3, 4, &pair), in.cluster->types[1]);
  ck_assert_int_eq(pair.per_domain[0], 1);
  instance_clear(&in);
}
END_TEST

/* Whether a layer's forward attends by a fused kernel on the nodes of a type. */
static gboolean attends_fused(const Instance *in, const Plan *p, int type)
{
  g_autoptr(PriceTable) prices = price_table_described(in->model, LAYOUT(p), in->cluster);
  const LayerPrice *block = price_of_layer(prices, in->model, type, 1);
  gboolean fused = FALSE, scores = FALSE;

  for (guint i = 0; i < block->ops->pass[PASS_FORWARD]->len; i++) {
    const Op *op = &g_array_index(block->ops->pass[PASS_FORWARD], PassOp, i).op;
    fused |= op->kind == OP_ATTENTION;
    scores |= g_strcmp0(op->name, "scores") == 0;
  }
  ck_assert_int_ne(fused, scores);
  return fused;
}

/* FlashAttention-2 does not run on V100: stages there attend as the framework does without it, and keep what that does. */
START_TEST(each_type_attends_by_its_own_kernel)
{
  static const struct {
    const char *framework;
    AttentionKernel slow;
  } known[] = { { "megatron-core", ATTENTION_UNFUSED }, { "deepspeed", ATTENTION_EFFICIENT } };
  Instance in;
  setup(&in, 9, 512, 24);
  Plan p = pipeline(&in, 3, FALSE);
  g_autoptr(Framework) framework = fixture_framework(known[_i].framework);
  gboolean fused = known[_i].slow != ATTENTION_UNFUSED;
  AttentionKernel kernel;

  p.framework = framework;
  p.context = framework->context_first;
  ck_assert(!framework_attention_on(framework, p.attention, in.cluster, &kernel));
  ck_assert_int_eq(kernel, ATTENTION_FLASH);
  ck_assert_int_eq(framework_attention_named(framework, p.attention, in.cluster), p.attention);
  ck_assert(framework_attention_on(framework, p.attention, in.cluster->types[1], &kernel));
  ck_assert_int_eq(framework_attention_named(framework, p.attention, in.cluster->types[1]), kernel);
  ck_assert_int_eq(kernel, known[_i].slow);
  const RunKind kind = run_kind(in.model, LAYOUT(&p), in.cluster->types[1], &(Metrics) { 0 });
  ck_assert_str_eq(kind.names[KIND_ATTENTION], attention_kernel_names[kernel]);
  ck_assert(attends_fused(&in, &p, 0));
  ck_assert_int_eq(attends_fused(&in, &p, 1), fused);
  g_autoptr(PriceTable) prices = price_table_new(in.model, LAYOUT(&p), in.cluster);
  double fast = price_of_layer(prices, in.model, 0, 1)->saved_bytes;
  double slow = price_of_layer(prices, in.model, 1, 1)->saved_bytes;
  double rows = 8 * 256; /* heads and queries: keys in 16 bits, dropped and with a mask, for a sum in fp32 */
  ck_assert_double_eq_tol(slow - fast, fused ? 0 : rows * (256 * (2 + 3) - 4), 1);
  /* separate kernels know no parts of a sequence */
  p.cp = 2;
  p.dp = 2;
  ck_assert_int_eq(plan_check(&p, in.model, in.cluster, NULL) == RULE_NONE, fused);
  p.attention = ATTENTION_UNFUSED;
  ck_assert(!attends_fused(&in, &p, 0));
  instance_clear(&in);
}
END_TEST

/* What fits a stage is what its own devices keep: scores where they attend unfused. The least that layers keep is that
 * of any type. */
START_TEST(splits_go_by_what_each_type_keeps)
{
  const LayerSplit even = { .stages = 3, .layers = { 4, 4, 4 } };
  Instance in;
  Metrics m;
  setup(&in, 12, 512, 96);
  Plan p = pipeline(&in, 3, TRUE);

  p.balanced = FALSE;
  p.micro_batch = 8;
  g_autoptr(PriceTable) prices = price_table_new(in.model, LAYOUT(&p), in.cluster);
  g_autoptr(Trace) trace = simulate_plan(in.model, in.cluster, &p);
  trace_metrics(trace, &m);
  g_autoptr(PriceCache) cache = price_cache_new(in.model, in.cluster);
  LeastWork least = price_cache_least(cache, PASSES(&p), FALSE);
  double fused = 0;
  for (int i = 0; i < in.model->n_layers; i++)
    fused += price_of_layer(prices, in.model, 0, i)->saved_bytes;
  ck_assert_double_eq_tol(least.saved_bytes, fused, 1);
  for (int type = 0; type < 2; type++) {
    double *memory = &in.cluster->types[type]->device.memory_bytes, whole = *memory;
    ck_assert(balance_fits(in.model, in.cluster, LAYOUT(&p), prices, &even));
    *memory = 0.95 * m.peak_memory_bytes;
    ck_assert_int_eq(balance_fits(in.model, in.cluster, LAYOUT(&p), prices, &even), type == 0);
    *memory = whole;
  }
  instance_clear(&in);
}
END_TEST

START_TEST(stages_over_two_types_are_refused)
{
  Instance in;
  GError *error = NULL;
  setup(&in, 8, 512, 24);
  Plan p = in.base;

  p.dp = 12;
  ck_assert_int_eq(plan_check(&p, in.model, in.cluster, &error), RULE_NODE_TYPES);
  ck_assert_ptr_nonnull(strstr(error->message, "devices that work in step are alike"));
  g_clear_error(&error);
  p = pipeline(&in, 3, FALSE);
  p.types[1] = g_intern_string("fast");
  ck_assert_int_eq(plan_check(&p, in.model, in.cluster, &error), RULE_NODE_TYPES);
  ck_assert_ptr_nonnull(strstr(error->message, "\"slow\" is missing"));
  g_clear_error(&error);
  instance_clear(&in);
}
END_TEST

/* Plans whose weights are where there is much memory need little of the rest. */
START_TEST(bounds_hold_beside_much_memory)
{
  Instance in;

  setup(&in, 6, 1024 + 1024 * _i, 12);
  in.cluster->types[0]->device.memory_bytes = in.cluster->device.memory_bytes = 4e9;
  in.cluster->types[1]->device.memory_bytes = 80e9;
  ck_assert_uint_gt(instance_check(&in), 0);
  instance_clear(&in);
}
END_TEST

START_TEST(search_agrees_with_brute_force)
{
  Instance in;

  setup(&in, 5 + _i, 512, 12);
  /* little memory on one of the types, or on both */
  in.cluster->types[_i % 2]->device.memory_bytes = 2.1e9 + 1e8 * _i;
  in.cluster->types[1]->device.memory_bytes = MIN(3e9, in.cluster->types[1]->device.memory_bytes);
  in.cluster->device.memory_bytes = in.cluster->types[0]->device.memory_bytes;
  if (_i == 2)
    in.options.fixed.value[KEY_SCHEDULE] = schedule_index(schedule_find("dualpipe"));
  if (_i == 1)
    cluster_keep_free(in.cluster, 0.03);
  ck_assert_uint_gt(instance_check(&in), 0);
  instance_clear(&in);
}
END_TEST

typedef struct {
  const Instance *in;
  double best;
} AllSplits;

static void try_splits(AllSplits *all, Plan *p, int stage, int left)
{
  if (stage == p->pp - 1) {
    Metrics m;
    p->split.layers[stage] = left;
    if (plan_check(p, all->in->model, all->in->cluster, NULL) != RULE_NONE)
      return;
    g_autoptr(Trace) trace = simulate_plan(all->in->model, all->in->cluster, p);
    trace_metrics(trace, &m);
    if (m.peak_memory_bytes <= m.capacity_bytes)
      all->best = MIN(all->best, m.iteration_s);
    return;
  }
  for (int n = 0; n <= left; n++) {
    p->split.layers[stage] = n;
    try_splits(all, p, stage + 1, left - n);
  }
}

/* Of all orders and all splits, simulated, the planner's is the best within 1 %. It goes by the
 * pipeline phase: with half as many micro-batches the reduction of gradients, which it leaves out,
 * costs it 2.4 %. */
START_TEST(no_other_placement_is_better)
{
  Instance in;
  double best = INFINITY, found = INFINITY;

  setup(&in, 14, 2048, 48 + 24 * _i);
  for (int slow_first = 0; slow_first < 2; slow_first++) {
    Plan p = pipeline(&in, 3, slow_first);
    AllSplits all = { &in, INFINITY };
    Metrics m;
    ck_assert(balance_plan(in.model, in.cluster, &p, NULL));
    g_autoptr(Trace) trace = simulate_plan(in.model, in.cluster, &p);
    trace_metrics(trace, &m);
    found = MIN(found, m.iteration_s);
    p.split.stages = 3;
    try_splits(&all, &p, 0, 14);
    best = MIN(best, all.best);
  }
  ck_assert_double_le(found, 1.01 * best);
  instance_clear(&in);
}
END_TEST

static char *taken(const char *folder, const char *picture)
{
  static const char *const formats[] = { "png", "svg" };
  char *svg = NULL;

  for (int i = 0; i < 2; i++) {
    g_autofree char *path = g_strdup_printf("%s/%s.%s", folder, picture, formats[i]);
    g_free(svg);
    svg = NULL;
    if (g_file_get_contents(path, &svg, NULL, NULL))
      g_remove(path);
  }
  ck_assert_ptr_nonnull(svg);
  return svg;
}

/* Pictures name both types of devices, and what each of them holds. */
START_TEST(pictures_name_all_devices)
{
  static const char *const titles[] = { "timeline", "memory", "compare" };
  g_autofree char *gnuplot = g_find_program_in_path("gnuplot"), *folder = test_directory();
  Instance in;

  setup(&in, 14, 4096, 24);
  Plan p = pipeline(&in, 3, FALSE);
  ck_assert(balance_plan(in.model, in.cluster, &p, NULL));
  g_autoptr(Trace) trace = simulate_plan(in.model, in.cluster, &p);
  Result r = result_of(in.model, in.cluster, &p, trace);
  const Compared plans[] = { { "one", &r, trace }, { "two", &r, trace } };
  if (gnuplot) {
    ck_assert(report_plots(&r, trace, folder, 0, NULL) && report_compare_plot(plans, 2, folder, NULL));
    for (int i = 0; i < 3; i++) {
      g_autofree char *svg = taken(folder, titles[i]);
      ck_assert_msg(strstr(svg, i == 2 ? "on a100-sxm4-40gb and v100-sxm2-16gb: " :
                                         "on 4 × a100-sxm4-40gb and 8 × v100-sxm2-16gb: "), "%s", titles[i]);
      ck_assert(i != 1 || (strstr(svg, ">fast<") && strstr(svg, ">39.5 GiB<") && strstr(svg, ">slow<") &&
                           strstr(svg, ">15.8 GiB<")));
    }
  }
  ck_assert_int_eq(g_rmdir(folder), 0);
  g_autofree char *text = report_summary(&r), *why = report_explain(&r, trace);
  ck_assert_ptr_nonnull(strstr(text, ", the stage with least room left: "));
  ck_assert_ptr_nonnull(strstr(why, " is the stage with least room left with "));
  instance_clear(&in);
}
END_TEST

TEST_LOOPS("mixed", { what_joins_types_is_the_slower_network }, { stages_run_on_their_devices },
           { pairs_cross_the_network_of_the_slower }, { each_type_attends_by_its_own_kernel, 2 },
           { splits_go_by_what_each_type_keeps }, { stages_over_two_types_are_refused },
           { search_agrees_with_brute_force, 4 }, { no_other_placement_is_better, 3, TRUE }, { bounds_hold_beside_much_memory, 2 },
           { pictures_name_all_devices })
