/* Weights and rows of 8-bit products that ranks gather in 8 bits: what they keep, what travels, who can, and that
 * searches do. */
#include "main.h"
#include "planned.h"

#include "import/launch.h"
#include "plan/keys.h"
#include "search/search.h"

#include <glib/gstdio.h>

static void setup(Planned *f, const char *framework, int zero)
{
  planned_init(f, fixture_llama(4, 1024, 16, 8, 512, 1000), fixture_cluster("dgx-h100", 8), framework);
  planned_spread(f, 1);
  plan_set_format(&f->plan, DTYPE_FP8);
  f->plan.zero = zero;
}

/* Bytes of a weight of 8-bit products: kept on a rank of 8, gathered. Others are as in 16 bits. */
static void check_bytes(Planned *f, ParamGather gather, double kept, double gathered)
{
  f->plan.param_gather = gather;
  planned_accept(f);
  const StateLayout *s = STATES(&f->plan);
  double wide = f->framework->shards_main_params && s->zero == 3 ? 4 : 2;
  ck_assert_double_eq_tol(op_states(s).weights, wide / (s->zero == 3 ? 8 : 1), 1e-12);
  ck_assert_double_eq_tol(op_states(s).weights + op_narrow_states(s, &f->cluster->device), kept, 1e-12);
  ck_assert_double_eq_tol(op_gathered_bytes(s, 5, 1), gathered + 4 * 2, 1e-12);
}

/* Rows and columns in 8 bits beside 16 bits, or alone; what Transformer Engine casts in a step's first micro-batch stays
 * whole where FSDP divides 16-bit weights, and leaves with those that are 8-bit themselves. */
START_TEST(megatron_keeps_what_it_gathers)
{
  Planned f;

  for (int zero = 1; zero <= 3; zero++) {
    setup(&f, "megatron-core", zero);
    double divided = zero < 3 ? 1 : 8;
    check_bytes(&f, GATHER_USUAL, 2 / divided + 2, 2);
    check_bytes(&f, GATHER_NARROW, zero < 3 ? 2 : 1 / divided, 1);
    f.framework->param_gathers_usual = f.framework->param_gathers;
    check_bytes(&f, GATHER_USUAL, zero < 3 ? 2 : 1 / divided, 1);
    check_bytes(&f, GATHER_WIDE, 2 / divided + 2, 2);
    f.framework->fp8_weight_cache = FALSE;
    check_bytes(&f, GATHER_WIDE, 2 / divided + (zero < 3 ? 2 : 0), 2);
    planned_clear(&f);
  }
}
END_TEST

/* Weights of a rank, and what it gathers of them at a time. */
static void weigh(Planned *f, double *weights, double *gathered)
{
  *gathered = 0;
  planned_build(f);
  *weights = f->program->rows[0].static_bytes[PART_WEIGHTS];
  for (guint i = 0; i < f->program->segments->len; i++) {
    const Segment *s = &g_array_index(f->program->segments, Segment, i);
    *gathered += s->kind == TASK_GATHER ? s->comm_bytes : 0;
  }
}

static double bytes_named(const Planned *f, const char *name, gboolean backward)
{
  return planned_op_bytes(f, 1, name, backward);
}

/* A cluster, or a GPU in place of a B200. */
static Cluster *nodes_of(const char *name)
{
  gboolean alone = g_str_equal(name, "mi355x");
  Cluster *cluster = fixture_cluster(alone ? "hgx-b200" : name, 8);

  if (alone) {
    device_clear(&cluster->device);
    ck_assert(device_load(name, &cluster->device, NULL));
  }
  return cluster;
}

/* Where products read either factor by rows or columns, scales of whole tensors need one layout: 8 bits alone where
 * weights are gathered in them, else beside 16. Another device that scales blocks keeps two, as scales of blocks do. */
START_TEST(one_layout_is_enough)
{
  static const struct { const char *cluster; Fp8Recipe recipe; double layout; int layouts; double cast; } cases[] = {
    { "hgx-b200", FP8_DELAYED, 1, 1, 3 }, { "hgx-b200", FP8_CURRENT, 1, 1, 5 }, { "gb300-nvl72", FP8_CURRENT, 1, 1, 5 },
    { "mi355x", FP8_CURRENT, 1, 2, 6 }, { "dgx-h100", FP8_DELAYED, 1, 2, 4 },
    { "hgx-b200", FP8_MXFP8, 1 + 1.0 / 32, 2, 2 + 2 * (1 + 1.0 / 32) },
  };
  Planned f;

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const double copies = cases[i].layout * cases[i].layouts;
    planned_init(&f, fixture_llama(4, 1024, 16, 8, 512, 1000), nodes_of(cases[i].cluster), "megatron-core");
    planned_spread(&f, 1);
    plan_set_format(&f.plan, DTYPE_FP8);
    f.plan.fp8_recipe = cases[i].recipe;
    f.plan.zero = 1;
    check_bytes(&f, GATHER_WIDE, 2 + copies, 2);
    if (cases[i].recipe != FP8_MXFP8)
      check_bytes(&f, GATHER_NARROW, copies, 1);
    ck_assert_double_eq_tol(op_weight_cast_bytes(STATES(&f.plan), &f.cluster->device), cases[i].cast, 1e-12);
    f.plan.zero = 3;
    check_bytes(&f, GATHER_WIDE, 2 / 8.0 + copies, 2);
    planned_clear(&f);
  }
}
END_TEST

/* torchao transposes whatever the device. */
START_TEST(torchtitan_has_two_layouts)
{
  double casts[2];

  for (int i = 0; i < 2; i++) {
    Planned f;
    planned_init(&f, fixture_llama(4, 1024, 16, 16, 1024, 1024), fixture_cluster(i ? "hgx-b200" : "dgx-h100", 8),
                 "torchtitan");
    planned_spread(&f, 2);
    planned_divide(&f, 4, 1, 2);
    f.plan.sequence_parallel = TRUE;
    plan_set_format(&f.plan, DTYPE_FP8);
    f.plan.fp8_recipe = FP8_TENSORWISE;
    planned_accept(&f);
    casts[i] = bytes_named(&f, "cast", FALSE) + bytes_named(&f, "cast gradient", TRUE) +
               bytes_named(&f, "transpose", TRUE);
    planned_clear(&f);
  }
  ck_assert_double_gt(casts[0], 0);
  ck_assert_double_eq_tol(casts[1], casts[0], 1e-3);
}
END_TEST

/* The whole model's weights, as a program holds them: its blocks' matrices once less than on Hopper. */
START_TEST(programs_hold_one_layout)
{
  const double narrow = 32 * (4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 3 * 4096.0 * 14336);
  double weights[2], gathered;

  for (int i = 0; i < 2; i++) {
    Planned f;
    planned_init(&f, fixture_known_model("llama-3.1-8b"), fixture_cluster(i ? "hgx-b200" : "dgx-h100", 8),
                 "megatron-core");
    planned_spread(&f, 1);
    plan_set_format(&f.plan, DTYPE_FP8);
    f.plan.zero = 1;
    planned_accept(&f);
    weigh(&f, &weights[i], &gathered);
    planned_run(&f); /* whose memory no bound may pass */
    planned_clear(&f);
  }
  ck_assert_double_eq_tol(weights[0] - weights[1], narrow, 1e-9 * narrow);
}
END_TEST

/* A distributed optimizer of mxfp8 gathers 16 bits and casts behind; FSDP keeps both layouts divided, and gathers one. */
START_TEST(mxfp8_is_cast_behind)
{
  const double mx = 1 + 1.0 / 32;
  Planned f;

  for (int zero = 1; zero <= 3; zero += 2) {
    planned_init(&f, fixture_llama(4, 1024, 16, 8, 512, 1000), fixture_cluster("hgx-b200", 8), "megatron-core");
    planned_spread(&f, 1);
    plan_set_format(&f.plan, DTYPE_FP8);
    f.plan.fp8_recipe = FP8_MXFP8;
    f.plan.zero = zero;
    check_bytes(&f, GATHER_NARROW, zero < 3 ? 2 * mx : 2 * mx / 8, zero < 3 ? 2 : mx);
    planned_clear(&f);
  }
}
END_TEST

/* In NVFP4: rows and columns of 4 bits with a byte of scales for 16; values alone travel, as every rank makes the scales.
 * The distributed optimizer writes them, FSDP does not. */
START_TEST(four_bits_travel)
{
  const double copies = 2 * (0.5 + 1.0 / 16);
  Planned f;

  planned_init(&f, fixture_llama(4, 1024, 16, 8, 512, 1000), fixture_cluster("hgx-b200", 8), "nemo-2026-06");
  planned_spread(&f, 1);
  plan_set_format(&f.plan, DTYPE_FP4);
  f.plan.zero = 1;
  check_bytes(&f, GATHER_USUAL, copies, 0.5);
  check_bytes(&f, GATHER_NARROW, copies, 0.5);
  check_bytes(&f, GATHER_WIDE, 2 + copies, 2);
  f.plan.param_gather = GATHER_USUAL;
  double weights, gathered, wide, all;
  weigh(&f, &weights, &gathered);
  f.plan.param_gather = GATHER_WIDE;
  weigh(&f, &wide, &all);
  ck_assert_double_eq_tol((wide - weights) / 2, (all - gathered) / 1.5, 1); /* of the blocks' matrices alone */
  ck_assert_double_gt(all - gathered, 0);
  f.plan.zero = 3;
  check_bytes(&f, GATHER_USUAL, 2 / 8.0 + copies, 2);
  f.plan.param_gather = GATHER_NARROW;
  planned_refuse(&f, RULE_PRECISION, "plan: fp8_param_gather: true: expected zero_stage 1, it is 3");
  f.plan.zero = 1;
  f.plan.offload.optimizer = STORE_CPU;
  planned_refuse(&f, RULE_PRECISION, "plan: fp8_param_gather: true: expected false where the optimizer is offloaded");
  planned_clear(&f);
  planned_init(&f, fixture_llama(4, 1024, 16, 8, 512, 1000), fixture_cluster("hgx-b200", 8), "nemo-2026-04");
  planned_spread(&f, 1);
  plan_set_format(&f.plan, DTYPE_FP4);
  f.plan.zero = 1;
  check_bytes(&f, GATHER_USUAL, 2 + copies, 2);
  f.plan.param_gather = GATHER_NARROW;
  planned_refuse(&f, RULE_PRECISION, "plan: fp8_param_gather: true: expected false, nemo-2026-04 gathers in 16 bits under "
                                     "nvfp4");
  planned_clear(&f);
}
END_TEST

/* torchao's weights stay in 16 bits, and travel in 8 by scales of whole tensors. */
START_TEST(torchtitan_gathers_alone)
{
  Planned f;

  setup(&f, "torchtitan", 3);
  double kept = 4 / 8.0;
  check_bytes(&f, GATHER_USUAL, kept, 1);
  check_bytes(&f, GATHER_NARROW, kept, 1);
  check_bytes(&f, GATHER_WIDE, kept, 2);
  f.plan.param_gather = GATHER_USUAL;
  Metrics narrow = planned_run(&f);
  f.plan.param_gather = GATHER_WIDE;
  Metrics wide = planned_run(&f);
  ck_assert_double_lt(narrow.iteration_s, wide.iteration_s);
  f.plan.fp8_recipe = FP8_ROWWISE;
  check_bytes(&f, GATHER_USUAL, kept, 2);
  planned_clear(&f);
}
END_TEST

/* What 8 bits save, and copies add, is of the blocks' matrices and the experts' alone: embedding, output layer, norms and
 * routers stay in 16. */
static void check_ends(const char *model, int ep, double params, double narrow, double experts)
{
  for (int zero = 1; zero <= 3; zero += 2)
    for (int on = 0; on < 2; on++) {
      Planned f;
      double weights, gathered, own = params - experts, shares = zero == 3 ? 8 : 1;
      planned_init(&f, fixture_known_model(model), fixture_cluster("dgx-h100", 8), "megatron-core");
      planned_spread(&f, 1);
      plan_set_format(&f.plan, DTYPE_FP8);
      f.plan.ep = ep;
      f.plan.zero = zero;
      f.plan.param_gather = on ? GATHER_NARROW : GATHER_WIDE;
      planned_accept(&f);
      weigh(&f, &weights, &gathered);
      /* each rank's experts are its own */
      double dense = 2 * own / shares + (on ? narrow * ((1 - 2) / shares + (zero < 3 ? 1 : 0)) : 2 * narrow);
      double theirs = experts / ep * (on ? 1 + (zero < 3 ? 1 : 0) : 2 + 2);
      ck_assert_double_eq_tol(weights, dense + theirs, 1e-9 * params);
      ck_assert_double_eq_tol(gathered, 2 * own - (on ? narrow : 0), 1e-9 * params);
      planned_clear(&f);
    }
}

START_TEST(ends_stay_in_16_bits)
{
  const double attention = 4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096, expert = 3 * 4096.0 * 14336;

  check_ends("llama-3.1-8b", 1, 8030261248, 32 * (attention + expert), 0);
  check_ends("mixtral-8x7b", 8, 46702792704, 32 * attention, 32 * 8 * expert);
}
END_TEST

#define WRITER "plan: fp8_param_gather: true: expected an optimizer of Adam's kind with main weights in fp32, which alone " \
               "writes such weights"
#define DELAYED_WRITER "plan: fp8_param_gather: true: expected an optimizer of Adam's kind with main weights and moments in " \
                       "fp32, which alone writes such weights"

START_TEST(rules)
{
  Planned f;

  setup(&f, "megatron-core", 0);
  f.plan.param_gather = GATHER_NARROW;
  planned_refuse(&f, RULE_PRECISION, "plan: fp8_param_gather: true: expected zero_stage 1 or more, it is 0");
  f.plan.zero = 1;
  planned_accept(&f);
  f.plan.offload.optimizer = STORE_CPU;
  planned_accept(&f);
  f.plan.fp8_recipe = FP8_CURRENT;
  planned_refuse(&f, RULE_PRECISION, "plan: fp8_param_gather: true: expected false where the optimizer is offloaded, "
                                     "unless fp8_recipe is delayed");
  f.plan.offload.optimizer = STORE_DEVICE;
  planned_accept(&f);
  f.plan.optimizer.formats[STATE_MAIN_GRADS] = FORMAT_BF16; /* as Megatron-LM's train_llama3_8b_h100_fp8.sh has them */
  f.plan.fp8_recipe = FP8_DELAYED;
  planned_accept(&f);
  f.plan.optimizer.formats[STATE_EXP_AVG] = f.plan.optimizer.formats[STATE_EXP_AVG_SQ] = FORMAT_BF16;
  planned_refuse(&f, RULE_PRECISION, DELAYED_WRITER);
  f.plan.fp8_recipe = FP8_CURRENT;
  f.plan.optimizer.formats[STATE_MAIN_PARAMS] = FORMAT_FP32;
  planned_accept(&f);
  ck_assert(STATES(&f.plan)[0].gathers_narrow);
  f.plan.optimizer.formats[STATE_MAIN_PARAMS] = FORMAT_BF16;
  planned_refuse(&f, RULE_PRECISION, WRITER);
  f.plan.optimizer = optimizer_default();
  f.plan.optimizer.remainders = TRUE;
  planned_refuse(&f, RULE_PRECISION, WRITER);
  f.plan.optimizer = optimizer_default();
  f.plan.optimizer.name = OPTIMIZER_MUON;
  planned_refuse(&f, RULE_PRECISION, WRITER);
  f.plan.optimizer = optimizer_default();
  f.plan.fp8_recipe = FP8_NONE;
  plan_set_format(&f.plan, DTYPE_BF16);
  planned_refuse(&f, RULE_PRECISION, "plan: fp8_param_gather: expected nothing under precision bf16");
  planned_clear(&f);
  setup(&f, "torchtitan", 2);
  f.plan.param_gather = GATHER_NARROW;
  planned_refuse(&f, RULE_PRECISION, "plan: fp8_param_gather: true: expected zero_stage 3, it is 2");
  f.plan.zero = 3;
  f.plan.param_gather = GATHER_USUAL;
  ck_assert(STATES(&f.plan)[0].gathers_narrow && !STATES(&f.plan)[1].gathers_narrow); /* experts are no linear layers */
  f.plan.optimizer.name = OPTIMIZER_MUON; /* of no matter where weights are kept in 16 bits */
  ck_assert(plan_gathers_narrow(&f.plan));
  f.plan.optimizer = optimizer_default();
  f.plan.param_gather = GATHER_NARROW;
  f.plan.fp8_recipe = FP8_ROWWISE;
  planned_refuse(&f, RULE_PRECISION, "plan: fp8_param_gather: true: expected false, torchtitan gathers in 16 bits under "
                                     "rowwise");
  planned_clear(&f);
}
END_TEST

START_TEST(frameworks_have_their_recipes)
{
  static const struct {
    const char *framework;
    guint usual; /* bit i is Fp8Recipe i */
  } cases[] = { { "megatron-core", 0 }, { "megatron-core-2026", 0 }, { "nemo-2024-11", 1u << FP8_DELAYED },
                { "nemo-2025-05", 1u << FP8_DELAYED | 1u << FP8_CURRENT },
                { "nemo-2026-04", 1u << FP8_DELAYED | 1u << FP8_CURRENT | 1u << FP8_MXFP8 },
                { "nemo-2026-08", 1u << FP8_DELAYED | 1u << FP8_CURRENT | 1u << FP8_MXFP8 | 1u << FP8_NVFP4 },
                { "megatron-core-dev-2026", 1u << FP8_DELAYED | 1u << FP8_CURRENT | 1u << FP8_MXFP8 },
                { "torchtitan", 1u << FP8_TENSORWISE }, { "fsdp", 0 }, { "deepspeed", 0 } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Framework) f = fixture_framework(cases[i].framework);
    ck_assert_uint_eq(f->param_gathers_usual, cases[i].usual);
    ck_assert_uint_eq(f->param_gathers_usual & ~f->param_gathers, 0);
  }
  const char *const without[] = { "megatron-2023", "megatron-2024", "megatron-core-2024", "tdp-run", "deepspeed" };
  for (gsize i = 0; i < G_N_ELEMENTS(without); i++) {
    g_autoptr(Framework) f = fixture_framework(without[i]);
    ck_assert_uint_eq(f->param_gathers, 0);
  }
}
END_TEST

/* Of a file from before the key: under every recipe of fp8, as fp8_primary alone meant. */
START_TEST(older_files_mean_the_same)
{
  g_autofree char *folder = test_directory(), *path = g_build_filename(folder, "own.json", NULL);

  for (int primary = 0; primary < 2; primary++) {
    g_autofree char *text = g_strdup_printf("{ \"name\": \"own\", \"like\": \"megatron-core\", \"fp8_primary\": %s, "
                                            "\"source\": {} }", primary ? "true" : "false");
    ck_assert(g_file_set_contents(path, text, -1, NULL));
    g_autoptr(Framework) f = framework_load(path, NULL);
    ck_assert_ptr_nonnull(f);
    for (int recipe = FP8_DELAYED; recipe < FP8_COUNT; recipe++)
      ck_assert_uint_eq(f->param_gathers_usual >> recipe & 1, primary && recipe != FP8_NVFP4);
  }
  g_unlink(path);
  g_rmdir(folder);
}
END_TEST

/* States that lack it are found with it: Muon's, and those of an optimizer on the host under current scales. */
START_TEST(searches_leave_it_where_it_cannot_be)
{
  g_autoptr(Model) model = fixture_model(4, 1024, 16, 512, 1024);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core-2026");

  for (int muon = 0; muon < 2; muon++) {
    Plan base = plan_default(model, framework);
    SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1 };
    base.gpus = base.global_batch = 8;
    plan_set_format(&base, DTYPE_FP8);
    base.fp8_recipe = FP8_CURRENT;
    base.optimizer.name = muon ? OPTIMIZER_MUON : OPTIMIZER_ADAM;
    options.fixed.value[KEY_OFFLOAD] = !muon;
    options.fixed.value[KEY_ZERO] = 1;
    g_autoptr(SearchResult) r = search(model, cluster, &options, NULL);
    ck_assert_int_eq(r->best->len, 1);
    const Plan *found = &g_array_index(r->best, Found, 0).plan;
    ck_assert_int_eq(plan_check(found, model, cluster, NULL), RULE_NONE);
    ck_assert(!plan_gathers_narrow(found));
  }
}
END_TEST

/* Wherever it can be, unless it is fixed; no plan that lacks it is faster or smaller, so the best of both is the best
 * with it. */
START_TEST(searches_turn_it_on)
{
  static const char *const names[] = { "megatron-core", "torchtitan", "nemo-2025-05" };

  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autoptr(Model) model = fixture_model(4, 1024, 16, 512, 1024);
    g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 8);
    g_autoptr(Framework) framework = fixture_framework(names[i]);
    Plan base = plan_default(model, framework);
    double best[3];
    base.gpus = base.global_batch = 8;
    plan_set_format(&base, DTYPE_FP8);
    for (int fixed = -1; fixed <= 1; fixed++) {
      SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1 };
      options.fixed.value[KEY_PARAM_GATHER] = fixed;
      options.fixed.value[KEY_ZERO] = 3;
      options.fixed.value[KEY_PP] = 1;
      g_autoptr(SearchResult) r = search(model, cluster, &options, NULL);
      ck_assert_int_eq(r->best->len, 1);
      const Found *found = &g_array_index(r->best, Found, 0);
      ck_assert_int_eq(plan_check(&found->plan, model, cluster, NULL), RULE_NONE);
      ck_assert_int_eq(plan_gathers_narrow(&found->plan), fixed != 0);
      best[fixed + 1] = found->value;
    }
    ck_assert_double_eq(best[0], best[2]);
    ck_assert_double_lt(best[0], best[1]);
  }
}
END_TEST

/* Where the stage can, in 4 bits: only the distributed optimizer's. */
START_TEST(searches_gather_4_bits)
{
  g_autoptr(Model) model = fixture_model(4, 1024, 16, 512, 1024);
  g_autoptr(Cluster) cluster = fixture_cluster("hgx-b200", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core-2026");
  Plan base = plan_default(model, framework);

  base.gpus = base.global_batch = 8;
  plan_set_format(&base, DTYPE_FP4);
  for (int zero = 1; zero <= 3; zero++) {
    SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1 };
    options.fixed.value[KEY_ZERO] = zero;
    options.fixed.value[KEY_PP] = 1;
    g_autoptr(SearchResult) r = search(model, cluster, &options, NULL);
    ck_assert_int_eq(r->best->len, 1);
    const Found *found = &g_array_index(r->best, Found, 0);
    ck_assert_int_eq(plan_check(&found->plan, model, cluster, NULL), RULE_NONE);
    ck_assert_int_eq(plan_gathers_narrow(&found->plan), zero == 1);
  }
}
END_TEST

/* What torchtitan's sections of both names mean. */
START_TEST(files_of_the_tools_are_read)
{
  static const struct {
    const char *own, *has, *has_not;
  } cases[] = {
    { "[\"quantize.linear.float8\"]\n", "\"fp8_param_gather\": false", "fp8_recipe" },
    { "[\"quantize.linear.float8\"]\n[quantize.linear.float8]\n"
      "enable_fsdp_float8_all_gather = true\n", "\"precision\": \"fp8\"", "fp8_param_gather" },
    { "[\"float8\"]\n[float8]\nenable_fsdp_float8_all_gather = true\n",
      "\"precision\": \"fp8\"", "fp8_param_gather" },
    { "[\"float8\"]\n[float8]\nrecipe_name = \"rowwise\"\n", "\"fp8_recipe\": \"rowwise\"",
      "fp8_param_gather" },
    { "[\"quantize.linear.mx\"]\n", "\"fp8_recipe\": \"mxfp8\"", "fp8_param_gather" },
    { "[\"quantize.linear.nvfp4\"]\n", "\"precision\": \"fp4\"", "fp8_recipe" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\n"
                                            "tensor_parallel_degree = 1\n[model]\nname = \"llama3\"\n"
                                            "flavor = \"8B\"\nconverters = %s", cases[i].own);
    g_autoptr(Launch) l = launch_read(text, "run.toml", &(LaunchOptions) { 8 }, NULL);
    ck_assert_ptr_nonnull(l);
    ck_assert_msg(strstr(l->plan, cases[i].has) != NULL, "no %s in %s", cases[i].has, l->plan);
    ck_assert_msg(!strstr(l->plan, cases[i].has_not), "%s in %s", cases[i].has_not, l->plan);
  }
}
END_TEST

#define H 1024.0

/* Under sequence parallelism rows that ranks gather in 8 bits are cast before, each rank's own; scales of a whole tensor
 * are by all ranks, and its columns are made of the gathered rows, but where products take either; with scales of blocks
 * gradients travel as rows and as columns. Of a block of width H and 3 H inside: inputs of qkv and up are gathered, and
 * gradients of the projection's and down's outputs. */
static const struct {
  Fp8Recipe recipe;
  const char *cluster;
  double made, gradient, column; /* of a gathered value: cast, cast as a gradient, made behind; in a rank's own, in all */
  double value, layouts;         /* that travel */
  int meetings;
} gathered[] = {
  { FP8_DELAYED, "dgx-h100", 0, 3, 2, 1, 1, 0 },
  { FP8_CURRENT, "dgx-h100", 5, 5, 2, 1, 1, 4 },
  { FP8_DELAYED, "hgx-b200", 0, 3, 0, 1, 1, 0 },
  { FP8_CURRENT, "hgx-b200", 5, 5, 0, 1, 1, 4 },
  { FP8_CURRENT, "mi355x", 5, 5, 2, 1, 1, 4 },
  { FP8_BLOCKWISE, "dgx-h100", 2 + 2 * (1 + 1 / 32.0), 2 + 2 * (1 + 1 / 32.0), 0, 1 + 1 / 32.0, 2, 0 },
  { FP8_MXFP8, "hgx-b200", 2 + 2 * (1 + 1 / 32.0), 2 + 2 * (1 + 1 / 32.0), 0, 1 + 1 / 32.0, 2, 0 },
};

START_TEST(gathered_rows_are_cast_before)
{
  const double tokens = 1024, tp = 4, values = tokens * H;
  Planned f;

  planned_init(&f, fixture_llama(4, 1024, 16, 16, 1024, 1024), nodes_of(gathered[_i].cluster), "megatron-core");
  planned_spread(&f, 2);
  planned_divide(&f, (int)tp, 1, 2);
  f.plan.sequence_parallel = TRUE;
  plan_set_format(&f.plan, DTYPE_FP8);
  f.plan.fp8_recipe = gathered[_i].recipe;
  planned_accept(&f);
  double inner = (gathered[_i].recipe == FP8_DELAYED ? 3 : gathered[_i].made) + (gathered[_i].column > 0);
  double unmade = (1 + 3) * values / tp; /* the projection's and down's inputs, which no rank gathers */
  ck_assert_double_eq_tol(bytes_named(&f, "cast", FALSE), 2 * gathered[_i].made * values / tp + inner * unmade, 1e-3);
  ck_assert_double_eq_tol(bytes_named(&f, "gather output gradient", TRUE),
                          2 * values * gathered[_i].value * gathered[_i].layouts, 1e-3);
  ck_assert_double_eq_tol(bytes_named(&f, "gather rows", FALSE), 2 * values * gathered[_i].value, 1e-3);
  ck_assert_double_eq_tol(bytes_named(&f, "transpose", TRUE), 4 * gathered[_i].column * values, 1e-3);
  ck_assert_double_eq(bytes_named(&f, "largest value", FALSE) + bytes_named(&f, "largest value", TRUE),
                      4.0 * gathered[_i].meetings);
  f.plan.sequence_parallel = FALSE; /* nothing is gathered */
  ck_assert_double_eq(bytes_named(&f, "transpose", TRUE) + bytes_named(&f, "largest value", FALSE), 0);
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("param gather", { megatron_keeps_what_it_gathers }, { one_layout_is_enough },
           { torchtitan_has_two_layouts }, { programs_hold_one_layout }, { mxfp8_is_cast_behind },
           { four_bits_travel }, { torchtitan_gathers_alone },
           { ends_stay_in_16_bits }, { rules }, { frameworks_have_their_recipes }, { older_files_mean_the_same },
           { files_of_the_tools_are_read }, { searches_leave_it_where_it_cannot_be }, { searches_turn_it_on }, { searches_gather_4_bits },
           { gathered_rows_are_cast_before, G_N_ELEMENTS(gathered) })
