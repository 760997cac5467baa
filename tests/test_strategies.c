/* Strategies by layer: keys, rules, prices, memory, programs and simulations against the plans they are made of. */
#include "cost/redistribute.h"
#include "main.h"
#include "planned.h"
#include "program_check.h"
#include "sim/simulate.h"

/* 2 stages of 2 x 4 devices, 4 blocks each. */
static void setup(Planned *f)
{
  planned_init(f, fixture_llama(8, 1024, 16, 16, 512, 1024), fixture_cluster("dgx-a100-40gb", 16), "galvatron");
  f->plan.gpus = 16;
  f->plan.tp = f->plan.pp = f->plan.micro_batch = 2;
  f->plan.dp = 4;
  f->plan.global_batch = 32;
}

static void add_run(Planned *f, int layers, int tp, gboolean sp, int zero, Recompute recompute)
{
  ck_assert(strategies_append(&f->plan.strategies, (StrategyRun) { tp, layers, sp, zero, recompute }));
}

START_TEST(what_is_written_is_read)
{
  Planned f;
  Plan back;
  Framework *framework = NULL;
  JsonWriter w;
  g_autoptr(GString) text = g_string_new(NULL);

  setup(&f);
  add_run(&f, 3, 4, TRUE, 3, RECOMPUTE_FULL);
  add_run(&f, 5, 1, FALSE, 0, RECOMPUTE_NONE);
  planned_accept(&f);
  json_writer_init(&w, text);
  plan_write(&f.plan, &w, NULL);
  ck_assert(plan_parse(text->str, text->len, "p.json", f.model, &back, &framework, NULL));
  ck_assert_int_eq(back.strategies.n, 2);
  for (int i = 0; i < 2; i++) {
    ck_assert(!strategies_differ(&back.strategies.runs[i], &f.plan.strategies.runs[i]));
    ck_assert_int_eq(back.strategies.runs[i].layers, f.plan.strategies.runs[i].layers);
  }
  framework_free(framework);
  planned_clear(&f);
}
END_TEST

static const struct {
  const char *keys, *message;
} wrong[] = {
  { "[]", "p.json: layer_strategies: []: expected a list of 1 to 64 objects" },
  { "[3]", "p.json: layer_strategies[0]: 3: expected an object with layers and what differs from the plan" },
  { "[{\"zero_stage\": 1}]", NULL },
  { "[{\"layers\": 8, \"zero\": 1}]", NULL },
};

START_TEST(wrong_keys_are_refused)
{
  GError *error = NULL;
  Planned f;
  Plan p;
  Framework *framework = NULL;

  setup(&f);
  g_autofree char *text = g_strdup_printf("{\"layer_strategies\": %s}", wrong[_i].keys);
  ck_assert(!plan_parse(text, strlen(text), "p.json", f.model, &p, &framework, &error));
  if (wrong[_i].message)
    ck_assert_str_eq(error->message, wrong[_i].message);
  g_error_free(error);
  planned_clear(&f);
}
END_TEST

START_TEST(rules)
{
  Planned f;

  setup(&f);
  add_run(&f, 7, 2, FALSE, 1, RECOMPUTE_NONE);
  planned_refuse(&f, RULE_STRATEGIES, "plan: layer_strategies: 7 layers: expected the model's 8");
  add_run(&f, 1, 8, FALSE, 1, RECOMPUTE_NONE);
  planned_accept(&f);
  f.plan.strategies.runs[1].tp = 3;
  planned_refuse(&f, RULE_STRATEGIES, "plan: layer_strategies[1].tensor_model_parallel_size: 3: expected a divisor or "
                                      "multiple of 2 under which the 8 devices have whole shares of 4 x "
                                      "micro_batch_size 2 sequences");
  f.plan.strategies.runs[1].tp = 1;
  f.plan.strategies.runs[1].sequence_parallel = TRUE;
  planned_refuse(&f, RULE_STRATEGIES, "plan: layer_strategies[1]: sequence_parallel: true: expected "
                                      "tensor_model_parallel_size above 1, it is 1");
  f.plan.strategies.runs[1].sequence_parallel = FALSE;
  f.plan.balanced = TRUE;
  planned_refuse(&f, RULE_STRATEGIES, "plan: layer_strategies: expected layer_split as a list beside them");
  f.plan.balanced = FALSE;
  f.plan.optimizer.name = OPTIMIZER_MUON;
  planned_refuse(&f, RULE_OPTIMIZER, "plan: optimizer: \"muon\": expected one that galvatron runs");
  f.plan.optimizer = optimizer_default();
  f.plan.optimizer.formats[STATE_EXP_AVG] = FORMAT_BF16;
  planned_refuse(&f, RULE_OPTIMIZER, "plan: exp_avg_dtype: \"bf16\": expected nothing, galvatron has no choice");
  f.plan.optimizer = optimizer_default();
  f.plan.products = PRODUCTS_FP8;
  f.plan.strategies.n = 0;
  ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), RULE_PRECISION);
  f.plan.products = PRODUCTS_PLAIN;
  add_run(&f, 8, 2, FALSE, 1, RECOMPUTE_NONE);
  f.framework->strategies = FALSE;
  planned_refuse(&f, RULE_STRATEGIES, "plan: layer_strategies: expected none, galvatron runs one strategy for all "
                                      "layers");
  planned_clear(&f);
}
END_TEST

/* Runs that say what the plan says change nothing. */
START_TEST(one_strategy_is_the_plan)
{
  Planned f;

  setup(&f);
  f.plan.zero = _i % 4;
  f.plan.recompute = _i / 4 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
  Metrics plain = planned_run(&f);
  add_run(&f, 8, 2, FALSE, f.plan.zero, f.plan.recompute);
  Metrics layered = planned_run(&f);
  ck_assert_double_eq(plain.iteration_s, layered.iteration_s);
  ck_assert_double_eq(plain.peak_memory_bytes, layered.peak_memory_bytes);
  planned_clear(&f);
}
END_TEST

/* The plan as the layer's run has it. */
static Plan plan_of_layer(const Plan *plan, int layer)
{
  const StrategyRun own = plan_run(plan);
  int end = 1;

  for (int i = 0; i < plan->strategies.n && layer >= 1; i++)
    if (layer < (end += plan->strategies.runs[i].layers))
      return plan_of_run(plan, &plan->strategies.runs[i]);
  return plan_of_run(plan, &own);
}

/* A layer takes what it takes in its own plan, and the change of layout in front of it. */
START_TEST(prices_are_those_of_their_plans)
{
  Planned f;

  setup(&f);
  add_run(&f, 2, 4, TRUE, 0, RECOMPUTE_NONE);
  add_run(&f, 6, 2, FALSE, 1, RECOMPUTE_FULL);
  planned_accept(&f);
  Plan four = plan_of_layer(&f.plan, 1), two = plan_of_layer(&f.plan, 3), own = plan_of_layer(&f.plan, 0);
  ck_assert_int_eq(four.dp, 2);
  ck_assert_int_eq(four.micro_batch, 4);
  ck_assert_int_eq(plan_micro_batches(&four), plan_micro_batches(&f.plan));
  g_autoptr(PriceTable) of_four = price_table_new(f.model, LAYOUT(&four), f.cluster);
  g_autoptr(PriceTable) of_two = price_table_new(f.model, LAYOUT(&two), f.cluster);
  g_autoptr(PriceTable) all = price_table_new(f.model, LAYOUT(&f.plan), f.cluster);
  const LayerPrice *block4 = price_of_layer(of_four, f.model, 0, 1), *block2 = price_of_layer(of_two, f.model, 0, 1);
  const LayerPrice *first = price_of_layer(all, f.model, 0, 1), *second = price_of_layer(all, f.model, 0, 2);
  const LayerPrice *third = price_of_layer(all, f.model, 0, 3), *fourth = price_of_layer(all, f.model, 0, 4);
  double up = redistribute_s(f.model, PASSES(&own), PASSES(&four), f.cluster);
  double down = redistribute_s(f.model, PASSES(&four), PASSES(&own), f.cluster);

  ck_assert_double_gt(up, 0);
  ck_assert_double_gt(down, 0); /* its rows are divided */
  ck_assert_double_eq(first->pass[PASS_FORWARD].seconds, block4->pass[PASS_FORWARD].seconds + up);
  ck_assert_double_eq(first->pass[PASS_BACKWARD].seconds, block4->pass[PASS_BACKWARD].seconds + down);
  ck_assert_double_eq(first->pass[PASS_WEIGHT].seconds, block4->pass[PASS_WEIGHT].seconds);
  ck_assert_double_eq(first->pass[PASS_FORWARD].compute_s, block4->pass[PASS_FORWARD].compute_s);
  ck_assert_double_eq(second->pass[PASS_FORWARD].seconds, block4->pass[PASS_FORWARD].seconds);
  ck_assert_double_eq(third->pass[PASS_FORWARD].seconds, block2->pass[PASS_FORWARD].seconds + down);
  ck_assert_double_eq(third->pass[PASS_BACKWARD].seconds, block2->pass[PASS_BACKWARD].seconds + up);
  ck_assert_double_eq(fourth->pass[PASS_FORWARD].seconds, block2->pass[PASS_FORWARD].seconds);
  ck_assert_double_eq(first->saved_bytes, block4->saved_bytes);
  ck_assert_double_eq(third->saved_bytes, block2->saved_bytes);
  planned_clear(&f);
}
END_TEST

/* States of an optimizer beyond those of each parameter, of a layer in its own plan. */
static double extra_bytes(const Plan *view, const Model *model, const Cluster *cluster, int layer)
{
  g_autoptr(PriceTable) prices = price_table_new(model, LAYOUT(view), cluster);
  double bytes = price_of_layer(prices, model, 0, layer)->optimizer[0].state_bytes;

  return bytes / (view->zero > 0 ? plan_shards(view) : 1);
}

static const OptimizerName with_states[] = { OPTIMIZER_ADAM, OPTIMIZER_ADAFACTOR, OPTIMIZER_ADAM8BIT, OPTIMIZER_MUON };

/* What a rank keeps for its weights is each layer's parameters times its plan's bytes, and what the optimizer has
 * for the layer's matrices as that plan divides them. */
START_TEST(states_add_up)
{
  Planned f;

  setup(&f);
  f.framework->optimizers = ~0u;
  f.plan.optimizer.name = with_states[_i];
  add_run(&f, 1, 4, FALSE, 3, RECOMPUTE_NONE);
  add_run(&f, 4, 2, FALSE, 1, RECOMPUTE_NONE);
  add_run(&f, 3, 1, FALSE, 2, RECOMPUTE_NONE);
  planned_build(&f);
  for (int stage = 0; stage < 2; stage++) {
    StateBytes sum = { 0 };
    int end = plan_stage_first_layer(&f.plan, f.model, stage + 1);
    for (int i = plan_stage_first_layer(&f.plan, f.model, stage); i < end; i++) {
      Plan view = plan_of_layer(&f.plan, i);
      StateBytes states = op_states(STATES(&view));
      double params = price_of_layer(f.prices, f.model, 0, i)->params;
      sum.weights += params * states.weights;
      sum.gradients += params * states.gradients;
      sum.optimizer += params * states.optimizer + extra_bytes(&view, f.model, f.cluster, i);
    }
    const double *bytes = f.program->rows[stage].static_bytes;
    ck_assert_double_eq_tol(bytes[PART_WEIGHTS], sum.weights, 1e-6 * sum.weights);
    ck_assert_double_eq_tol(bytes[PART_GRADIENTS], sum.gradients, 1e-6 * sum.gradients);
    ck_assert_double_eq_tol(bytes[PART_OPTIMIZER], sum.optimizer, 1e-6 * sum.optimizer);
  }
  planned_clear(&f);
}
END_TEST

/* Bytes that go over groups of so many ranks, of a kind, from one row's tasks. */
static double moved_bytes(const Program *p, int row, TaskKind kind, int group)
{
  double bytes = 0;

  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = &g_array_index(p->tasks, Task, i);
    const Segment *s = &g_array_index(p->segments, Segment, t->segment);
    bytes += t->row == row && t->kind == kind && s->group.size == group ? s->comm_bytes : 0;
  }
  return bytes;
}

/* Gradients go over each layer's own ranks, with every micro-batch where they are divided; weights
 * under ZeRO-3 are gathered twice a micro-batch. */
START_TEST(communication_over_own_groups)
{
  Planned f;

  setup(&f);
  f.plan.overlap.gradients = f.plan.overlap.parameters = _i;
  add_run(&f, 2, 4, FALSE, 3, RECOMPUTE_NONE);
  add_run(&f, 2, 1, FALSE, 0, RECOMPUTE_NONE);
  add_run(&f, 4, 2, FALSE, 0, RECOMPUTE_NONE);
  planned_build(&f);
  double four = price_of_layer(f.prices, f.model, 0, 1)->params, one = price_of_layer(f.prices, f.model, 0, 3)->params;
  double embedding = price_of_layer(f.prices, f.model, 0, 0)->params;
  double reduce = STATES(&f.plan)->reduce_bytes, m = plan_micro_batches(&f.plan);

  ck_assert_double_eq_tol(4 * four, one, 0.01 * one); /* norms are whole on each */
  ck_assert_double_eq(moved_bytes(f.program, 0, TASK_REDUCE, 2), m * 2 * four * reduce);
  ck_assert_double_eq(moved_bytes(f.program, 0, TASK_GATHER, 2), m * 2 * 2 * four * 2);
  ck_assert_double_eq(moved_bytes(f.program, 0, TASK_REDUCE, 8), 2 * one * reduce);
  ck_assert_double_eq(moved_bytes(f.program, 0, TASK_REDUCE, 4), embedding * reduce);
  ck_assert_double_eq(moved_bytes(f.program, 1, TASK_GATHER, 2), 0);
  planned_clear(&f);
}
END_TEST

/* Muon gathers momentum over the ranks that divide each layer's states, and orthogonalises it as their plan does: of
 * layers that all have one strategy, as that strategy's plan. */
START_TEST(muon_by_strategy)
{
  double step_s[2];
  Planned f;

  setup(&f);
  f.framework->optimizers = ~0u;
  f.framework->muon_whole_zero_max = 0;
  f.plan.optimizer.name = OPTIMIZER_MUON;
  add_run(&f, 2, 4, FALSE, 1, RECOMPUTE_NONE);
  add_run(&f, 2, 1, FALSE, 3, RECOMPUTE_NONE);
  add_run(&f, 4, 2, FALSE, 0, RECOMPUTE_NONE);
  planned_build(&f);
  const LayerPrice *four = price_of_layer(f.prices, f.model, 0, 1), *one = price_of_layer(f.prices, f.model, 0, 3);
  double m = plan_micro_batches(&f.plan);

  /* momentum in bf16, and updated weights at the step's end under ZeRO-1, each micro-batch's twice under ZeRO-3 */
  ck_assert_double_gt(four->optimizer[0].matrices, 0);
  ck_assert_double_eq(moved_bytes(f.program, 0, TASK_GATHER, 2), 2 * 2 * (four->optimizer[0].matrices + four->params));
  ck_assert_double_eq(moved_bytes(f.program, 0, TASK_GATHER, 8),
                      2 * 2 * (2 * one->optimizer[0].matrices + 2 * m * one->params));
  ck_assert_double_eq(moved_bytes(f.program, 1, TASK_GATHER, 4), 0);
  f.framework->muon_whole_zero_max = 1; /* ranks have whole matrices, of the first layer alone */
  planned_build(&f);
  four = price_of_layer(f.prices, f.model, 0, 1), one = price_of_layer(f.prices, f.model, 0, 3);
  ck_assert_double_eq(moved_bytes(f.program, 0, TASK_GATHER, 2), 2 * 2 * four->params);
  ck_assert_double_eq(moved_bytes(f.program, 0, TASK_GATHER, 8),
                      2 * 2 * (2 * one->optimizer[0].matrices + 2 * m * one->params));
  for (int i = 0; i < 2; i++) {
    f.plan.strategies.n = 0;
    if (i == 1)
      add_run(&f, 8, 2, FALSE, 0, RECOMPUTE_NONE);
    Metrics metrics = planned_run(&f);
    step_s[i] = metrics.iteration_s;
  }
  ck_assert_double_eq(step_s[0], step_s[1]);
  planned_clear(&f);
}
END_TEST

static gboolean draw_strategies(Planned *f, GRand *rand)
{
  static const int widths[] = { 1, 2, 4, 8 };
  const Schedule *schedules_of[] = { schedule_find("1f1b"), schedule_find("gpipe"), schedule_find("zb-h1"),
                                     schedule_find("interleaved") };
  const Schedule *schedule = schedules_of[g_rand_int_range(rand, 0, 4)];

  plan_set_schedule(&f->plan, schedule, schedule->max_chunks > 1 ? 2 : 1);
  f->plan.overlap.gradients = g_rand_boolean(rand);
  f->plan.overlap.parameters = g_rand_boolean(rand);
  f->plan.overlap.pipeline = g_rand_boolean(rand);
  f->plan.zero = g_rand_int_range(rand, 0, 4);
  f->plan.sharding.no_sync = FALSE;
  f->plan.strategies.n = 0;
  for (int left = 8, layers; left > 0; left -= layers) {
    int tp = widths[g_rand_int_range(rand, 0, 4)];
    layers = g_rand_int_range(rand, 1, left + 1);
    add_run(f, layers, tp, tp > 1 && g_rand_boolean(rand), g_rand_int_range(rand, 0, 4),
            g_rand_int_range(rand, 0, RECOMPUTE_COUNT));
  }
  return plan_check(&f->plan, f->model, f->cluster, NULL) == RULE_NONE;
}

/* Programs of any mixture are sound, give back what they take, and take no less than their longest path. */
START_TEST(any_mixture_runs)
{
  g_autoptr(GRand) rand = g_rand_new_with_seed(_i + 1);
  GError *error = NULL;
  Planned f;

  setup(&f);
  while (!draw_strategies(&f, rand))
    ;
  planned_build(&f);
  g_autofree char *label = plan_label(&f.plan);
  ck_assert_msg(program_check(f.program, &error), "%s: %s", label, error ? error->message : "");
  g_autoptr(Trace) trace = simulate(f.program);
  Metrics metrics;
  trace_metrics(trace, &metrics);
  ck_assert_msg(metrics.iteration_s >= longest_path(f.program, NULL) * (1 - 1e-12), "%s", label);
  ck_assert_double_gt(metrics.peak_memory_bytes, 0);
  planned_clear(&f);
}
END_TEST

/* Layers of two kinds in turn: no faster than all of the faster, no slower than all of the slower
 * with the changes between them; memory likewise. */
START_TEST(mixtures_lie_between)
{
  double step[3], peak[3];
  Planned f;

  setup(&f);
  for (int i = 0; i < 3; i++) {
    f.plan.strategies.n = 0;
    f.plan.recompute = i == 1 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    if (i == 2) {
      add_run(&f, 2, 2, FALSE, 0, RECOMPUTE_FULL);
      add_run(&f, 2, 2, FALSE, 0, RECOMPUTE_NONE);
      add_run(&f, 2, 2, FALSE, 0, RECOMPUTE_FULL);
      add_run(&f, 2, 2, FALSE, 0, RECOMPUTE_NONE);
    }
    Metrics metrics = planned_run(&f);
    step[i] = metrics.iteration_s;
    peak[i] = metrics.peak_memory_bytes;
  }
  ck_assert_double_lt(step[0], step[2]);
  ck_assert_double_lt(step[2], step[1]);
  ck_assert_double_lt(peak[1], peak[2]);
  ck_assert_double_lt(peak[2], peak[0]);
  /* half of what recomputing all layers costs */
  ck_assert_double_eq_tol(step[2] - step[0], (step[1] - step[0]) / 2, 0.02 * (step[1] - step[0]));
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("strategies", { what_is_written_is_read }, { wrong_keys_are_refused, G_N_ELEMENTS(wrong) }, { rules },
           { one_strategy_is_the_plan, 8 }, { prices_are_those_of_their_plans },
           { states_add_up, G_N_ELEMENTS(with_states) },
           { communication_over_own_groups, 2 }, { muon_by_strategy }, { any_mixture_runs, 150, TRUE },
           { mixtures_lie_between })
