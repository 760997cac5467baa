#include "main.h"
#include "search/space.h"
#include "search_instance.h"

#include <math.h>

/* What was forgotten is made again to the last bit. */
START_TEST(prices_forgotten)
{
  GRand *rand = test_rand(40);
  Instance in;

  instance_init(&in, rand);
  g_autoptr(GArray) all = instance_plans(&in);
  g_autoptr(PriceCache) kept = price_cache_new(in.model, in.cluster), trimmed = price_cache_new(in.model, in.cluster);
  for (guint i = 0; i < all->len; i++) {
    const Plan *plan = &g_array_index(all, Plan, i);
    const PriceSums *a = price_cache_sums(kept, PASSES(plan)), *b = price_cache_sums(trimmed, PASSES(plan));
    gsize bytes = price_sums_bytes(in.model, a) - sizeof *a;
    ck_assert_mem_eq(a->forward_s, b->forward_s, bytes);
    price_cache_trim(trimmed, 4096);
  }
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* ---- schedules that no framework's default space has ---- */

/* Orders found at run time, on 4 to 8 stages. */
START_TEST(varuna_agrees)
{
  GRand *rand = test_rand(700 + _i);
  Instance in;

  instance_init(&in, rand);
  int pp = _i % 2 ? 8 : 4 + 2 * (_i % 4 == 2);
  model_free(in.model);
  in.model = fixture_model(pp * g_rand_int_range(rand, 1, 3) + (_i % 3 == 0 && in.framework->splits == SPLITS_ANY), 256,
                           4, 128, 512);
  in.model->position_rows = 0;
  ck_assert(cluster_resize(in.cluster, pp * (1 + _i % 2), NULL));
  in.base = plan_default(in.model, in.framework);
  in.base.gpus = in.cluster->devices;
  in.base.global_batch = 8 * g_rand_int_range(rand, 1, 4);
  in.options.fixed.value[KEY_PP] = pp;
  in.options.fixed.value[KEY_SCHEDULE] = schedule_index(schedule_find("varuna"));
  g_clear_pointer(&in.framework->excludes, g_array_unref); /* 16 bits that no ranks share, among others */
  g_autoptr(GArray) all = instance_plans(&in);
  ck_assert_uint_gt(all->len, 0);
  instance_check_all(&in, all);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* Modules that predict further tokens have layers behind the head: no vocabulary spread over ranks. */
START_TEST(prediction_modules_agree)
{
  static const char *const names[] = { "1f1b", "zb-h1", "interleaved", "vocab-1", "vocab-2", "vocab-interlaced" };
  const Schedule *schedule = schedule_find(names[_i]);
  GRand *rand = test_rand(900 + _i);
  GError *error = NULL;
  Instance in;
  char text[512];

  instance_init(&in, rand);
  model_free(in.model);
  g_snprintf(text, sizeof text,
             "{\"name\":\"mtp\",\"layers\":8,\"hidden\":256,\"heads\":4,\"seq\":128,\"vocab\":512,\"mtp_num_layers\":1}");
  in.model = model_parse(text, strlen(text), "mtp", &error);
  ck_assert_msg(in.model != NULL, "%s", error ? error->message : "");
  framework_free(in.framework);
  in.framework = fixture_framework("megatron-core");
  ck_assert(cluster_resize(in.cluster, 8, NULL));
  in.cluster->device.memory_bytes = 4e9;
  in.base = plan_default(in.model, in.framework);
  in.base.gpus = 8;
  in.base.global_batch = 16;
  in.options.fixed.value[KEY_PP] = 4;
  in.options.fixed.value[KEY_SCHEDULE] = schedule_index(schedule);
  g_autoptr(GArray) all = instance_plans(&in);
  ck_assert_int_eq(all->len > 0, schedule->vocabulary == 0);
  instance_check_all(&in, all);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* Where no stage starts with the decoder, equal stages are not what Megatron runs: against brute force. */
START_TEST(encoder_decoders_agree)
{
  static const int stacks[][2] = { { 1, 3 }, { 3, 1 }, { 2, 2 }, { 2, 4 } };
  GRand *rand = test_rand(1100 + _i);
  GError *error = NULL;
  Instance in;

  instance_small_init(&in, rand);
  model_free(in.model);
  g_autofree char *text =
    g_strdup_printf("{\"model_type\":\"t5\",\"d_model\":128,\"d_kv\":64,\"num_heads\":2,\"d_ff\":512,\"num_layers\":%d,"
                    "\"num_decoder_layers\":%d,\"vocab_size\":256,\"seq\":64}", stacks[_i][0], stacks[_i][1]);
  in.model = model_parse(text, strlen(text), "t5", &error);
  ck_assert_msg(in.model != NULL, "%s", error ? error->message : "");
  framework_free(in.framework);
  in.framework = fixture_framework("megatron-core");
  ck_assert(cluster_resize(in.cluster, 2, NULL));
  in.base = plan_default(in.model, in.framework);
  in.base.gpus = 2;
  in.base.global_batch = 4;
  in.options.fixed.value[KEY_PP] = 2;
  in.options.top = 3;
  g_autoptr(SearchResult) found = search(in.model, in.cluster, &in.options, NULL);
  for (guint i = 0; i < found->best->len; i++)
    ck_assert_int_eq(plan_check(&g_array_index(found->best, Found, i).plan, in.model, in.cluster, NULL), RULE_NONE);
  ck_assert(found->best->len > 0 || _i == 0 || _i == 3); /* there the best split by time cuts a stack elsewhere */
  instance_check(&in);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* What full recomputation keeps goes to the host where the space is asked for it: against brute force. */
START_TEST(activations_go_to_the_host)
{
  GRand *rand = test_rand(700 + _i);
  Instance in;
  int hosted = 0;

  instance_small_init(&in, rand);
  framework_free(in.framework);
  in.framework = fixture_framework("deepspeed");
  in.base = plan_default(in.model, in.framework);
  ck_assert(cluster_resize(in.cluster, 2, NULL));
  in.base.gpus = 2;
  in.base.global_batch = 4;
  in.options.space = SPACE_OFFLOAD;
  in.options.fixed.value[KEY_OVERLAP] = 1;
  in.options.top = 3;
  g_autoptr(GArray) all = instance_plans(&in);
  for (guint i = 0; i < all->len; i++) {
    const Plan *p = &g_array_index(all, Plan, i);
    hosted += p->offload.activations == STORE_CPU;
    ck_assert(!p->offload.activations || p->recompute == RECOMPUTE_FULL);
  }
  ck_assert_int_gt(hosted, 0);
  ck_assert_int_lt(hosted, (int)all->len);
  instance_check_all(&in, all);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* What some blocks keep goes to the host where the framework runs that: against brute force, and found where it pays. */
START_TEST(layers_go_to_the_host)
{
  GRand *rand = test_rand(900 + _i);
  g_autoptr(GArray) all = NULL;
  Instance in;
  int hosted = 0, keeping = 0;

  do {
    instance_framework_init(&in, rand, _i % 2 ? "megatron-core" : "nemo-2026-04");
    in.cluster->device.host_coherent = _i < 6;
    in.options.space = _i < 6 ? 0 : SPACE_OFFLOAD;
    in.base.graph = GRAPH_NONE; /* beside which nothing else goes there */
    in.options.fixed.value[KEY_GRAPH] = GRAPH_NONE;
    all = instance_plans_within(&in, INSTANCE_SMALL);
    if (all)
      break;
    instance_clear(&in);
  } while (TRUE);
  for (guint i = 0; i < all->len; i++) {
    const Plan *p = &g_array_index(all, Plan, i);
    hosted += p->offload.layers > 0;
    keeping += p->pp == 1 && p->recompute == RECOMPUTE_NONE && !p->overlap.exchange && !p->graph && !p->offload.layers;
    ck_assert(!p->offload.layers || (p->pp == 1 && p->recompute == RECOMPUTE_NONE));
    ck_assert_int_lt(p->offload.layers, MAX(in.model->blocks, 1));
  }
  ck_assert_int_eq(hosted > 0, keeping > 0 && in.model->blocks > 1);
  if (all->len > 0)
    instance_check_all(&in, all);
  in.options.fixed.value[KEY_OFFLOAD_LAYERS] = in.model->blocks - 1;
  if (hosted > 0)
    instance_check(&in);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

START_TEST(layers_on_the_host_win)
{
  static const char *const fixed[] = { "recompute=none,offload_layers=0,mbs=1", "offload_layers=0", "recompute=none" };
  g_autoptr(Model) model = fixture_llama(8, 1024, 16, 16, 4096, 1000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  Plan base = plan_default(model, framework);
  double step[3];

  base.gpus = base.global_batch = 8;
  cluster->host_memory_bytes = 1e12;
  cluster->host_memory_bytes_per_s = 1e13;
  cluster->device.host_bytes_per_s = 1e12;
  cluster->device.host_coherent = TRUE;
  for (int i = 0; i < 3; i++) {
    SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1 };
    ck_assert(fixed_parse("--fix", "tp=1,pp=1,cp=1,zero=1,overlap=1", &options.fixed, NULL));
    ck_assert(fixed_parse("--fix", fixed[i], &options.fixed, NULL));
    g_autoptr(SearchResult) r = search(model, cluster, &options, NULL);
    ck_assert_int_eq(r->best->len, 1);
    const Found *best = &g_array_index(r->best, Found, 0);
    ck_assert_int_eq(best->plan.offload.layers > 0, i == 2);
    step[i] = best->metrics.iteration_s;
    if (i == 0) /* room for fewer than all layers' activations */
      cluster->device.memory_bytes = best->metrics.peak_memory_bytes - 0.4 * best->metrics.memory[PART_ACTIVATIONS];
  }
  ck_assert_double_gt(step[1], 1.01 * step[0]);
  ck_assert_double_lt(step[2], 0.98 * step[1]);
}
END_TEST

/* A search that may choose how tokens travel finds what searches with each way find, in time and in memory. */
START_TEST(dispatchers_are_searched)
{
  static const char *const frameworks[] = { "megatron-core", "megatron-core-2026", "automodel-2026-01" };
  g_autoptr(Model) model = model_load("models/qwen3-30b-a3b.json", NULL);
  g_autoptr(Cluster) cluster = fixture_cluster(_i < 3 ? "dgx-h100" : "dgx-a100-80gb", _i % 2 ? 16 : 32);
  g_autoptr(Framework) framework = fixture_framework(frameworks[_i % 3]);
  Plan base = plan_default(model, framework);
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1 };
  int differ = 0;

  base.gpus = base.global_batch = cluster->devices;
  options.fixed.value[KEY_OVERLAP] = options.fixed.value[KEY_CP] = 1;
  options.fixed.value[KEY_PP] = _i < 3 || _i == 5 ? 1 : 2;
  for (int ep = 2; ep <= 32; ep *= 4)
    for (int objective = 0; objective <= 2; objective += 2) {
      double best = INFINITY, usual = INFINITY;
      options.objective = &objectives[objective];
      options.fixed.value[KEY_EP] = ep;
      for (int d = 0; d < DISPATCH_COUNT; d++) {
        options.fixed.value[KEY_DISPATCH] = d;
        g_autoptr(SearchResult) one = search(model, cluster, &options, NULL);
        double value = one->best->len ? g_array_index(one->best, Found, 0).value : INFINITY;
        best = MIN(best, value);
        usual = d == (int)base.dispatch ? value : usual;
      }
      options.fixed.value[KEY_DISPATCH] = -1;
      g_autoptr(SearchResult) r = search(model, cluster, &options, NULL);
      ck_assert_double_eq(r->best->len ? g_array_index(r->best, Found, 0).value : INFINITY, best);
      differ += best < usual;
    }
  ck_assert(differ > 0 || _i >= 3 || base.dispatch != DISPATCH_ALL_TO_ALL); /* newer ones, which A100 lacks, win somewhere */
}
END_TEST

/* Of these plans, those whose tokens travel beside passes of other micro-batches. */
static int count_exchanges(const GArray *all)
{
  int beside = 0;

  for (guint i = 0; i < all->len; i++)
    beside += g_array_index(all, Plan, i).overlap.exchange;
  return beside;
}

/* The experts' exchange is tried beside other passes where the framework can, and the best such plan is found. */
START_TEST(exchanges_are_searched)
{
  static const char *const frameworks[] = { "nemo-2026-04", "megatron-core-dev-2026", "megatron-core" };
  GRand *rand = g_rand_new_with_seed(2300 + _i);
  g_autoptr(GArray) any = NULL;
  Instance in;

  do {
    instance_framework_init(&in, rand, frameworks[_i % 3]);
    if (in.model->specs[in.model->layers[1]].ffn.experts > 1 && !in.base.overlap.experts)
      any = instance_plans_within(&in, INSTANCE_SMALL / 3);
    if (any)
      break;
    instance_clear(&in);
  } while (TRUE);
  int beside = count_exchanges(any);
  ck_assert_int_eq(beside > 0, in.framework->exchange_overlap);
  instance_check_all(&in, any);
  for (int fixed = 0; fixed < 2; fixed++) {
    in.options.fixed.value[KEY_EXCHANGE] = fixed;
    g_autoptr(GArray) all = instance_plans(&in);
    ck_assert_int_eq(count_exchanges(all), fixed ? beside : 0);
    ck_assert(all->len > 0 || beside == 0);
    ck_assert_uint_eq(fixed ? all->len : 0, fixed ? beside : 0);
    g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options, NULL);
    ck_assert(r->best->len == 0 || g_array_index(r->best, Found, 0).plan.overlap.exchange == fixed);
  }
  in.options.fixed.value[KEY_EXCHANGE] = -1;
  in.options.fixed.value[KEY_OVERLAP] = 0;
  g_autoptr(GArray) none = instance_plans(&in);
  ck_assert_int_eq(count_exchanges(none), 0);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* Whether the rules allow the same plan with its steps as one graph. */
static gboolean may_be_recorded(const Plan *plan, const Model *model, const Cluster *cluster)
{
  Plan recorded = *plan;

  plan_set_graph(&recorded, GRAPH_FULL);
  return plan_check(&recorded, model, cluster, NULL) == RULE_NONE;
}

/* Parts of layers as graphs are tried wherever nothing but experts' modules is made again, steps as one graph where rows
 * of experts may stay on the device: what a search finds that may choose is the best of what it finds with each, and of
 * all plans. */
START_TEST(graphs_are_searched)
{
  static const char *const frameworks[] = { "nemo-2026-06", "megatron-core-dev-2026", "megatron-core-2026" };
  GRand *rand = test_rand(8100 + _i);
  gboolean tries = _i % 3 < 2;
  double best = INFINITY;
  int recorded = 0, stay = 0; /* plans; those without graphs whose rows may stay on the device */
  int parts = 0, open = 0;    /* plans with parts as graphs; those without graphs that keep their blocks */
  int routers = 0, kept = 0;  /* plans with routers alone as graphs; those without graphs that make nothing again */
  g_autoptr(GArray) all = NULL;
  Instance in;

  g_autoptr(Cluster) known = fixture_cluster("dgx-h100", 8); /* whose kernels send rows */
  do {
    instance_framework_init(&in, rand, frameworks[_i % 3]);
    in.cluster->device.kernels.dispatch = known->device.kernels.dispatch;
    in.framework->stash_elsewhere = TRUE;
    in.base.graph = GRAPH_NONE;
    in.base.overlap.experts = FALSE; /* by alltoall alone */
    if (in.model->specs[in.model->layers[1]].ffn.experts > 1)
      all = instance_plans_within(&in, INSTANCE_SMALL / 3);
    if (all)
      break;
    instance_clear(&in);
  } while (TRUE);
  for (guint i = 0; i < all->len; i++) {
    const Plan *p = &g_array_index(all, Plan, i);
    parts += p->graph == GRAPH_PARTIAL && !p->graph_modules;
    routers += p->graph == GRAPH_PARTIAL && p->graph_modules == RECORDED_ROUTERS;
    kept += p->graph == GRAPH_NONE && p->recompute == RECOMPUTE_NONE && !offload_keeps(&p->offload);
    open += p->graph == GRAPH_NONE && p->recompute != RECOMPUTE_FULL && !offload_keeps(&p->offload);
    recorded += p->graph == GRAPH_FULL;
    stay += p->graph == GRAPH_NONE && may_be_recorded(p, in.model, in.cluster);
  }
  ck_assert_int_eq(recorded > 0, tries && stay > 0);
  ck_assert_int_eq(parts > 0, open > 0);
  ck_assert(routers > 0 || kept == 0);
  instance_check_all(&in, all);
  for (int i = GRAPH_NONE; i <= GRAPH_COUNT; i++) { /* the last are routers */
    int graph = i < GRAPH_COUNT ? i : GRAPH_PARTIAL;
    in.options.fixed.value[KEY_GRAPH] = graph;
    in.options.fixed.value[KEY_GRAPH_MODULES] = i < GRAPH_COUNT ? -1 : (int)RECORDED_ROUTERS;
    g_autoptr(SearchResult) one = search(in.model, in.cluster, &in.options, NULL);
    ck_assert(one->best->len == 0 || (int)g_array_index(one->best, Found, 0).plan.graph == graph);
    best = one->best->len && (graph != GRAPH_FULL || tries) ? MIN(best, g_array_index(one->best, Found, 0).value) : best;
  }
  in.options.fixed.value[KEY_GRAPH] = in.options.fixed.value[KEY_GRAPH_MODULES] = -1;
  g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options, NULL);
  ck_assert_double_eq(r->best->len ? g_array_index(r->best, Found, 0).value : INFINITY, best);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* Steps of a thousand micro-batches are not recorded, those of larger ones are: bounds of all micro-batches count with
 * them. */
START_TEST(recorded_steps_have_few_micro_batches)
{
  g_autoptr(Model) model = fixture_experts(2, 512, 8, 8, 1024, 1000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 8);
  g_autoptr(Framework) framework = fixture_framework("nemo-2026-08");
  Plan base = plan_default(model, framework);
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1 };
  double best = INFINITY;

  base.gpus = 8;
  base.global_batch = 8 * 1024;
  framework->operation_s = 200e-6;
  ck_assert(fixed_parse("--fix", "tp=1,pp=1,cp=1,mbs=2,overlap=1", &options.fixed, NULL));
  for (int graph = GRAPH_NONE; graph <= GRAPH_FULL; graph += GRAPH_FULL - GRAPH_NONE) {
    options.fixed.value[KEY_GRAPH] = graph;
    g_autoptr(SearchResult) one = search(model, cluster, &options, NULL);
    ck_assert_int_eq(one->best->len, 1);
    best = MIN(best, g_array_index(one->best, Found, 0).value);
  }
  options.fixed.value[KEY_GRAPH] = -1;
  g_autoptr(SearchResult) r = search(model, cluster, &options, NULL);
  ck_assert_double_eq(g_array_index(r->best, Found, 0).value, best);
  ck_assert_int_eq(g_array_index(r->best, Found, 0).plan.graph, GRAPH_FULL);
  ck_assert_int_lt(plan_micro_batches(&g_array_index(r->best, Found, 0).plan), 1000);
}
END_TEST

/* Long sequences on two nodes, more ranks than key-value heads: what a search finds that may choose how these exchange
 * keys and values is the best of what it finds for each way, and groups within nodes win; in one node none is tried. */
START_TEST(ways_of_sequences_are_searched)
{
  for (int nodes = 1; nodes <= 2; nodes++) {
    g_autoptr(Model) model = fixture_llama(4, 1024, 16, 8, 65536, 1000);
    g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8 * nodes);
    g_autoptr(Framework) framework = fixture_framework("megatron-core");
    Plan base = plan_default(model, framework);
    SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1 };
    double best = INFINITY;

    base.gpus = 8 * nodes;
    base.global_batch = 1;
    options.fixed.value[KEY_CP] = 8 * nodes;
    for (int context = 0; context < CONTEXT_COUNT; context++) {
      options.fixed.value[KEY_CONTEXT] = context;
      g_autoptr(SearchResult) one = search(model, cluster, &options, NULL);
      gboolean any = one && one->best->len > 0;
      ck_assert_int_eq(any, context == CONTEXT_BOTH ? nodes > 1 : context != CONTEXT_ALL_TO_ALL || nodes == 1);
      double value = any ? g_array_index(one->best, Found, 0).value : INFINITY;
      ck_assert(context != CONTEXT_BOTH || nodes == 1 || value < best);
      best = MIN(best, value);
    }
    options.fixed.value[KEY_CONTEXT] = -1;
    g_autoptr(SearchResult) r = search(model, cluster, &options, NULL);
    ck_assert_double_eq(g_array_index(r->best, Found, 0).value, best);
    options.fixed.value[KEY_CONTEXT] = CONTEXT_BOTH;
    options.fixed.value[KEY_CONTEXT_INNER] = 2;
    g_autoptr(SearchResult) two = search(model, cluster, &options, NULL);
    ck_assert_int_eq(g_array_index(two->best, Found, 0).plan.context_inner, 2);
  }
}
END_TEST

typedef struct {
  int plans, chunked, whole; /* that divide rows */
} Rows;

static void count_rows(gpointer data, const Plan *p, int how, double value, gint64 plans, int open)
{
  Rows *rows = data;

  (void)value;
  rows->plans += (int)plans;
  if (open <= PLAN_PASSES) /* a group with several choices of passes, of which the plan has none */
    return;
  ck_assert(how < REJECT_MEMORY || !p->comm_chunks || (p->sequence_parallel && p->tp > 1));
  rows->chunked += p->comm_chunks;
  rows->whole += p->sequence_parallel && !p->comm_chunks;
}

/* Rows travel in chunks in all plans that divide them where the framework runs that, unless it is fixed; the space is
 * as large. */
START_TEST(chunks_are_searched)
{
  static const struct {
    const char *framework;
    int fixed;
    gboolean chunked;
  } cases[] = { { "megatron-core", -1, TRUE }, { "megatron-core", 1, TRUE }, { "megatron-core", 0, FALSE },
                { "nanotron-2025", -1, FALSE }, { "torchtitan-2024-eager", -1, FALSE } };
  double best[G_N_ELEMENTS(cases)];
  Rows rows[G_N_ELEMENTS(cases)] = { 0 };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) model = fixture_model(4, 1024, 16, 512, 1024);
    g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 8);
    g_autoptr(Framework) framework = fixture_framework(cases[i].framework);
    Plan base = plan_default(model, framework);
    SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1, .audit = count_rows,
                              .data = &rows[i] };
    base.gpus = base.global_batch = 8;
    options.fixed.value[KEY_COMM_CHUNKS] = cases[i].fixed;
    options.fixed.value[KEY_TP] = 4;
    options.fixed.value[KEY_SEQUENCE_PARALLEL] = 1;
    g_autoptr(SearchResult) r = search(model, cluster, &options, NULL);
    ck_assert_int_eq(r->best->len, 1);
    best[i] = g_array_index(r->best, Found, 0).value;
    ck_assert_int_eq(rows[i].chunked > 0, cases[i].chunked);
    ck_assert_int_eq(rows[i].whole > 0, !cases[i].chunked);
  }
  ck_assert_int_eq(rows[0].plans, rows[2].plans);
  ck_assert_double_eq(best[0], best[1]);
  ck_assert_double_lt(best[0], best[2]);
}
END_TEST

/* A tied table stands once on a rank under some schedules and twice under others: what a part holds at least is by the
 * schedule that holds least. */
START_TEST(tied_tables_are_held_once)
{
  g_autoptr(Model) model = model_load("models/gemma-2-2b.json", NULL);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 2);
  g_autoptr(Framework) framework = fixture_framework("megatron-2024");
  Plan base = plan_default(model, framework);
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1 };
  double best[2];

  base.gpus = 2;
  base.global_batch = 16;
  base.seq = 64;
  cluster_keep_free(cluster, 0.69);
  ck_assert(fixed_parse("--fix", "pp=2,tp=1,zero=0,mbs=1,vpp=1,offload=none", &options.fixed, NULL));
  for (int one = 0; one < 2; one++) {
    ck_assert(!one || fixed_parse("--fix", "schedule=vocab-2", &options.fixed, NULL));
    g_autoptr(SearchResult) r = search(model, cluster, &options, NULL);
    ck_assert_int_eq(r->best->len, 1);
    best[one] = g_array_index(r->best, Found, 0).value;
  }
  ck_assert_double_eq(best[0], best[1]);
}
END_TEST

TEST_LOOPS("search space", { varuna_agrees, 8, TRUE }, { prediction_modules_agree, 6 },
           { activations_go_to_the_host, 8, TRUE }, { layers_go_to_the_host, 8, TRUE }, { layers_on_the_host_win },
           { encoder_decoders_agree, 4 }, { prices_forgotten, 1 },
           { dispatchers_are_searched, 6 }, { exchanges_are_searched, 9, TRUE }, { graphs_are_searched, 9, TRUE }, { recorded_steps_have_few_micro_batches, 1 },
           { chunks_are_searched, 1 },
           { ways_of_sequences_are_searched, 1 }, { tied_tables_are_held_once, 1 })
