#include "main.h"
#include "planned.h"
#include "sim/ranks.h"
#include "sim/simulate.h"

#define FORWARD_S 1.0
#define BACKWARD_S 5.3
#define RECOMPUTE_S 0.9

static const Task *task_at(const Program *p, guint i)
{
  return &g_array_index(p->tasks, Task, i);
}

static void time_passes(Program *p)
{
  const double forward_s[] = { FORWARD_S, FORWARD_S, FORWARD_S, FORWARD_S };
  const double backward_s[] = { BACKWARD_S, BACKWARD_S, BACKWARD_S, BACKWARD_S };

  program_time_passes(p, forward_s, backward_s);
  for (guint i = 0; i < p->tasks->len; i++)
    if (task_at(p, i)->kind == TASK_PASS && task_at(p, i)->pass == PASS_RECOMPUTE)
      g_array_index(p->segments, Segment, task_at(p, i)->segment).seconds = RECOMPUTE_S;
}

/* Varuna on 4 stages with 12 micro-batches, gradients late. */
static void setup(Planned *f, int dp)
{
  planned_init(f, fixture_model(8, 512, 8, 128, 1024), fixture_cluster("dgx", 4 * dp), "megatron-core");
  planned_divide(f, 1, 4, dp);
  f->plan.global_batch = 12 * dp;
  f->plan.recompute = RECOMPUTE_FULL;
  plan_set_schedule(&f->plan, schedule_find("varuna"), 1);
  planned_build(f);
  time_passes(f->program);
}

static double last_pass_end(const Trace *t)
{
  double end = 0;

  for (guint i = 0; i < t->spans->len; i++)
    if (g_array_index(t->spans, Span, i).kind == TASK_PASS)
      end = MAX(end, g_array_index(t->spans, Span, i).end);
  return end;
}

/* Spans in a place that is another task's in the program. */
static int moved(const Program *p, const Trace *t)
{
  int n = 0;

  for (guint i = 0; i < p->tasks->len; i++)
    n += g_array_index(t->spans, Span, i).micro != task_at(p, i)->micro ||
         g_array_index(t->spans, Span, i).pass != task_at(p, i)->pass;
  return n;
}

static const Span *find_span(const Trace *t, int kind, int pass, int row, guint micro)
{
  for (guint i = 0; i < t->spans->len; i++) {
    const Span *s = &g_array_index(t->spans, Span, i);
    if (s->kind == kind && s->pass == pass && s->row == row && s->micro == micro)
      return s;
  }
  return NULL;
}

/* When a row's recompute starts before its gradient is there, no later forward could have run. */
static int check_recompute(const Trace *t, const Span *recompute)
{
  const Span *gradient = find_span(t, TASK_SEND, PASS_BACKWARD, recompute->row + 1, recompute->micro);
  int early = 0;

  for (guint micro = 0; micro < 12 && gradient->end > recompute->start; micro++) {
    const Span *arrival = recompute->row ? find_span(t, TASK_SEND, PASS_FORWARD, recompute->row - 1, micro) : NULL;
    if (find_span(t, TASK_PASS, PASS_FORWARD, recompute->row, micro)->start < recompute->start)
      continue;
    ck_assert_ptr_nonnull(arrival);
    ck_assert_double_ge(arrival->end, recompute->start);
    early++;
  }
  return early;
}

START_TEST(rule)
{
  Planned f;
  int early = 0;

  setup(&f, 1);
  g_autoptr(Trace) trace = simulate(f.program);
  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *s = &g_array_index(trace->spans, Span, i);
    if (s->kind == TASK_PASS && s->pass == PASS_RECOMPUTE)
      early += check_recompute(trace, s);
  }
  ck_assert_int_gt(early, 0);
  ck_assert_int_gt(moved(f.program, trace), 0);
  planned_clear(&f);
}
END_TEST

START_TEST(faster_than_in_order)
{
  Planned f;

  setup(&f, 1);
  g_autoptr(Trace) trace = simulate(f.program);
  f.program->opportunistic = FALSE;
  g_autoptr(Trace) strict = simulate(f.program);
  ck_assert_double_lt(last_pass_end(trace), last_pass_end(strict));
  ck_assert_int_eq(moved(f.program, strict), 0);
  planned_clear(&f);
}
END_TEST

/* Spans stand in the order in which their lanes ran them, each task once, memory back to nothing. */
START_TEST(spans_in_order)
{
  Planned f;

  setup(&f, 2);
  g_autoptr(SimLinks) links = sim_links_new(f.program, LAYOUT(&f.plan), f.cluster);
  for (int shared = 0; shared < 2; shared++) {
    g_autoptr(Trace) t = simulate_on(f.program, shared ? links : NULL, shared ? 2 : 0);
    const int *lanes = f.program->lane_tasks;
    int forwards = 0;
    for (int lane = 0; lane < f.program->n_rows * LANE_COUNT; lane++)
      for (int i = f.program->lane_first[lane] + 1; i < f.program->lane_first[lane + 1]; i++)
        ck_assert_double_le(g_array_index(t->spans, Span, lanes[i - 1]).end,
                            g_array_index(t->spans, Span, lanes[i]).start);
    for (guint i = 0; i < t->spans->len; i++) {
      const Span *s = &g_array_index(t->spans, Span, i);
      ck_assert_double_ge(s->end, s->start);
      if (s->cause >= 0)
        ck_assert_double_le(g_array_index(t->spans, Span, s->cause).end, s->start);
      forwards += s->kind == TASK_PASS && s->pass == PASS_FORWARD;
    }
    ck_assert_int_eq(forwards, 4 * 12);
    for (int row = 0; row < t->n_rows; row++)
      ck_assert_double_eq_tol(g_array_index(t->rows[row].points, MemoryPoint, t->rows[row].points->len - 1).activations,
                              0, 1);
  }
  planned_clear(&f);
}
END_TEST

/* Every rank on its own clock runs the same order. */
START_TEST(all_ranks)
{
  Planned f;

  setup(&f, 2);
  g_autoptr(Trace) folded = simulate(f.program);
  g_autoptr(RankRun) full = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, NULL, 0);
  ck_assert_double_eq_tol(full->end_s, folded->end_s, 1e-9 * folded->end_s);
  ck_assert_int_gt(moved(f.program, folded), 0);
  for (guint i = 0; i < folded->spans->len; i++) {
    const Span *a = &g_array_index(full->trace->spans, Span, i), *b = &g_array_index(folded->spans, Span, i);
    ck_assert_int_eq(a->micro, b->micro);
    ck_assert_int_eq(a->pass, b->pass);
    ck_assert_double_eq_tol(a->end, b->end, 1e-9 * folded->end_s);
  }
  planned_clear(&f);
}
END_TEST

TEST_MAIN("lane_order", rule, faster_than_in_order, spans_in_order, all_ranks)
