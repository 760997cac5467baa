/*
 * A stop is heard everywhere: what is done between two looks at it is counted, not timed. The linker puts the functions
 * here in the place of those that work is made of (Makefile).
 */
#include "main.h"

#include "ask/explain.h"
#include "ask/layer_strategies.h"
#include "ask/placement.h"
#include "ask/question.h"
#include "ask/strategy.h"
#include "program/balance.h"
#include "search/bound.h"
#include "search/polish.h"
#include "search_instance.h"
#include "sim/simulate.h"

/* What was done since the last look: simulations and splits of layers; prices and sweeps over a schedule; bounds. */
typedef enum { HEAVY, MIDDLE, LIGHT, WEIGHTS } Weight;

/* The most of each that one unit of work may come to. */
static const int allowed[WEIGHTS] = { 2, 4, 100 };

static struct {
  int done[WEIGHTS], most[WEIGHTS];
  int looks, stop_at; /* stop_at: the look that is answered with a stop; 0 = none */
} seen;

static void note(Weight weight)
{
  seen.done[weight]++;
  seen.most[weight] = MAX(seen.most[weight], seen.done[weight]);
}

#define COUNTED(weight, type, name, parameters, arguments) \
  type __real_##name parameters;                           \
  type __wrap_##name parameters;                           \
  type __wrap_##name parameters                            \
  {                                                        \
    note(weight);                                          \
    return __real_##name arguments;                        \
  }

COUNTED(HEAVY, Trace *, simulate, (const Program *program), (program))
COUNTED(HEAVY, gboolean, balance_by_room,
        (const Model *model, const Cluster *cluster, const Layout *layout, const PriceTable *prices, LayerSplit *split),
        (model, cluster, layout, prices, split))
COUNTED(HEAVY, gboolean, balance_by_time,
        (const Model *model, const PassLayout *passes, int stages, const PriceTable *prices, LayerSplit *split),
        (model, passes, stages, prices, split))
COUNTED(MIDDLE, PriceTable *, price_table_new, (const Model *model, const Layout *layout, const Cluster *cluster),
        (model, layout, cluster))
COUNTED(MIDDLE, PriceTable *, price_table_described, (const Model *model, const Layout *layout, const Cluster *cluster),
        (model, layout, cluster))
COUNTED(MIDDLE, double, bound_time_by_order,
        (const Model *model, const Layout *layout, const Cluster *cluster, const PriceSums *sums),
        (model, layout, cluster, sums))
COUNTED(LIGHT, const PriceSums *, price_cache_sums, (PriceCache *cache, const PassLayout *passes), (cache, passes))
COUNTED(LIGHT, double, bound_time,
        (const Model *model, const Layout *layout, const Cluster *cluster, const PriceSums *sums, BoundEnds *ends),
        (model, layout, cluster, sums, ends))

static gboolean asks(gpointer data)
{
  (void)data;
  memset(seen.done, 0, sizeof seen.done);
  return ++seen.looks == seen.stop_at;
}

static void check_most(const char *what)
{
  for (int weight = 0; weight < WEIGHTS; weight++)
    ck_assert_msg(seen.most[weight] <= allowed[weight], "%s, stopped at look %d of %d: %d of weight %d between two looks",
                  what, seen.stop_at, seen.looks, seen.most[weight], weight);
}

/* What takes long, and listens. */
typedef struct {
  const char *name;
  void (*run)(Instance *in);
} Phase;

/* Of a search: all is counted, and what is best fits and was simulated. */
static void check_result(const SearchResult *r)
{
  gint64 settled = r->bounded + r->simulated + r->open;

  for (int i = 0; i < REJECT_COUNT; i++)
    settled += r->rejected[i];
  ck_assert_int_eq(settled, r->space);
  ck_assert(r->halted == (seen.stop_at > 0 && seen.looks >= seen.stop_at));
  ck_assert(r->halted || (r->open == 0 && !r->cut));
  ck_assert(r->gap >= 0 && r->gap <= 1);
  ck_assert(r->gap == 0 || r->open > 0 || r->cut);
  for (guint i = 0; i < r->best->len; i++) {
    const Found *f = &g_array_index(r->best, Found, i);
    ck_assert(f->metrics.iteration_s > 0 && f->metrics.peak_memory_bytes <= f->metrics.capacity_bytes);
  }
}

static void run_search(Instance *in)
{
  g_autoptr(SearchResult) r = search(in->model, in->cluster, &in->options, NULL);
  check_result(r);
}

static void run_ties(Instance *in)
{
  in->options.tie = 0.1;
  in->options.refine = in->options.over = TRUE;
  in->options.top = 5;
  run_search(in);
}

static void run_pareto(Instance *in)
{
  in->options.second = objective_find("memory");
  run_search(in);
}

static void run_nothing(Instance *in)
{
  in->cluster->device.memory_bytes = 1e8;
  g_autoptr(SearchResult) r = search(in->model, in->cluster, &in->options, NULL);
  check_result(r);
  ck_assert_uint_eq(r->best->len, 0);
  if (!r->has_least)
    return;
  g_autofree char *why = explain_nothing(r, in->model, in->cluster, &in->options);
  if (stop_heard(in->options.stop))
    ck_assert_ptr_null(strstr(why, "was found to do"));
}

static void run_questions(Instance *in)
{
  Operations operations;
  ck_assert(operations_load(OPERATIONS_USUAL, &operations, NULL));
  Asked asked = { in->model, in->cluster, &in->options, 1e9, NULL, &operations };

  for (const Question *q = questions; q->name; q++) {
    g_autoptr(Answer) a = q->answer(&asked);
    const char *says = a->says->str;
    gboolean known = strstr(says, "needs at least") || strstr(says, "can hold") || strstr(says, "in steps of");
    ck_assert_msg(!stop_heard(in->options.stop) || known || strstr(says, "Stopped"), "%s: %s", q->name, says);
  }
  g_autoptr(Answer) counts = answer_counts(&asked, 1);
  in->options.second = objective_find("memory");
  g_autoptr(Answer) front = answer_front(&asked, 1);
  if (stop_heard(in->options.stop))
    ck_assert_ptr_nonnull(strstr(front->says->str, "Stopped"));
}

/* What goes on from a plan: a balanced one, so that each has some to do. */
static void run_behind(Instance *in)
{
  Plan plan = in->base, better;
  Stop *stop = in->options.stop;

  plan.pp = MIN(in->base.gpus, 2);
  plan.dp = in->base.gpus / plan.pp;
  if (plan.global_batch % plan.dp != 0 || plan_check(&plan, in->model, in->cluster, NULL) != RULE_NONE)
    return;
  g_autoptr(Trace) trace = simulate_plan(in->model, in->cluster, &plan);
  memset(seen.done, 0, sizeof seen.done);
  g_autoptr(Polished) polished = polish_plan(in->model, in->cluster, &plan, trace, stop, 1);
  Result r = result_of(in->model, in->cluster, &plan, trace);
  ck_assert_double_le(polished->metrics.iteration_s, r.metrics.iteration_s);
  ck_assert(polished->halted == stop_heard(stop));
  g_autofree char *layers = explain_layerwise(&r, r.metrics.iteration_s, stop, &better);
  Asked asked = { in->model, in->cluster, &in->options, 0, NULL };
  Found found = { .plan = plan, .metrics = r.metrics };
  g_autofree char *rule = strategy_text(&asked, &found);
}

static const Phase phases[] = {
  { "search", run_search }, { "ties and beyond", run_ties }, { "front", run_pareto }, { "nothing fits", run_nothing },
  { "questions", run_questions }, { "behind the search", run_behind },
};

static void run(const Phase *phase, guint seed, int stop_at)
{
  GRand *rand = g_rand_new_with_seed(seed);
  Stop stop = { asks };
  Instance in;

  memset(&seen, 0, sizeof seen);
  seen.stop_at = stop_at;
  (seed % 2 ? instance_small_init : instance_latent_init)(&in, rand);
  in.options.threads = 1;
  in.options.objective = &objectives[0];
  in.options.stop = &stop;
  phase->run(&in);
  check_most(phase->name);
  instance_clear(&in);
  g_rand_free(rand);
}

/* Stopped at none, then at looks all over each phase, of each seed at others. */
START_TEST(little_is_done_between_looks)
{
  const Phase *phase = &phases[_i];
  guint seeds = test_stride() > 1 ? 2 : 4; /* of each kind of model one */
  int all = 0, parts = test_stride() > 1 ? 2 : 4;

  for (guint seed = 700; seed < 700 + seeds; seed++) {
    run(phase, seed, 0);
    int looks = seen.looks, step = 1 + looks / parts;
    all += looks;
    for (int at = 1 + (seed - 700) * step / seeds; at <= looks; at += step)
      run(phase, seed, at);
  }
  ck_assert_int_gt(all, 100);
}
END_TEST

/* Spaces as large as people ask for: a model with experts, many layers in few devices, two types of nodes. */
START_TEST(large_spaces_are_left_soon)
{
  static const struct { const char *model, *cluster, *framework; int devices; } asked[] = {
    { "qwen3-30b-a3b", "dgx-h100", "megatron-core-2026", 16 }, { "gpt3", "dgx", "megatron-core", 64 },
    { "opt-2.7b", "a100-v100-mixed", "megatron-core", 48 } };
  Instance in = { .model = fixture_known_model(asked[_i].model),
                  .cluster = fixture_cluster(asked[_i].cluster, asked[_i].devices),
                  .framework = fixture_framework(asked[_i].framework) };

  in.base = plan_default(in.model, in.framework);
  in.base.gpus = asked[_i].devices;
  in.base.global_batch = 96;
  for (int stop_at = 0, looks = 0, again = 0; again < 4; again++) {
    Stop stop = { asks };
    memset(&seen, 0, sizeof seen);
    seen.stop_at = stop_at;
    in.options = (SearchOptions) { .base = &in.base, .fixed = fixed_none(), .top = 5, .threads = 1, .stop = &stop };
    run_ties(&in);
    check_most(asked[_i].model);
    looks = again == 0 ? seen.looks : looks;
    stop_at = looks * (again + 1) / 4;
  }
  instance_clear(&in);
}
END_TEST

TEST_LOOPS("stop", { large_spaces_are_left_soon, 3, TRUE }, { little_is_done_between_looks, G_N_ELEMENTS(phases) })
