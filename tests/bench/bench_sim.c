/*
 * Speed of the simulators: bench/sim [SCENARIO [TIMES]]
 *
 * sweep-*: a compiled program swept again and again, beside a bare sweep of the
 * same schedule in the same run: passes in order, each starting at the later of
 * its rank's clock and the end of the pass that it waits for, and nothing else.
 * The ratio is of times for one step. engine-*: the event engine, alone and with
 * shared links. ranks-*: every rank on its own clock, and the most memory that
 * the process has held so far. With TIMES the simulator alone runs so often, for
 * counts of instructions.
 */
#include "../fixture.h"
#include "sim/ranks.h"
#include "sim/simulate.h"
#include "sim/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan plan;
  PriceTable *prices;
  Program *program;
} Subject;

typedef struct {
  const char *name, *framework, *schedule;
  int tp, dp, pp, chunks, micro, zero;
  int times;
  void (*run)(const Subject *subject, int times, gboolean timed);
} Scenario;

static void subject_init(Subject *s, const Scenario *c)
{
  *s = (Subject) { .model = fixture_known_model("gpt3"), .cluster = fixture_cluster("dgx", 8),
                   .framework = fixture_framework(c->framework) };
  s->plan = plan_default(s->model, s->framework);
  s->plan.tp = c->tp;
  s->plan.dp = c->dp;
  s->plan.pp = c->pp;
  s->plan.gpus = c->tp * c->dp * c->pp;
  s->plan.zero = c->zero;
  s->plan.micro_batch = 1;
  s->plan.global_batch = c->micro * c->dp;
  plan_set_schedule(&s->plan, schedule_find(c->schedule), c->chunks);
  if (!cluster_resize(s->cluster, s->plan.gpus, NULL) || plan_check(&s->plan, s->model, s->cluster, NULL) != RULE_NONE)
    g_error("%s: illegal plan", c->name);
  s->prices = price_table_new(s->model, LAYOUT(&s->plan), s->cluster);
  s->program = program_new(s->model, LAYOUT(&s->plan), s->cluster, s->prices);
}

static void subject_clear(Subject *s)
{
  program_free(s->program);
  price_table_free(s->prices);
  framework_free(s->framework);
  cluster_free(s->cluster);
  model_free(s->model);
}

/* A pass of a bare sweep. */
typedef struct {
  int rank, waits_for; /* an earlier pass + 1, 0 = none */
  int pass;
} BarePass;

typedef struct {
  ScheduleShape shape;
  const Schedule *schedule;
  ScheduleOrder *order;
  int *known; /* [backward][stage][micro]: place + 1 */
  GArray *passes; /* BarePass */
} Bare;

static int *known_at(const Bare *b, gboolean backward, int stage, int micro)
{
  return &b->known[(backward * schedule_stages(b->schedule, &b->shape) + stage) * b->shape.micro + micro];
}

/* Places the next pass of a rank if what it waits for is placed. */
static gboolean place(Bare *b, int rank, int slot)
{
  const Slot *s = &b->order->slots[slot];
  gboolean backward = s->pass != PASS_FORWARD;
  int last = schedule_stages(b->schedule, &b->shape) - 1;
  int stage = schedule_stage(b->schedule, &b->shape, rank, s->chunk);
  gboolean first = !backward && stage == 0, turn = backward && stage == last;
  int waits_for = first ? 0 : *known_at(b, backward && !turn, turn ? stage : stage + (backward ? 1 : -1), s->micro);
  BarePass pass = { rank, waits_for, s->pass };

  if (!first && waits_for == 0)
    return FALSE;
  g_array_append_val(b->passes, pass);
  *known_at(b, backward, stage, s->micro) = b->passes->len;
  return TRUE;
}

/* Passes of all ranks, each behind what it waits for, ranks taking turns. */
static GArray *bare_passes(const Plan *plan)
{
  Bare b = { .shape = plan_shape(plan), .schedule = plan->schedule,
             .passes = g_array_new(FALSE, FALSE, sizeof(BarePass)) };
  g_autoptr(ScheduleOrder) order = b.order = schedule_order_new(b.schedule, &b.shape);
  g_autofree int *next = g_memdup2(order->first, order->ranks * sizeof(int));
  g_autofree int *known = b.known = g_new0(int, 2 * schedule_stages(b.schedule, &b.shape) * b.shape.micro);

  while ((int)b.passes->len < order->first[order->ranks])
    for (int rank = 0; rank < order->ranks; rank++)
      if (next[rank] < order->first[rank + 1] && place(&b, rank, next[rank]))
        next[rank]++;
  return b.passes;
}

static double bare_sweep(const BarePass *passes, int n, const double seconds[PASS_COUNT], double *clock, double *end)
{
  for (int i = 0; i < n; i++) {
    double *rank = &clock[passes[i].rank], input = end[passes[i].waits_for];
    *rank = end[i + 1] = MAX(*rank, input) + seconds[passes[i].pass];
  }
  return end[n];
}

/* Of this process's processor time: others may be busy. */
static double clock_s(void)
{
  struct timespec now;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

/* Fastest of 5. */
static double bare_step_s(const Plan *plan, int times)
{
  g_autoptr(GArray) passes = bare_passes(plan);
  g_autofree double *end = g_new0(double, passes->len + 1), *clock = g_new(double, plan->pp);
  double fastest = G_MAXDOUBLE, seconds[PASS_COUNT] = { 1, 2, 1, 1 }, sum = 0;

  for (int round = 0; round < 5; round++) {
    double begin = clock_s();
    for (int i = 0; i < times; i++) {
      memset(clock, 0, plan->pp * sizeof *clock);
      seconds[0] = 1 + 1e-9 * i;
      sum += bare_sweep((const BarePass *)passes->data, passes->len, seconds, clock, end);
    }
    fastest = MIN(fastest, clock_s() - begin);
  }
  if (!(sum > 0))
    g_error("nothing was swept");
  printf("bare %.2g passes/s, ", passes->len * (double)times / fastest);
  return fastest / times;
}

static void run_sweep(const Subject *s, int times, gboolean timed)
{
  g_autoptr(Sweep) sweep = sweep_new(s->program);
  double fastest = G_MAXDOUBLE;

  for (int round = 0; round < (timed ? 5 : 1); round++) {
    double begin = clock_s();
    for (int i = 0; i < times; i++)
      sweep_run(sweep, NULL);
    fastest = MIN(fastest, (clock_s() - begin) / times);
  }
  if (!timed)
    return;
  double bare = bare_step_s(&s->plan, times);
  printf("sweep %.2g tasks/s, %.2g plans/s, %.1f times as long as bare\n", s->program->tasks->len / fastest,
         1 / fastest, fastest / bare);
}

static double engine_s(const Subject *s, const SimLinks *links, int times)
{
  double begin = clock_s();

  for (int i = 0; i < times; i++)
    trace_free(simulate_on(s->program, links, 0));
  return (clock_s() - begin) / times;
}

static int flow_events(const Subject *s, const SimLinks *links)
{
  int n = 0;

  for (guint i = 0; i < s->program->tasks->len; i++)
    n += sim_links_flow(links, i) ? 2 : 0;
  return n;
}

static void run_engine(const Subject *s, int times, gboolean timed)
{
  double alone = engine_s(s, NULL, times);

  if (timed)
    printf("%.2g tasks/s\n", s->program->tasks->len / alone);
}

static void run_shared(const Subject *s, int times, gboolean timed)
{
  g_autoptr(SimLinks) links = sim_links_new(s->program, LAYOUT(&s->plan), s->cluster);
  double alone = timed ? engine_s(s, NULL, times) : 0, shared = engine_s(s, links, times);

  if (timed)
    printf("%.2g tasks/s, %.2g flow events/s, %.1f times as long as alone\n", s->program->tasks->len / shared,
           flow_events(s, links) / shared, shared / alone);
}

static void run_ranks(const Subject *s, int times, gboolean timed)
{
  const Straggler straggler = { 5, 1.1 };
  double begin = clock_s();
  struct rusage usage;

  for (int i = 0; i < times; i++)
    rank_run_free(simulate_ranks(s->program, LAYOUT(&s->plan), s->cluster, &straggler, 1));
  double seconds = (clock_s() - begin) / times;
  getrusage(RUSAGE_SELF, &usage);
  if (timed)
    printf("%d ranks in %.2g s, %.2g tasks/s, %.0f MiB\n", s->plan.gpus, seconds,
           (double)s->program->tasks->len * (s->plan.gpus / s->plan.pp) / seconds, usage.ru_maxrss / 1024.0);
}

static const Scenario scenarios[] = {
  { "sweep-1f1b-8", "megatron-core", "1f1b", 8, 1, 8, 1, 96, 1, 2000, run_sweep },
  { "sweep-1f1b-16", "megatron-core", "1f1b", 8, 1, 16, 1, 384, 1, 200, run_sweep },
  { "sweep-interleaved", "megatron-core", "interleaved", 8, 1, 16, 6, 384, 1, 20, run_sweep },
  { "sweep-overlap", "megatron-core", "1f1b", 8, 8, 8, 1, 96, 1, 2000, run_sweep },
  { "engine-interleaved", "megatron-core", "interleaved", 8, 1, 16, 6, 384, 1, 5, run_engine },
  { "engine-zero3", "torchtitan", "1f1b", 8, 16, 8, 1, 96, 3, 5, run_engine },
  { "shared-interleaved", "megatron-core", "interleaved", 8, 1, 16, 6, 384, 1, 5, run_shared },
  { "shared-zero3", "torchtitan", "1f1b", 8, 16, 8, 1, 96, 3, 5, run_shared },
  { "ranks-1024", "megatron-core", "interleaved", 8, 16, 8, 12, 96, 1, 1, run_ranks },
  { "ranks-1024-zero3", "torchtitan", "1f1b", 8, 16, 8, 1, 96, 3, 1, run_ranks },
  { "ranks-16384", "megatron-core", "interleaved", 8, 256, 8, 12, 96, 1, 1, run_ranks },
  { "ranks-16384-zero3", "torchtitan", "1f1b", 8, 256, 8, 1, 96, 3, 1, run_ranks },
};

int main(int argc, char **argv)
{
  for (gsize i = 0; i < G_N_ELEMENTS(scenarios); i++) {
    const Scenario *c = &scenarios[i];
    Subject s;
    if (argc > 1 && strcmp(argv[1], c->name) != 0)
      continue;
    subject_init(&s, c);
    if (argc < 3)
      printf("%-20s %u tasks: ", c->name, s.program->tasks->len);
    c->run(&s, argc > 2 ? atoi(argv[2]) : c->times, argc < 3);
    subject_clear(&s);
  }
  return 0;
}
