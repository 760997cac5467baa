/* Trainings beside one another: each row is the run that is asked for alone. */
#include "main.h"

#include "ask/training_run.h"
#include "ask/vary.h"
#include "search_instance.h"

#include <math.h>

#define DAY 86400.0

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Accuracy *accuracy;
  Plan base;
  SearchOptions options;
  Operations operations;
  Asked asked;
} Case;

static void setup(Case *c, const char *cluster, int devices)
{
  *c = (Case) { .model = fixture_known_model("tiny"), .cluster = fixture_cluster(cluster, devices),
                .framework = fixture_framework("megatron-core"), .accuracy = accuracy_load(NULL) };
  ck_assert(operations_load(OPERATIONS_USUAL, &c->operations, NULL));
  c->cluster->usd_per_device_hour = 2;
  c->base = plan_default(c->model, c->framework);
  c->base.gpus = devices;
  c->base.global_batch = 64;
  c->options = (SearchOptions) { .base = &c->base, .fixed = fixed_none(), .top = 1, .threads = 1,
                                 .objective = &objectives[0] };
  c->asked = (Asked) { .model = c->model, .cluster = c->cluster, .options = &c->options, .tokens = 1e12,
                       .accuracy = c->accuracy, .operations = &c->operations };
}

static void clear(Case *c)
{
  accuracy_free(c->accuracy);
  framework_free(c->framework);
  cluster_free(c->cluster);
  model_free(c->model);
}

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

static gboolean beaten(const Answer *a, int row)
{
  for (int i = 0; i < answer_rows(a); i++)
    if (i != row && cell(a, i, "days") <= cell(a, row, "days") && cell(a, i, "usd") <= cell(a, row, "usd"))
      return TRUE;
  return FALSE;
}

/* On each number of GPUs days and dollars are those of the question there; the front is what no other row beats. */
START_TEST(each_count_is_its_own_question)
{
  Case c;

  setup(&c, "dgx-h100", 32);
  c.asked.from = 4;
  g_autoptr(Answer) a = answer_training(&c.asked);
  ck_assert_int_eq(answer_rows(a), 4);
  c.asked.from = 0;
  for (int row = 0; row < 4; row++) {
    Cluster there = *c.cluster;
    Asked alone = c.asked;
    Run run;
    gboolean halted;
    ck_assert(cluster_resize(&there, 4 << row, NULL));
    ck_assert_int_eq(run_of(&alone, &there, &run, &halted), RUN_ENDS);
    ck_assert_int_eq(cell(a, row, "gpus"), 4 << row);
    ck_assert_double_eq(cell(a, row, "days"), run.summary.mean.total_s / DAY);
    ck_assert_double_eq(cell(a, row, "usd"), round(run.summary.mean.total_s / 3600 * 2 * (4 << row)));
    ck_assert_str_eq(answer_label(a, row, column(a, "front")), beaten(a, row) ? "-" : "yes");
  }
  clear(&c);
}
END_TEST

/* Of the runs that end in time, the cheapest is named; none, if none does. */
START_TEST(deadline)
{
  Case c;

  setup(&c, "dgx-h100", 32);
  c.asked.from = 4;
  g_autoptr(Answer) a = answer_training(&c.asked);
  for (int i = 0; i < 8; i++) {
    int row = i / 2, cheapest = -1; /* a little behind what nine of ten take, and behind the mean, which is before it */
    c.asked.deadline_s = cell(a, row, i % 2 ? "days" : "days_high") * DAY * 1.0001;
    ck_assert_double_lt(cell(a, row, "days") * 1.0001, cell(a, row, "days_high"));
    for (int other = 0; other < 4; other++)
      if (cell(a, other, "days_high") * DAY <= c.asked.deadline_s &&
          (cheapest < 0 || cell(a, other, "usd") < cell(a, cheapest, "usd")))
        cheapest = other;
    g_autoptr(Answer) in_time = answer_training(&c.asked);
    g_autofree char *named = cheapest < 0 ? g_strdup(" None ends")
                                          : g_strdup_printf(", %d GPUs are the cheapest", 4 << cheapest);
    ck_assert_msg(strstr(in_time->says->str, named) != NULL, "%s: %s", named, in_time->says->str);
  }
  c.asked.deadline_s = 1;
  g_autoptr(Answer) never = answer_training(&c.asked);
  ck_assert_ptr_nonnull(strstr(never->says->str, " None ends"));
  clear(&c);
}
END_TEST

/* With energy as the objective that is what there is least of, in time or whenever. */
START_TEST(least_energy)
{
  Case c;
  int least = 0;

  setup(&c, "dgx-h100", 32);
  c.asked.from = 4;
  c.options.objective = objective_find("energy");
  g_autoptr(Answer) a = answer_training(&c.asked);
  for (int row = 1; row < 4; row++)
    if (cell(a, row, "energy_mwh") < cell(a, least, "energy_mwh"))
      least = row;
  g_autofree char *named = g_strdup_printf(" %d GPUs take the least energy", 4 << least);
  ck_assert_msg(strstr(a->says->str, named) != NULL, "%s: %s", named, a->says->str);
  c.asked.deadline_s = cell(a, least, "days_high") * DAY * 1.0001;
  g_autoptr(Answer) in_time = answer_training(&c.asked);
  ck_assert_ptr_nonnull(strstr(in_time->says->str, named));
  clear(&c);
}
END_TEST

/* A number set to what it is changes nothing; more of it is what the cluster with more of it has. */
START_TEST(numbers_vary)
{
  static const char *const keys[] = { "memory", "memory_rate", "tflops", "nvlink", "network" };
  Case c;

  setup(&c, "dgx-h100", 16);
  const double is[] = { c.cluster->device.memory_bytes / 1073741824.0, c.cluster->device.memory_bytes_per_s / 1e9,
                        c.cluster->device.peak_flops_per_s[DTYPE_BF16] / 1e12, c.cluster->tiers[0].bytes_per_s / 1e9,
                        c.cluster->tiers[1].bytes_per_s * 8 / 1e9 };
  g_autofree char *list = g_strdup_printf("%s=%.17g,%.17g", keys[_i], is[_i], is[_i] / 64);
  g_autoptr(GArray) vary = vary_parse((char *[]) { list, NULL }, c.cluster, NULL);
  c.asked.vary = vary;
  g_autoptr(Answer) a = answer_training(&c.asked);
  ck_assert_double_eq_tol(cell(a, 1, "days_change"), 0, 1e-12);
  if (_i > 0) {
    ck_assert_int_eq(answer_rows(a), 3);
    ck_assert_double_gt(cell(a, 2, "days"), cell(a, 0, "days") * 1.0001);
    ck_assert_double_eq_tol(cell(a, 2, "days_change"), cell(a, 2, "days") / cell(a, 0, "days") - 1, 1e-12);
  }
  clear(&c);
}
END_TEST

/* Domains of several nodes are joined by the lowest links. */
START_TEST(domains_grow)
{
  Case c;

  setup(&c, "dgx-h100", 64);
  g_autoptr(GArray) vary = vary_parse((char *[]) { (char *)"nvlink_domain=8,32", NULL }, c.cluster, NULL);
  c.asked.vary = vary;
  g_autoptr(Answer) a = answer_training(&c.asked);
  ck_assert_double_eq(cell(a, 1, "days_change"), 0);
  ck_assert_double_lt(cell(a, 2, "days_change"), 0);
  ck_assert_int_eq(c.cluster->tiers[0].devices, 8);
  clear(&c);
}
END_TEST

/* Numbers of operations change the run, not its plan: the row is that of a question with those operations. */
START_TEST(operations_vary)
{
  static const char *const lists[] = { "failure_hours=500", "restart=68", "slow_share=0.2", "storage=0.001",
                                       "neighbour_checkpoints=1", "spares=0", "spares=2" };
  static const int changes[] = { 1, 1, 1, 0, 0, 1, 1 };
  Case c;

  setup(&c, "dgx-h100", 64);
  g_autoptr(GArray) vary = vary_parse((char *[]) { (char *)lists[_i], NULL }, c.cluster, NULL);
  const Varied *v = &g_array_index(vary, Varied, 0);
  ck_assert(!varied_plans(v));
  c.asked.vary = vary;
  g_autoptr(Answer) a = answer_training(&c.asked);
  ck_assert_int_eq(answer_rows(a), 2);
  if (changes[_i])
    ck_assert_double_gt(cell(a, 1, "usd"), cell(a, 0, "usd"));
  else
    ck_assert_double_le(cell(a, 1, "usd"), cell(a, 0, "usd"));
  varied_set(v, c.cluster, &c.operations);
  c.asked.vary = NULL;
  Run alone;
  gboolean halted;
  ck_assert_int_eq(run_of(&c.asked, c.cluster, &alone, &halted), RUN_ENDS);
  ck_assert_double_eq_tol(cell(a, 1, "days") * DAY / alone.summary.mean.total_s, 1, 1e-12);
  ck_assert_double_eq(cell(a, 1, "usd"), round(run_usd(&alone)));
  clear(&c);
}
END_TEST

/* Spare nodes are paid for and draw power as devices that wait do. */
START_TEST(spares_cost)
{
  Case c;
  Run without, with;
  gboolean halted;

  setup(&c, "dgx-h100", 64);
  c.operations.node_share = 0;
  ck_assert_int_eq(run_of(&c.asked, c.cluster, &without, &halted), RUN_ENDS);
  c.operations.spares = 2;
  ck_assert_int_eq(run_of(&c.asked, c.cluster, &with, &halted), RUN_ENDS);
  double seconds = with.summary.mean.total_s, idle_w = 700 * c.operations.waiting_power_share + c.operations.host_w;
  double longer = seconds / without.summary.mean.total_s;
  ck_assert_double_eq_tol(run_usd(&with) / run_usd(&without) / longer, 80.0 / 64, 1e-12);
  double more_j = run_joules(&with) - run_joules(&without) * longer;
  ck_assert_double_eq_tol(more_j / (16 * seconds * c.operations.pue * idle_w), 1, 0.02);
  clear(&c);
}
END_TEST

/* Of steps the part that computes draws as products do; the rest, and what slow devices add, as what waits. */
START_TEST(power_by_what_runs)
{
  const double watts = 700, least = 0.2;
  Case c;
  Run alike, apart;
  gboolean halted;

  setup(&c, "dgx-h100", 64);
  c.operations.exchange_power_share = 0;
  ck_assert_int_eq(run_of(&c.asked, c.cluster, &alike, &halted), RUN_ENDS);
  c.operations.exchange_power_share = least;
  ck_assert_int_eq(run_of(&c.asked, c.cluster, &apart, &halted), RUN_ENDS);
  const Metrics *m = &apart.result.metrics;
  const double *spent = apart.summary.mean.spent_s;
  double exchanging = m->tensor_comm_s + m->context_comm_s + m->expert_comm_s + m->pipeline_comm_s + m->data_comm_s +
                      m->offload_s + m->idle_s;
  double seconds = (spent[SPENT_STEPS] + spent[SPENT_LOST]) * exchanging / m->iteration_s + spent[SPENT_SLOW];
  ck_assert_double_gt(exchanging, 0.01 * m->iteration_s);
  ck_assert_double_eq_tol((run_joules(&alike) - run_joules(&apart)) /
                          (64 * seconds * watts * (c.operations.training_power_share - least) * c.operations.pue), 1, 1e-9);
  clear(&c);
}
END_TEST

/* A checkpoint is safe when each device's part of it has gone to storage, or over the network to another node. */
START_TEST(checkpoints_of_a_neighbour)
{
  Case c;
  Run storage, neighbour;
  gboolean halted;

  setup(&c, "dgx-h100", 64);
  ck_assert_int_eq(run_of(&c.asked, c.cluster, &storage, &halted), RUN_ENDS);
  c.operations.neighbour_checkpoints = TRUE;
  ck_assert_int_eq(run_of(&c.asked, c.cluster, &neighbour, &halted), RUN_ENDS);
  double each = storage.checkpoint_bytes / 64, rate = c.cluster->tiers[c.cluster->network_tier].bytes_per_s;
  ck_assert_double_eq_tol(storage.campaign.interruptions.safe_s, each / c.operations.storage_bytes_per_s, 1e-12);
  ck_assert_double_eq_tol(neighbour.campaign.interruptions.safe_s, each / rate, 1e-12);
  ck_assert_double_eq(storage.campaign.interruptions.copy_s, neighbour.campaign.interruptions.copy_s);
  clear(&c);
}
END_TEST

/* A limit of power slows products by the cube root of it, and no step by more; devices take less energy a step. Meta's
 * GB200 at 1,000 of 1,200 W: 5 % slower (arXiv 2605.24461), which with products alone would be 5.9 %. */
START_TEST(power_limits)
{
  static const double least[] = { 0.5, 0.7, 1000.0 / 1200, 1 };
  Case c;

  setup(&c, "dgx-h100", 16);
  double limit_w = c.cluster->device.power_w, share = least[_i];
  g_autofree char *list = g_strdup_printf("power_limit=%.17g", limit_w * share);
  g_autoptr(GArray) vary = vary_parse((char *[]) { list, NULL }, c.cluster, NULL);
  c.asked.vary = vary;
  g_autoptr(Answer) a = answer_training(&c.asked);
  ck_assert_double_ge(cell(a, 1, "days_change"), 0);
  ck_assert_double_le(cell(a, 1, "days_change"), 1 / cbrt(share) - 1 + 1e-6);
  Cluster limited = *c.cluster;
  cluster_limit_power(&limited, limit_w * share);
  ck_assert_double_eq_tol(limited.device.peak_flops_per_s[DTYPE_BF16] / c.cluster->device.peak_flops_per_s[DTYPE_BF16],
                          cbrt(share), 1e-12);
  ck_assert_double_eq(limited.device.memory_bytes_per_s, c.cluster->device.memory_bytes_per_s);
  ck_assert_str_ne(limited.digest, c.cluster->digest);
  ck_assert(!cluster_can_limit_power(c.cluster, limit_w * 0.49));
  ck_assert(!cluster_can_limit_power(c.cluster, limit_w * 1.01));
  clear(&c);
}
END_TEST

/* Two jobs at once: no division of the same runs ends sooner; a job alone is the training itself. */
START_TEST(jobs_divide)
{
  static const double more[] = { 1, 3, 20 };
  Case c;
  g_autoptr(GArray) jobs = g_array_new(FALSE, FALSE, sizeof(Job));

  setup(&c, "dgx-h100", 64);
  Job other = { c.model, c.base, c.asked.tokens * more[_i] };
  g_array_append_val(jobs, other);
  c.asked.jobs = jobs;
  g_autoptr(Answer) a = answer_training(&c.asked);
  ck_assert_int_eq(answer_rows(a), 2);
  double end = MAX(cell(a, 0, "days"), cell(a, 1, "days"));
  ck_assert_double_le(cell(a, 0, "gpus") + cell(a, 1, "gpus"), 64);
  Asked first = c.asked, second = c.asked;
  first.jobs = second.jobs = NULL;
  second.tokens = other.tokens;
  for (int nodes = 1; nodes < 8; nodes++) {
    Run *x = run_on(&first, c.cluster, 8 * nodes), *y = run_on(&second, c.cluster, 64 - 8 * nodes);
    if (x && y && nodes % 2 == 0) /* 5 and 7 nodes are not looked at */
      ck_assert_double_ge(MAX(x->summary.mean.total_s, y->summary.mean.total_s) / DAY, end * (1 - 1e-9));
    g_clear_pointer(&x, run_free);
    g_clear_pointer(&y, run_free);
  }
  if (_i == 0)
    ck_assert_double_eq(cell(a, 0, "gpus"), cell(a, 1, "gpus"));
  else
    ck_assert_double_lt(cell(a, 0, "gpus"), cell(a, 1, "gpus"));
  clear(&c);
}
END_TEST

TEST_LOOPS("training_table", { each_count_is_its_own_question }, { deadline }, { least_energy }, { numbers_vary, 5 }, { domains_grow },
           { operations_vary, 7 }, { spares_cost }, { power_by_what_runs },
           { checkpoints_of_a_neighbour }, { power_limits, 4 },
           { jobs_divide, 3 })
