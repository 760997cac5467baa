/*
 * Speed of the simulators: bench/sim [SCENARIO [TIMES]]
 *
 * engine-*: the event engine alone, shared-*: with shared links. ranks-*: every
 * rank on its own clock, and the most memory that the process has held so far.
 * With TIMES the simulator alone runs so often, for counts of instructions.
 */
#include "../fixture.h"
#include "sim/ranks.h"
#include "sim/simulate.h"

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

/* Of this process's processor time: others may be busy. */
static double clock_s(void)
{
  struct timespec now;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
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
