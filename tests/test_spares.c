/* Nodes that are away: closed forms beside draws that know nothing of them, and the question that uses them. */
#include "main.h"

#include "ask/question.h"
#include "search_instance.h"
#include "sim/simulate.h"
#include "training/spares.h"

#include <gsl/gsl_randist.h>
#include <math.h>

#define BREAKS 400000
#define PLACES 64

/* Nodes break at rate 1 for good; each is away for a drawn time of this mean: the share of breaks that find more than n
 * others away, which is that of time. With `places` a node that finds all of them taken does not break. */
static void draw_away(double load, gboolean same_times, int places, double more[PLACES])
{
  gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
  static double back[PLACES * 4];
  double now = 0;
  int away = 0;

  gsl_rng_set(rng, 7);
  for (int i = 0; i < PLACES; i++)
    more[i] = 0;
  for (int i = 0; i < BREAKS; i++) {
    now += gsl_ran_exponential(rng, 1);
    for (int j = away - 1; j >= 0; j--)
      if (back[j] <= now)
        back[j] = back[--away];
    for (int n = 0; n < away; n++)
      more[n] += 1.0 / BREAKS;
    if (away < places)
      back[away++] = now + (same_times ? load : gsl_ran_exponential(rng, load));
  }
  gsl_rng_free(rng);
}

/* Within 1 %, whatever the times of repairs are like. */
START_TEST(closed_forms)
{
  double load = _i / 2 ? 2.5 : 0.6, more[PLACES], sum = 0;

  draw_away(load, _i % 2, PLACES * 4, more);
  for (int n = 0; n < 3; n++)
    ck_assert_double_eq_tol(more[n], away_more(n, load), 0.01);
  for (int n = 0; n < 40; n++)
    sum += away_just(n, load);
  ck_assert_double_eq_tol(sum, 1, 1e-9);
  for (int spares = 0; spares < 4; spares++) {
    draw_away(load, _i % 2, spares + 1, more);
    ck_assert_double_eq_tol(more[spares], spares_wait(spares, load), 0.01);
  }
  ck_assert_double_eq(away_more(0, 0), 0);
  ck_assert_double_eq(spares_wait(3, 0), 0);
}
END_TEST

static int column(const Answer *a, const char *key)
{
  int at = 0;

  while (g_strcmp0(a->columns[at].key, key) != 0)
    ck_assert_int_lt(++at, a->n_columns);
  return at;
}

static double cell(const Answer *a, int row, const char *key)
{
  return answer_value(a, row, column(a, key));
}

/* Fewer nodes are never faster, another plan is never slower than the same, nothing is faster than the nodes that are
 * left; what is asked of all nodes is the whole cluster's best plan. */
START_TEST(lost_nodes)
{
  Accuracy *accuracy = accuracy_load(NULL);
  Model *model = fixture_known_model("llama-2-7b");
  Cluster *cluster = fixture_cluster("dgx-h100", 64);
  Framework *framework = fixture_framework("megatron-core");
  Operations operations;
  Plan base = plan_default(model, framework);

  ck_assert(operations_load(OPERATIONS_USUAL, &operations, NULL));
  operations.restart_s = 0;
  base.gpus = 64;
  base.global_batch = 512;
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1, .objective = &objectives[0] };
  Asked asked = { .model = model, .cluster = cluster, .options = &options, .accuracy = accuracy,
                  .operations = &operations };
  Found best;
  ck_assert(ask_best(model, cluster, &options, 64, &best));
  g_autoptr(Answer) a = answer_lost_nodes(&asked);
  ck_assert_int_ge(answer_rows(a), 4);
  ck_assert_double_eq_tol(cell(a, 0, "iteration_s"), best.metrics.iteration_s, best.metrics.iteration_s * 1e-9);
  ck_assert_double_eq(cell(a, 0, "change"), 0);
  for (int i = 0; i < (int)answer_rows(a); i++) {
    double share = (64 - 8 * i) / 64.0, batch = cell(a, i, "global_batch_size");
    ck_assert_double_eq(cell(a, i, "nodes"), 8 - i);
    ck_assert(isnan(cell(a, i, "same_change")) || cell(a, i, "same_change") <= cell(a, i, "change"));
    ck_assert(fabs(batch / 512 - 1) <= 0.1);
    ck_assert_double_le(1 + cell(a, i, "change"), share * 1.1);
    ck_assert_double_le(cell(a, i, "spare_waits_change"), cell(a, i, "change"));
    ck_assert_double_le(cell(a, i, "spare_change"), cell(a, i, "change") + 1e-12);
    if (i > 0)
      ck_assert_double_le(cell(a, i, "change"), cell(a, i - 1, "change"));
  }
  accuracy_free(accuracy);
  framework_free(framework);
  cluster_free(cluster);
  model_free(model);
}
END_TEST

/* Pipelines of 16 or 32 GPUs, which the best plans of eight nodes have, do not divide five: cut down, they leave a node
 * idle. */
START_TEST(lost_nodes_search_where_cuts_leave_much)
{
  Accuracy *accuracy = accuracy_load(NULL);
  Model *model = fixture_known_model("llama-3.1-70b");
  Cluster *cluster = fixture_cluster("dgx-h100", 64);
  Framework *framework = fixture_framework("megatron-core-2026");
  Operations operations;
  Plan base = plan_default(model, framework), fewer;

  ck_assert(operations_load(OPERATIONS_USUAL, &operations, NULL));
  base.gpus = 64;
  base.global_batch = 512;
  fewer = base;
  fewer.global_batch = 520;
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1, .objective = &objectives[0] };
  options.fixed.value[KEY_TP] = 8;
  SearchOptions known = options;
  Asked asked = { .model = model, .cluster = cluster, .options = &options, .accuracy = accuracy,
                  .operations = &operations };
  Found best;
  known.base = &fewer;
  ck_assert(ask_best(model, cluster, &known, 40, &best));
  g_autoptr(Answer) a = answer_lost_nodes(&asked);
  ck_assert_double_eq(cell(a, 3, "nodes"), 5);
  ck_assert_double_eq(cell(a, 3, "global_batch_size"), 520);
  ck_assert_double_eq_tol(cell(a, 3, "iteration_s"), best.metrics.iteration_s, best.metrics.iteration_s * 1e-9);
  accuracy_free(accuracy);
  framework_free(framework);
  cluster_free(cluster);
  model_free(model);
}
END_TEST

TEST_LOOPS("spares", { closed_forms, 4 }, { lost_nodes }, { lost_nodes_search_where_cuts_leave_much })
