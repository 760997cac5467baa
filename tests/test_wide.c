/* Blocks that keep their products in 16 bits where those of others are cast to 8 or 4. */
#include "import/launch.h"
#include "main.h"
#include "plan/excludes.h"
#include "planned.h"
#include "search_instance.h"

/* A plan in a narrow format, of a framework that may leave blocks out. */
static const struct {
  const char *framework, *cluster;
  DType format;
  Fp8Recipe recipe;
  int tp, pp, zero;
  Recompute recompute;
  int layers; /* of each stage that are made again; 0 = all */
} cases[] = {
  { "megatron-core-2026", "dgx-h100", DTYPE_FP8, FP8_CURRENT, 1, 1, 1, RECOMPUTE_NONE, 0 },
  { "megatron-core-2026", "dgx-h100", DTYPE_FP8, FP8_BLOCKWISE, 2, 2, 0, RECOMPUTE_SELECTIVE, 0 },
  { "megatron-core-2026", "hgx-b200", DTYPE_FP8, FP8_MXFP8, 1, 4, 1, RECOMPUTE_FULL, 1 },
  { "megatron-core-2026", "hgx-b200", DTYPE_FP4, FP8_NONE, 2, 4, 1, RECOMPUTE_FULL, 0 },
  { "nemo-2026-08", "hgx-b200", DTYPE_FP4, FP8_NONE, 1, 1, 1, RECOMPUTE_NONE, 0 },
  { "torchtitan-2026-08", "hgx-b200", DTYPE_FP4, FP8_NONE, 1, 1, 3, RECOMPUTE_NONE, 0 },
  { "torchtitan", "dgx-h100", DTYPE_FP8, FP8_TENSORWISE, 1, 2, 3, RECOMPUTE_SELECTIVE, 0 },
  { "torchtitan", "dgx-h100", DTYPE_FP8, FP8_ROWWISE, 2, 1, 3, RECOMPUTE_FULL, 0 },
};

#define BLOCKS 8

static void planned_case(Planned *f, int i)
{
  planned_init(f, fixture_llama(BLOCKS, 8192, 64, 8, 4096, 32000), fixture_cluster(cases[i].cluster, 8), cases[i].framework);
  planned_spread(f, 8);
  planned_divide(f, cases[i].tp, cases[i].pp, 8 / cases[i].tp / cases[i].pp);
  f->plan.global_batch = 64;
  f->plan.sequence_parallel = cases[i].tp > 1;
  f->plan.zero = cases[i].zero;
  f->plan.recompute = cases[i].recompute;
  if (cases[i].layers)
    f->plan.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .layers = cases[i].layers };
  plan_set_format(&f->plan, cases[i].format);
  f->plan.fp8_recipe = cases[i].recipe;
}

static void in_bf16(Plan *plan)
{
  plan_set_format(plan, DTYPE_BF16);
  plan->fp8_recipe = FP8_NONE;
  plan->wide = (WideBlocks) { 0 };
}

/* With all of them in 16 bits it is the plan in bf16, to the last bit, however they are counted. */
START_TEST(all_blocks_are_bf16)
{
  Planned f;

  planned_case(&f, _i);
  const Plan narrow = f.plan;
  in_bf16(&f.plan);
  Metrics wide = planned_run(&f);
  for (int start = 0; start <= BLOCKS; start += 4) {
    f.plan = narrow;
    f.plan.wide = (WideBlocks) { start, BLOCKS - start };
    Metrics m = planned_run(&f);
    ck_assert_double_eq(m.iteration_s, wide.iteration_s);
    ck_assert_double_eq(m.peak_memory_bytes, wide.peak_memory_bytes);
  }
  planned_clear(&f);
}
END_TEST

/* Between none and all time goes up, and memory one way. */
START_TEST(more_blocks_take_more)
{
  Metrics m[BLOCKS + 1];
  Planned f;

  planned_case(&f, _i);
  for (int n = 0; n <= BLOCKS; n++) {
    f.plan.wide = _i % 2 ? (WideBlocks) { n, 0 } : (WideBlocks) { n / 2, n - n / 2 };
    m[n] = planned_run(&f);
  }
  double less = m[BLOCKS].peak_memory_bytes < m[0].peak_memory_bytes ? -1 : 1;
  for (int n = 0; n < BLOCKS; n++) {
    ck_assert_double_le(m[n].iteration_s, m[n + 1].iteration_s);
    ck_assert_double_le(less * m[n].peak_memory_bytes, less * m[n + 1].peak_memory_bytes);
  }
  ck_assert_double_lt(m[0].iteration_s, m[BLOCKS].iteration_s);
  planned_clear(&f);
}
END_TEST

/* Each layer has the price that it has in a plan all of one format, of its own. */
START_TEST(blocks_are_the_first_and_the_last)
{
  PriceTable *tables[2];
  Planned f;

  planned_case(&f, _i);
  f.plan.wide = (WideBlocks) { 1, 2 };
  planned_accept(&f);
  g_autoptr(PriceTable) mixed = price_table_new(f.model, LAYOUT(&f.plan), f.cluster);
  f.plan.wide = (WideBlocks) { 0 };
  for (int wide = 0; wide < 2; wide++) {
    tables[wide] = price_table_new(f.model, LAYOUT(&f.plan), f.cluster);
    in_bf16(&f.plan);
  }
  for (int i = 0; i < f.model->n_layers; i++) {
    gboolean wide = i == 1 || i == BLOCKS - 1 || i == BLOCKS;
    const LayerPrice *own = price_of_layer(mixed, f.model, 0, i), *of = price_of_layer(tables[wide], f.model, 0, i);
    ck_assert_mem_eq(own, of, sizeof *own);
    ck_assert_double_eq(own->narrow[0], wide ? 0 : price_of_layer(tables[0], f.model, 0, i)->narrow[0]);
  }
  ck_assert_double_gt(price_of_layer(tables[0], f.model, 0, 2)->narrow[0], 0);
  price_table_free(tables[0]);
  price_table_free(tables[1]);
  planned_clear(&f);
}
END_TEST

/* What tasks of a stage take, all of its rank's. */
static double stage_s(const Planned *f, int rank)
{
  double seconds = 0;

  for (guint i = 0; i < f->program->segments->len; i++) {
    const Segment *s = &g_array_index(f->program->segments, Segment, i);
    seconds += s->first_layer * 4 / (BLOCKS + 1) == rank ? s->seconds : 0;
  }
  return seconds;
}

/* Of a pipeline only the stages with such blocks are slower: of both ends the first and the last of four. */
START_TEST(stages_have_their_own)
{
  double narrow[4];
  Planned f;

  planned_case(&f, 3);
  planned_build(&f);
  for (int stage = 0; stage < 4; stage++)
    narrow[stage] = stage_s(&f, stage);
  f.plan.wide = (WideBlocks) { 2, 1 };
  planned_build(&f);
  for (int stage = 0; stage < 4; stage++)
    ck_assert_msg((stage_s(&f, stage) > narrow[stage] * (1 + 1e-9)) == (stage == 0 || stage == 3), "stage %d: %g, %g", stage,
                  stage_s(&f, stage), narrow[stage]);
  planned_clear(&f);
}
END_TEST

/* Chunks between a rank's first and last do not stand for each other where one has such blocks: bounds stay below. */
START_TEST(bounds_know_chunks_apart)
{
  Planned f;

  planned_init(&f, fixture_llama(BLOCKS, 8192, 64, 8, 4096, 4096), fixture_cluster("hgx-b200", 2), "megatron-core-2026");
  planned_spread(&f, 16);
  planned_divide(&f, 1, 2, 1);
  plan_set_schedule(&f.plan, schedule_find("interleaved"), 4);
  plan_set_format(&f.plan, DTYPE_FP4);
  for (int n = 0; n <= BLOCKS; n++) {
    f.plan.wide = (WideBlocks) { n, 0 };
    planned_run(&f);
    f.plan.wide = (WideBlocks) { 0, n };
    planned_run(&f);
  }
  planned_clear(&f);
}
END_TEST

/* A balanced split gives stages with blocks in 16 bits fewer. */
START_TEST(splits_balance_them)
{
  LayerSplit split[2];
  Planned f;

  planned_init(&f, fixture_llama(16, 4096, 32, 8, 4096, 4096), fixture_cluster("hgx-b200", 8), "megatron-core-2026");
  planned_spread(&f, 8);
  planned_divide(&f, 1, 4, 2);
  plan_set_format(&f.plan, DTYPE_FP4);
  for (int wide = 0; wide < 2; wide++) {
    f.plan.wide.end = 4 * wide;
    g_autoptr(PriceCache) cache = price_cache_new(f.model, f.cluster);
    split[wide] = *price_cache_split(cache, &f.plan);
  }
  ck_assert_int_eq(split[0].layers[3] > split[1].layers[3], TRUE);
  ck_assert_int_eq(split_layers(&split[1]), 16);
  planned_clear(&f);
}
END_TEST

/* Of each layer by itself. */
static LeastWork work_of_layers(const Model *model, const PriceTable *prices, const Cluster *cluster)
{
  int n = model->n_layers;
  g_autofree LeastLayer *list = g_new(LeastLayer, n);
  g_autofree LayerUses *uses = g_new(LayerUses, n);

  for (int i = 0; i < n; i++) {
    list[i] = least_layer(price_of_layer(prices, model, 0, i), FALSE);
    uses[i] = (LayerUses) { .all = 1, .inner = i > 0 && i < n - 1, .blocks = i >= 1 && i <= model->blocks,
                            .working = model_layer(model, i)->kind != LAYER_EMBEDDING };
  }
  return least_work(&(LeastLayers) { list, uses, n }, cluster);
}

/* A cache that has priced other plans gives what is priced for a plan alone. */
START_TEST(caches_tell_them_apart)
{
  Planned f;

  planned_case(&f, _i);
  g_autoptr(PriceCache) cache = price_cache_new(f.model, f.cluster);
  for (int n = 0; n < 2 * BLOCKS; n++) {
    f.plan.wide = (WideBlocks) { n % 3, n * 5 % (BLOCKS - 2) };
    g_autoptr(PriceTable) known = price_cache_own(cache, &f.plan);
    g_autoptr(PriceTable) own = price_table_new(f.model, LAYOUT(&f.plan), f.cluster);
    ck_assert_int_eq(known->n, own->n);
    ck_assert_mem_eq(known->layers, own->layers, own->n * sizeof *own->layers);
    if (cases[_i].layers)
      continue;
    LeastWork all = work_of_layers(f.model, own, f.cluster), of = price_cache_least(cache, PASSES(&f.plan), FALSE);
    ck_assert_double_eq_tol(of.seconds[LEAST_WHOLE][0], all.seconds[LEAST_WHOLE][0], 1e-9 * all.seconds[LEAST_WHOLE][0]);
    ck_assert_double_eq_tol(of.saved_bytes, all.saved_bytes, 1e-9 * all.saved_bytes);
    ck_assert_double_eq(of.narrow[0], all.narrow[0]);
    ck_assert_double_eq(of.block_s, all.block_s);
  }
  planned_clear(&f);
}
END_TEST

/* Every legal plan of small spaces simulated: bounds hold, and the best is found; what is given stays. */
START_TEST(searches_leave_them)
{
  static const char *const names[] = { "megatron-core-2026", "torchtitan", "nemo-2025-05" };
  GRand *rand = g_rand_new_with_seed(40 + _i);
  Instance in;

  do
    instance_framework_init(&in, rand, names[_i % 3]);
  while (in.model->blocks < 2 && (instance_clear(&in), TRUE));
  Cluster *narrow = fixture_cluster("dgx-h100", in.cluster->devices);
  narrow->device.memory_bytes = in.cluster->device.memory_bytes;
  cluster_free(in.cluster);
  in.cluster = narrow;
  plan_set_format(&in.base, DTYPE_FP8);
  in.base.fp8_recipe = _i % 3 == 1 ? FP8_TENSORWISE : FP8_CURRENT;
  in.base.wide = (WideBlocks) { _i % 2, 1 };
  instance_fix(&in, rand);
  in.options.least = TRUE;
  g_autoptr(GArray) all = instance_plans_within(&in, INSTANCE_SMALL);
  if (all)
    instance_check_all(&in, all);
  g_autoptr(SearchResult) found = search(in.model, in.cluster, &in.options, NULL);
  for (guint i = 0; i < found->best->len; i++)
    ck_assert_mem_eq(&g_array_index(found->best, Found, i).plan.wide, &in.base.wide, sizeof in.base.wide);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

START_TEST(plans_that_cannot_have_them)
{
  Planned f;

  planned_init(&f, fixture_llama(BLOCKS, 1024, 16, 8, 1024, 1024), fixture_cluster("dgx-h100", 8), "megatron-core");
  planned_spread(&f, 1);
  f.plan.wide.start = 2;
  planned_refuse(&f, RULE_PRECISION, "plan: num_layers_at_start_in_bf16: 2: expected nothing: precision bf16 has no "
                 "narrower products");
  f.plan.wide = (WideBlocks) { 0, 1 };
  planned_refuse(&f, RULE_PRECISION, "plan: num_layers_at_end_in_bf16: 1: expected nothing: precision bf16 has no "
                 "narrower products");
  plan_set_format(&f.plan, DTYPE_FP8);
  planned_accept(&f);
  f.plan.wide = (WideBlocks) { 5, 4 };
  planned_refuse(&f, RULE_PRECISION, "plan: num_layers_at_start_in_bf16: 5, num_layers_at_end_in_bf16: 4: expected at most "
                 "the model's 8 together");
  f.plan.wide.start = 4;
  planned_accept(&f);
  f.framework->choices &= ~(1u << CHOICE_WIDE_END);
  planned_refuse(&f, RULE_PRECISION, "plan: num_layers_at_end_in_bf16: expected nothing, megatron-core does not run it");
  planned_clear(&f);
}
END_TEST

/* Megatron Core's: none with delayed scales, and in fp8 no more at an end than an equal stage has. */
START_TEST(megatron_core_excludes_some)
{
  Planned f;

  planned_init(&f, fixture_llama(BLOCKS, 1024, 16, 8, 1024, 1024), fixture_cluster("hgx-b200", 8), "megatron-core");
  planned_spread(&f, 8);
  planned_divide(&f, 1, 4, 2);
  plan_set_format(&f.plan, DTYPE_FP8);
  f.plan.wide = (WideBlocks) { 2, 1 };
  ck_assert_uint_ne(plan_excluded(&f.plan, f.model, f.cluster, f.framework), 0);
  f.plan.fp8_recipe = FP8_CURRENT;
  ck_assert_uint_eq(plan_excluded(&f.plan, f.model, f.cluster, f.framework), 0);
  f.plan.wide.end = 3;
  ck_assert_uint_ne(plan_excluded(&f.plan, f.model, f.cluster, f.framework), 0);
  f.plan.fp8_recipe = FP8_NONE;
  plan_set_format(&f.plan, DTYPE_FP4);
  ck_assert_uint_eq(plan_excluded(&f.plan, f.model, f.cluster, f.framework), 0);
  planned_clear(&f);
}
END_TEST

/* What torchtitan's filters leave out by parts of names: blocks at the ends, and others, which are said. */
START_TEST(filters_are_read)
{
  static const struct {
    const char *filters, *start, *end, *said;
  } read[] = {
    { "\"output\", \"layers.0.\", \"layers.30.\", \"layers.31.\"", "_start_in_bf16\": 1,", "_end_in_bf16\": 2,", NULL },
    { "\"layers.3\"", NULL, "_end_in_bf16\": 2,", "1 layers of it are neither first nor last: simulated as cast" },
    { "\"layers.1.\", \"attention.wk\", \"auto_filter_small_kn\"", NULL, NULL, "1 layers of it" },
    { "\"layers.\"", "_start_in_bf16\": 32,", NULL, NULL },
    { "\"output\", \"lm_head\", \"router.gate\", \"auto_filter_small_kn\"", NULL, NULL, NULL },
    { "\"output\", \"feed_forward\"", NULL, NULL, "feed_forward: names parts of blocks: simulated as cast" },
    { "\"layers.0.attention\"", NULL, NULL, "layers.0.attention: names parts of blocks: simulated as cast" },
  };
  static const char *const sections[][2] = { { "quantize.linear.float8", "[\"quantize.linear.float8\"]" },
                                             { "float8", "[\"float8\"]" },
                                             { "quantize.linear.mx", "[\"quantize.linear.mx\"]" } };

  for (gsize i = 0; i < G_N_ELEMENTS(read) * G_N_ELEMENTS(sections); i++) {
    const gsize at = i / G_N_ELEMENTS(sections), section = i % G_N_ELEMENTS(sections);
    g_autofree char *text = g_strdup_printf("[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\n"
                                            "tensor_parallel_degree = 1\n[model]\nname = \"llama3\"\n"
                                            "flavor = \"8B\"\nconverters = %s\n[%s]\nfilter_fqns = [%s]\n",
                                            sections[section][1], sections[section][0], read[at].filters);
    g_autoptr(Launch) l = launch_read(text, "run.toml", &(LaunchOptions) { 8 }, NULL);
    ck_assert_ptr_nonnull(l);
    const char *const has[] = { read[at].start, read[at].end }, *const keys[] = { "_start_in_bf16", "_end_in_bf16" };
    for (int k = 0; k < 2; k++)
      ck_assert_msg(has[k] ? strstr(l->plan, has[k]) != NULL : !strstr(l->plan, keys[k]), "%s in %s", keys[k], l->plan);
    gboolean said = FALSE;
    for (guint k = 0; k < l->assumed->len; k++)
      said |= read[at].said && strstr(l->assumed->pdata[k], read[at].said);
    ck_assert_int_eq(said, read[at].said != NULL);
  }
}
END_TEST

/* Of torchtitan in Python what is left out is read, what is taken is not, and said where it may be a part. */
START_TEST(python_filters_are_read)
{
  static const struct {
    const char *converter, *has;
    gboolean said;
  } read[] = {
    { "Float8LinearConverter.Config(filter_fqns=[\"lm_head\", \"layers.0.\", \"layers.31.\"], emulate=False)",
      "\"num_layers_at_start_in_bf16\": 1,", FALSE },
    { "Float8LinearConverter.Config(filter_fqns=[\"lm_head\"])", NULL, FALSE },
    { "Float8LinearConverter.Config(filter_fqns=['lm_head', \"layers.31.\",])", "\"num_layers_at_end_in_bf16\": 1,", FALSE },
    { "Float8LinearConverter.Config(filter_fqns=skip)", NULL, TRUE },
    { "Float8LinearConverter.Config(filter_fqns=[f\"layers.{i}.\" for i in range(2)])", NULL, TRUE },
    { "Float8LinearConverter.Config(filter_fqns=[\"layers.%d.\" % i for i in range(2)])", NULL, TRUE },
    { "Float8LinearConverter.Config(filter_fqns=[\"layers.0.\"] + skip)", NULL, TRUE },
    { "Float8LinearConverter.Config(filter_fqns=[\"lm_head\"]), NVFP4LinearConverter.Config(fqns=[\"layers.3.\"])", NULL, TRUE },
    { "NVFP4LinearConverter.Config(fqns=[\"layers\"]), Float8LinearConverter.Config(filter_fqns=skip)", NULL, TRUE },
    { "MXFP8LinearConverter.Config(filter_fqns=[\"layers.0.\"])", "\"num_layers_at_start_in_bf16\": 1,", FALSE },
    { "NVFP4LinearConverter.Config(fqns=fqns)", NULL, TRUE },
    { "NVFP4LinearConverter.Config(fqns=[\"layers.0.\", \"layers.1.\"])", NULL, TRUE },
    { "NVFP4LinearConverter.Config(fqns=[\"layers\"])", NULL, FALSE },
    { "MXFP8LinearConverter.Config(model_compile_enabled=True)", NULL, FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(read); i++) {
    g_autofree char *text = g_strdup_printf("def llama3_8b() -> Trainer.Config:\n    return Trainer.Config(\n"
                                            "        model_spec=model_registry(\"8B\", converters=[%s]),\n"
                                            "        training=TrainingConfig(local_batch_size=1, seq_len=8192),\n"
                                            "        parallelism=ParallelismConfig(tensor_parallel_degree=1),\n    )\n",
                                            read[i].converter);
    g_autoptr(Launch) l = launch_read(text, "config_registry.py", &(LaunchOptions) { 8 }, NULL);
    ck_assert_ptr_nonnull(l);
    ck_assert_msg(read[i].has ? strstr(l->plan, read[i].has) != NULL : !strstr(l->plan, "in_bf16"), "%s", l->plan);
    gboolean said = FALSE;
    for (guint k = 0; k < l->assumed->len; k++)
      said |= strstr(l->assumed->pdata[k], "simulated as if products of all blocks were cast") != NULL;
    ck_assert_int_eq(said, read[i].said);
  }
}
END_TEST

TEST_LOOPS("wide", { all_blocks_are_bf16, G_N_ELEMENTS(cases) }, { more_blocks_take_more, G_N_ELEMENTS(cases) },
           { blocks_are_the_first_and_the_last, G_N_ELEMENTS(cases) }, { stages_have_their_own }, { bounds_know_chunks_apart },
           { splits_balance_them },
           { caches_tell_them_apart, G_N_ELEMENTS(cases) }, { searches_leave_them, 12 }, { plans_that_cannot_have_them },
           { megatron_core_excludes_some }, { filters_are_read }, { python_filters_are_read })
