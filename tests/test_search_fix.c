/* What --fix takes, and that plans have it. */
#include "main.h"
#include "plan/excludes.h"
#include "plan/nearest.h"
#include "search/space.h"
#include "search_instance.h"

START_TEST(fix_is_read)
{
  GError *error = NULL;
  Fixed f = fixed_none();

  ck_assert(fixed_parse("--fix", "tp=8, zero=1,recompute=full,schedule=gpipe", &f, &error));
  ck_assert_int_eq(f.value[KEY_TP], 8);
  ck_assert_int_eq(f.value[KEY_ZERO], 1);
  ck_assert_int_eq(f.value[KEY_RECOMPUTE], RECOMPUTE_FULL);
  ck_assert_str_eq(fixed_schedule(&f)->name, "gpipe");
  ck_assert_int_eq(f.value[KEY_PP], -1);
  f = fixed_none();
  ck_assert(fixed_parse("--fix", "sp=on,tp_overlap=off,ep_overlap=true,param_gather=false,overlap=on", &f, &error));
  ck_assert_int_eq(f.value[KEY_SEQUENCE_PARALLEL], 1);
  ck_assert_int_eq(f.value[KEY_COMM_CHUNKS], 0);
  ck_assert_int_eq(f.value[KEY_EXCHANGE], 1);
  ck_assert_int_eq(f.value[KEY_PARAM_GATHER], 0);
  ck_assert_int_eq(f.value[KEY_OVERLAP], 1);
  f = fixed_none();
  ck_assert(!fixed_parse("--fix", "sp=2", &f, &error));
  test_error(&error, 2, "--fix: sp: 2: expected on or off (1 or 0)");
  f = fixed_none();
  ck_assert(!fixed_parse("--fix", "tp=on", &f, &error));
  test_error(&error, 2, "--fix: tp: on: expected an integer from 1 to 10000000");
  f = fixed_none();
  ck_assert(!fixed_parse("--fix", "sp=on,sp=off", &f, &error));
  test_error(&error, 2, "--fix: sp: off: expected each key once");
  f = fixed_none();
  ck_assert(!fixed_parse("--fix", "tp=x", &f, &error));
  test_error(&error, 2, "--fix: tp: x: expected an integer from 1 to 10000000");
  f = fixed_none();
  ck_assert(!fixed_parse("--fix", "zero=4", &f, &error));
  test_error(&error, 2, "--fix: zero: 4: expected an integer from 0 to 3");
  f = fixed_none();
  ck_assert(!fixed_parse("--fix", "tp", &f, &error));
  test_error(&error, 2, "--fix: tp: no value: expected KEY=VALUE, as in tp=8,zero=1");
  f = fixed_none();
  ck_assert(!fixed_parse("--fix", "tp=8,tp=4", &f, &error));
  test_error(&error, 2, "--fix: tp: 4: expected each key once");
  f = fixed_none();
  ck_assert(!fixed_parse("--fix", "", &f, &error));
  test_error(&error, 2, "--fix: \"\": no value: expected KEY=VALUE, as in tp=8,zero=1");
  f = fixed_none();
  ck_assert(!fixed_parse("--fix", "precision=fp8", &f, &error));
  test_error(&error, 2, "--fix: precision: fp8: expected the option --precision to say it");
  f = fixed_none();
  ck_assert(!fixed_parse("--why-not", "gbs=8", &f, &error));
  test_error(&error, 2, "--why-not: gbs: 8: expected the option --global-batch to say it");
  f = fixed_none();
  ck_assert(!fixed_parse("--fix", "fsdp=8", &f, &error));
  ck_assert(g_str_has_suffix(error->message, "; did you mean \"zero\"?"));
  g_clear_error(&error);
  f = fixed_none();
  ck_assert(!fixed_parse("--fix", "tq=8", &f, &error));
  test_error(&error, 2, "--fix: tq: 8: expected one of the keys tp, pp, vpp, split_rank, dp, cp, cp_comm, cp_a2a, "
                        "ep, etp, dispatcher, mbs, schedule, order, zero, shard, reshard, offload, offload_layers, optimizer, "
                        "sp, "
                        "tp_overlap, ep_overlap, graph, recompute, bf16_start, bf16_end, param_gather, overlap; did you mean \"tp\"?");
}
END_TEST

/* Each number of each key is a question, however little sense it makes: answered, or refused by a rule. */
START_TEST(fix_takes_any_number)
{
  g_autoptr(Model) model = fixture_model(4, 512, 8, 128, 512);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  Plan base = plan_default(model, framework);

  base.gpus = 8;
  base.global_batch = 16;
  for (int id = KEY_OTHER + 1; id < KEY_COUNT; id++) {
    const PlanKey *key = plan_key_of(id);
    for (int value = 0; (key->fix == FIX_NUMBER || key->fix == FIX_COUNT) && value <= 33; value++)
      for (int zero = -1; zero <= 1; zero += 2) {
        SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1 };
        g_autofree char *text = g_strdup_printf("%s=%d", key->shorter, value);
        if (!fixed_parse("--fix", text, &options.fixed, NULL))
          continue;
        if (id != KEY_ZERO)
          options.fixed.value[KEY_ZERO] = zero;
        g_autoptr(SearchResult) found = search(model, cluster, &options, NULL);
        if (found->best->len > 0)
          ck_assert_int_eq(plan_check(&g_array_index(found->best, Found, 0).plan, model, cluster, NULL), RULE_NONE);
      }
  }
}
END_TEST

START_TEST(fix_holds)
{
  Instance in;
  GRand *rand = test_rand(5);

  instance_init(&in, rand);
  in.cluster->device.memory_bytes = 1e12;
  ck_assert(cluster_resize(in.cluster, 8, NULL));
  in.base.gpus = 8;
  ck_assert(fixed_parse("--fix", "tp=2,dp=4,zero=3,mbs=1", &in.options.fixed, NULL));
  g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options, NULL);
  ck_assert_uint_gt(r->best->len, 0);
  for (guint i = 0; i < r->best->len; i++) {
    const Plan *p = &g_array_index(r->best, Found, i).plan;
    ck_assert(p->tp == 2 && p->dp == 4 && p->zero == 3 && p->micro_batch == 1);
  }
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

static SearchResult *search_fixed(const char *framework_name, const char *fix)
{
  g_autoptr(Model) model = fixture_model(4, 512, 8, 128, 512);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework(framework_name);
  Plan base = plan_default(model, framework);
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1 };

  base.gpus = 8;
  base.global_batch = 16;
  ck_assert(fixed_parse("--fix", fix, &options.fixed, NULL));
  return search(model, cluster, &options, NULL);
}

/* Whether the first plan that is found has this stage of ZeRO. */
static gboolean finds_stage(const char *framework_name, const char *fix, int zero)
{
  g_autoptr(SearchResult) found = search_fixed(framework_name, fix);

  ck_assert_msg(found->best->len > 0, "%s", fix);
  const Plan *p = &g_array_index(found->best, Found, 0).plan;
  ck_assert_int_eq(p->optimizer.name, OPTIMIZER_SGD);
  ck_assert_int_eq(p->dp, 8);
  return p->zero == zero;
}

/* Megatron's distributed optimizer and that on the host are Adam's; who asks for SGD and a stage of ZeRO gets both. */
START_TEST(sgd_is_whole_where_it_must_be)
{
  ck_assert(finds_stage("megatron-core-2026", "optimizer=sgd,dp=8", 0));
  ck_assert(finds_stage("nemo-2026-08", "optimizer=sgd,dp=8", 0));
  g_autoptr(SearchResult) hosted = search_fixed("megatron-core-2026", "optimizer=sgd,dp=8,offload=1");
  ck_assert_uint_eq(hosted->best->len, 0);
  for (int zero = 0; zero <= 3; zero++) {
    g_autofree char *fix = g_strdup_printf("optimizer=sgd,dp=8,zero=%d", zero);
    ck_assert(finds_stage("megatron-core-2026", fix, zero));
  }
}
END_TEST

/* Moments in bf16 by themselves are asked for only of frameworks that run such plans. */
START_TEST(moments_alone_are_of_some_frameworks)
{
  static const struct {
    const char *framework;
    gboolean can;
  } cases[] = { { "megatron-core-2026", TRUE }, { "fsdp", TRUE }, { "deepspeed", FALSE }, { "torchtitan", FALSE } };
  g_autoptr(Model) model = fixture_llama(4, 512, 8, 8, 128, 512);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 2);

  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Framework) framework = fixture_framework(cases[i].framework);
    Plan plan = plan_default(model, framework);
    plan.dp = plan.gpus = plan.global_batch = 2;
    plan.zero = framework->zero_max;
    plan.optimizer.formats[STATE_EXP_AVG] = plan.optimizer.formats[STATE_EXP_AVG_SQ] = FORMAT_BF16;
    gboolean runs = plan_check(&plan, model, cluster, NULL) == RULE_NONE &&
                    plan_excluded(&plan, model, cluster, framework) == 0;
    ck_assert_int_eq(runs, cases[i].can);
    ck_assert_int_eq(space_can(framework, SPACE_STATES), cases[i].can);
  }
}
END_TEST

/* Weights are gathered in 8 bits only where the optimizer writes them so, which with delayed scales none does with narrow moments. */
START_TEST(narrow_moments_are_legal)
{
  GRand *rand = test_rand(6);
  int moments = 0, gathers = 0;

  for (int k = 0; k < 8; k += test_stride()) {
    Instance in;
    instance_framework_init(&in, rand, "megatron-core-2026");
    cluster_free(in.cluster);
    in.cluster = fixture_cluster("dgx-h100", in.base.gpus);
    in.base.products = PRODUCTS_FP8;
    in.options.space = SPACE_STATES;
    ck_assert(fixed_parse("--fix", "pp=1,mbs=1", &in.options.fixed, NULL));
    g_autoptr(GArray) plans = instance_plans(&in);
    for (guint i = 0; i < plans->len; i++) {
      const Plan *p = &g_array_index(plans, Plan, i);
      gboolean narrow = p->optimizer.formats[STATE_EXP_AVG] == FORMAT_BF16;
      ck_assert_int_eq(plan_check(p, in.model, in.cluster, NULL), RULE_NONE);
      ck_assert(!narrow || plan_recipe(p) != FP8_DELAYED || !plan_gathers_narrow(p));
      moments += narrow;
      gathers += plan_gathers_narrow(p);
    }
    instance_clear(&in);
  }
  ck_assert_int_gt(moments, 0);
  ck_assert_int_gt(gathers, 0);
  g_rand_free(rand);
}
END_TEST

/* Whether every plan of a question to a framework, with states and layers on the host, has each number that is fixed. */
static gboolean all_have(GRand *rand, const char *framework, const char *fix)
{
  Instance in;
  gboolean have = TRUE;

  instance_framework_init(&in, rand, framework);
  in.options.space = SPACE_OFFLOAD;
  ck_assert(fixed_parse("--fix", fix, &in.options.fixed, NULL));
  g_autoptr(GArray) plans = instance_plans(&in);
  for (guint i = 0; i < plans->len; i++)
    for (int id = KEY_OTHER + 1; id < KEY_COUNT; id++) {
      const PlanKey *key = plan_key_of(id);
      int fixed = in.options.fixed.value[id];
      gboolean number = key->field.type == JSON_INT || key->field.type == JSON_BOOL;
      if (number && fixed >= 0)
        have &= G_STRUCT_MEMBER(int, &g_array_index(plans, Plan, i), key->field.offset) == fixed;
    }
  instance_clear(&in);
  return have;
}

START_TEST(all_plans_have_what_is_fixed)
{
  static const char *const fixes[] = { "ep_overlap=1", "ep_overlap=0,sp=1", "tp_overlap=1", "mbs=2,sp=0",
                                       "offload_layers=1", "offload_layers=0,cp=1", "dp=2,zero=1", "ep=2" };
  GRand *rand = test_rand(7);

  for (gsize i = 0; i < G_N_ELEMENTS(fixes); i++)
    for (int k = 0; k < 12; k += test_stride())
      ck_assert_msg(all_have(rand, k % 2 ? "megatron-core-2026" : "torchtitan", fixes[i]), "%s", fixes[i]);
  g_rand_free(rand);
}
END_TEST

/* Where states go says nothing of activations: those of layers go to the host beside states that are fixed there. */
START_TEST(layers_go_beside_fixed_states)
{
  static const char *const fixes[] = { "offload=none", "offload=optimizer" };
  GRand *rand = test_rand(8);

  for (gsize i = 0; i < G_N_ELEMENTS(fixes); i++) {
    int hosted = 0;
    for (int k = 0; k < 8; k += test_stride()) {
      Instance in;
      instance_framework_init(&in, rand, "megatron-core-2026");
      in.base.graph = GRAPH_NONE;
      in.options.space = SPACE_OFFLOAD;
      ck_assert(fixed_parse("--fix", "pp=1,graph=none", &in.options.fixed, NULL));
      ck_assert(fixed_parse("--fix", fixes[i], &in.options.fixed, NULL));
      g_autoptr(GArray) plans = instance_plans(&in);
      for (guint n = 0; n < plans->len; n++) {
        const Offload *o = &g_array_index(plans, Plan, n).offload;
        ck_assert_int_eq(o->optimizer, i == 0 ? STORE_DEVICE : STORE_CPU);
        hosted += o->layers > 0;
      }
      instance_clear(&in);
    }
    ck_assert_int_gt(hosted, 0);
  }
  g_rand_free(rand);
}
END_TEST

/* Bit i: stage i with the optimizer on the host is in the space of a plan on so many devices. */
static guint hosted_stages(const char *framework_name, int devices, guint space, const char *fixed)
{
  g_autoptr(Model) model = model_load("models/gemma-2-2b.json", NULL);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", devices);
  g_autoptr(Framework) framework = fixture_framework(framework_name);
  Plan base = plan_default(model, framework);
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .space = space, .top = 1, .threads = 1 };
  StateChoice states[STATE_CHOICES];
  guint stages = 0;

  ck_assert(!*fixed || fixed_parse("--fix", fixed, &options.fixed, NULL));
  base.gpus = base.dp = devices;
  int n = space_states(&options, model, cluster, &base, states);
  for (int i = 0; i < n; i++)
    stages |= states[i].offload == 1 ? 1u << states[i].zero : 0;
  return stages;
}

/* Where no ZeRO-3 gathers, and where it does, no state reads and writes less around sums of gradients than the first,
 * which stands for all in bounds: of frameworks whose shards do, were they divided over groups, too. */
START_TEST(first_states_move_least)
{
  static const char *const names[] = { "tdp-run", "torchtitan", "fsdp", "deepspeed", "megatron-core" };
  GRand *rand = test_rand(7700);
  int more = 0;

  for (gsize i = 0; i < 100 * G_N_ELEMENTS(names); i++) {
    Instance in;
    StateChoice states[STATE_CHOICES];
    double first[2][2] = { { -1, -1 }, { -1, -1 } };
    instance_framework_init(&in, rand, names[i % G_N_ELEMENTS(names)]);
    in.framework->shard_gradient_bytes = 4;
    in.framework->shard_sum_bytes = 12;
    in.options.space = g_rand_int_range(rand, 0, 16);
    if (g_rand_boolean(rand))
      in.options.fixed.value[KEY_ZERO] = g_rand_int_range(rand, 0, in.framework->zero_max + 1);
    Plan plan = in.base;
    plan.dp = plan.gpus;
    plan.ep = model_has_experts(in.model) ? MIN(2, plan.gpus) : 1;
    int n = space_states(&in.options, in.model, in.cluster, &plan, states);
    for (int k = 0; k < n; k++) {
      PassLayout passes;
      double *least = first[states[k].zero == 3];
      plan.zero = states[k].zero;
      plan.shard_group = states[k].shard_group;
      pass_layout_init(&passes, &plan);
      for (int experts = 0; experts < 2; experts++) {
        least[experts] = least[experts] < 0 ? passes.shard_bytes[experts] : least[experts];
        ck_assert_double_ge(passes.shard_bytes[experts], least[experts]);
        more += passes.shard_bytes[experts] > least[experts];
      }
    }
    instance_clear(&in);
  }
  ck_assert_int_gt(more, 10);
  g_rand_free(rand);
}
END_TEST

/* On one rank ZeRO-2 with the optimizer on the host is a plan of its own where gradients leave as they are made. */
START_TEST(stages_on_one_rank_differ)
{
  ck_assert_uint_eq(hosted_stages("megatron-core-2026", 1, SPACE_OFFLOAD, ""), 1);
  ck_assert_uint_eq(hosted_stages("megatron-core-2026", 1, SPACE_OFFLOAD | SPACE_STATES, ""), 1);
  ck_assert_uint_eq(hosted_stages("megatron-core-2026", 1, SPACE_OFFLOAD, "zero=2"), 4);
  ck_assert_uint_eq(hosted_stages("megatron-core-2026", 1, 0, "offload=optimizer"), 1);
  ck_assert_uint_eq(hosted_stages("deepspeed", 1, SPACE_OFFLOAD, ""), 1 | 4);
  ck_assert_uint_eq(hosted_stages("megatron-core-2026", 2, SPACE_OFFLOAD, "") & 4, 4);
}
END_TEST

/* Without what stays on the device alone the space has all else that offload adds, and nothing but that where activations
 * stay there. */
START_TEST(host_alone_leaves_out_what_stays)
{
  static const char *const frameworks[] = { "torchtitan", "deepspeed", "megatron-core-2026" };
  GRand *rand = test_rand(9);
  guint left_out = 0;

  for (int k = 0; k < 9; k++) {
    Instance in;
    instance_framework_init(&in, rand, frameworks[k % 3]);
    in.options.space = SPACE_OFFLOAD;
    g_autoptr(GArray) wide = instance_plans(&in);
    in.options.space |= SPACE_HOST_ALONE;
    g_autoptr(GArray) alone = instance_plans(&in);
    guint met = 0;
    for (guint i = 0; i < wide->len; i++) {
      const Plan *plan = &g_array_index(wide, Plan, i);
      gboolean stays = met == alone->len || !plan_same(plan, &g_array_index(alone, Plan, met));
      ck_assert(!stays || !offload_any(&plan->offload));
      ck_assert(k % 3 > 0 || stays != offload_any(&plan->offload));
      met += !stays;
      left_out += stays;
    }
    ck_assert_uint_eq(met, alone->len);
    instance_clear(&in);
  }
  ck_assert_uint_gt(left_out, 0);
  g_rand_free(rand);
}
END_TEST

TEST_MAIN("search_fix", fix_is_read, fix_takes_any_number, fix_holds, sgd_is_whole_where_it_must_be,
          moments_alone_are_of_some_frameworks, narrow_moments_are_legal, all_plans_have_what_is_fixed, layers_go_beside_fixed_states,
          stages_on_one_rank_differ, host_alone_leaves_out_what_stays, first_states_move_least)
