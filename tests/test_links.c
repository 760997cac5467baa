#include "fixture.h"
#include "main.h"
#include "sim/simulate.h"

#include <math.h>

#define ROWS 3

/* Three stages of 8 ranks, one node each, and tasks by hand. */
typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan plan;
  ProgramRow rows[ROWS];
  int lane_first[ROWS * LANE_COUNT + 1], lane_tasks[16], deps[16];
  Program program;
} Hand;

static void hand_init(Hand *h, int tp)
{
  *h = (Hand) { .model = fixture_model(12, 64, 4, 32, 128), .cluster = fixture_cluster("dgx", 24),
                .framework = fixture_framework("megatron-core") };
  h->plan = plan_default(h->model, h->framework);
  h->plan.gpus = 24;
  h->plan.tp = tp;
  h->plan.dp = 8 / tp;
  h->plan.pp = ROWS;
  h->program = (Program) { .n_rows = ROWS, .rows = h->rows, .lane_first = h->lane_first, .lane_tasks = h->lane_tasks,
                           .deps = h->deps };
  h->program.segments = g_array_new(FALSE, FALSE, sizeof(Segment));
  h->program.tasks = g_array_new(FALSE, FALSE, sizeof(Task));
}

static void hand_clear(Hand *h)
{
  g_array_unref(h->program.segments);
  g_array_unref(h->program.tasks);
  framework_free(h->framework);
  cluster_free(h->cluster);
  model_free(h->model);
}

/* A transfer of `seconds` of which `transfer_s` fill the port of a tier. */
static Segment transfer(TaskKind kind, double seconds, double transfer_s, int tier)
{
  Segment s = { .kind = kind, .seconds = seconds, .slowdown = 1, .cost.use.transfer_s = transfer_s };
  s.cost.use.port_s[tier] = transfer_s;
  return s;
}

static Segment pass(double seconds, double compute_s)
{
  return (Segment) { .kind = TASK_PASS, .seconds = seconds, .compute_s = compute_s, .slowdown = 1 };
}

/* Tasks are added lane by lane. */
static int add(Hand *h, int row, Lane lane, Segment segment, int waits_for)
{
  Program *p = &h->program;
  int n = p->tasks->len;
  Task task = { .segment = n, .row = row, .lane = lane, .kind = segment.kind, .first_dep = n,
                .n_deps = waits_for >= 0 };

  g_array_append_val(p->segments, segment);
  g_array_append_val(p->tasks, task);
  h->deps[n] = waits_for;
  h->lane_tasks[n] = n;
  for (int l = row * LANE_COUNT + lane + 1; l <= ROWS * LANE_COUNT; l++)
    h->lane_first[l] = n + 1;
  return n;
}

static Trace *run_shared(Hand *h)
{
  g_autoptr(SimLinks) links = sim_links_new(&h->program, LAYOUT(&h->plan), h->cluster);
  return simulate_on(&h->program, links, 0);
}

static double end_of(const Trace *trace, int task)
{
  return g_array_index(trace->spans, Span, task).end;
}

/* Two neighbours send to the middle stage at once: its ports take half of each. */
START_TEST(receiver_is_shared)
{
  Hand h;

  hand_init(&h, 1);
  int down = add(&h, 0, LANE_PIPELINE, transfer(TASK_SEND, 1.5, 1, 1), -1);
  add(&h, 1, LANE_COMPUTE, pass(1, 1), down);
  add(&h, 1, LANE_COMPUTE, pass(1, 1), 3);
  int up = add(&h, 2, LANE_PIPELINE, transfer(TASK_SEND, 1.5, 1, 1), -1);
  g_autoptr(Trace) shared = run_shared(&h);
  ck_assert_double_eq_tol(end_of(shared, down), 2.5, 1e-12);
  ck_assert_double_eq_tol(end_of(shared, up), 2.5, 1e-12);
  g_autoptr(Trace) alone = simulate(&h.program);
  ck_assert_double_eq(end_of(alone, up), 1.5);
  hand_clear(&h);
}
END_TEST

/* The middle stage sends while it receives: each way has its own port. */
START_TEST(ways_are_apart)
{
  Hand h;

  hand_init(&h, 1);
  int down = add(&h, 0, LANE_PIPELINE, transfer(TASK_SEND, 1.1, 0.3, 1), -1);
  add(&h, 1, LANE_COMPUTE, pass(1, 1), down);
  int on = add(&h, 1, LANE_PIPELINE, transfer(TASK_SEND, 1.7, 1.3, 1), -1);
  add(&h, 2, LANE_COMPUTE, pass(1, 1), on);
  g_autoptr(Trace) shared = run_shared(&h);
  ck_assert_double_eq(end_of(shared, down), 1.1);
  ck_assert_double_eq(end_of(shared, on), 1.7);
  hand_clear(&h);
}
END_TEST

/* A send beside a gather of its row: 0.5 s of gather are left when the send has
 * gone at half speed for 1 s; another tier meets neither. */
START_TEST(lanes_share_a_port)
{
  Hand h;

  hand_init(&h, 1);
  int send = add(&h, 0, LANE_PIPELINE, transfer(TASK_SEND, 0.5, 0.5, 1), -1);
  int gather = add(&h, 0, LANE_DATA, transfer(TASK_GATHER, 1, 1, 1), -1);
  add(&h, 1, LANE_COMPUTE, pass(1, 1), send);
  int other = add(&h, 1, LANE_DATA, transfer(TASK_GATHER, 1, 1, 0), -1);
  g_autoptr(Trace) shared = run_shared(&h);
  ck_assert_double_eq_tol(end_of(shared, send), 1, 1e-12);
  ck_assert_double_eq_tol(end_of(shared, gather), 1.5, 1e-12);
  ck_assert_double_eq(end_of(shared, other), 1);
  hand_clear(&h);
}
END_TEST

/* A pass of 10 s that communicates for 4 asks for 0.4 of the port; with a gather
 * that fills it both go at 1/1.4: the gather takes 1.4 s, in which the pass's
 * communication loses 0.4 s. */
START_TEST(passes_communicate)
{
  Hand h;

  hand_init(&h, 8);
  int pass_task = add(&h, 0, LANE_COMPUTE, pass(10, 6), -1);
  int gather = add(&h, 0, LANE_DATA, transfer(TASK_GATHER, 1, 1, 0), -1);
  g_autoptr(Trace) shared = run_shared(&h);
  ck_assert_double_eq_tol(end_of(shared, gather), 1.4, 1e-12);
  ck_assert_double_eq_tol(end_of(shared, pass_task), 10.4, 1e-12);
  hand_clear(&h);
}
END_TEST

/* The same where a part of it is between experts' ranks, over the same port. */
START_TEST(passes_share_with_experts)
{
  Hand h;
  Segment both = pass(10, 6);

  hand_init(&h, 2);
  h.plan.ep = 4;
  both.expert_s = 1;
  int pass_task = add(&h, 0, LANE_COMPUTE, both, -1);
  int gather = add(&h, 0, LANE_DATA, transfer(TASK_GATHER, 1, 1, 0), -1);
  g_autoptr(Trace) shared = run_shared(&h);
  ck_assert_double_eq_tol(end_of(shared, gather), 1.4, 1e-12);
  ck_assert_double_eq_tol(end_of(shared, pass_task), 10.4, 1e-12);
  hand_clear(&h);
}
END_TEST

/* The first again, and at 10.2 s, when the pass has computed, a second gather begins
 * that slows computation: the pass's last 0.2 s of communication take 0.28. */
START_TEST(computed_passes_are_not_slowed)
{
  Hand h;
  Segment slowing = transfer(TASK_GATHER, 1, 1, 0);

  hand_init(&h, 8);
  slowing.slowdown = 2;
  int pass_task = add(&h, 0, LANE_COMPUTE, pass(10, 6), -1);
  add(&h, 0, LANE_DATA, transfer(TASK_GATHER, 1, 1, 0), -1);
  int second = add(&h, 0, LANE_DATA, slowing, 3);
  int other = add(&h, 1, LANE_COMPUTE, pass(10.2, 10.2), -1);
  g_autoptr(Trace) shared = run_shared(&h);
  ck_assert_int_eq(other, 3);
  ck_assert_double_eq(g_array_index(shared->spans, Span, second).start, 10.2);
  ck_assert_double_eq_tol(end_of(shared, pass_task), 10.48, 1e-12);
  hand_clear(&h);
}
END_TEST

/* The overlap anomaly: a gather that waits for a send runs beside the pass that
 * the next stage waits for, unless the send takes until that pass is over. */
static double step_with_send(double send_s)
{
  Hand h;
  Segment slowing = transfer(TASK_GATHER, 4, 4, 0);

  hand_init(&h, 1);
  slowing.slowdown = 2;
  int first = add(&h, 0, LANE_COMPUTE, pass(10, 10), -1);
  add(&h, 0, LANE_DATA, slowing, 3);
  add(&h, 1, LANE_COMPUTE, pass(10, 10), first);
  add(&h, 1, LANE_PIPELINE, transfer(TASK_SEND, send_s, send_s, 1), -1);
  g_autoptr(Trace) trace = run_shared(&h);
  hand_clear(&h);
  return trace->end_s;
}

START_TEST(faster_can_be_slower)
{
  ck_assert_double_eq_tol(step_with_send(10), 20, 1e-12);
  ck_assert_double_eq_tol(step_with_send(1), 22, 1e-12);
}
END_TEST

/* Two stages on a node whose NICs carry half of what its devices' ports could:
 * alone each device has twice its share, both stages together do not. */
START_TEST(nodes_share_their_nics)
{
  Hand h;

  hand_init(&h, 1);
  h.plan.gpus = 12;
  h.plan.dp = 4;
  h.cluster->tiers[1].port_bytes_per_s = 2 * h.cluster->tiers[1].bytes_per_s;
  int a = add(&h, 0, LANE_PIPELINE, transfer(TASK_SEND, 1, 1, 1), -1);
  int b = add(&h, 0, LANE_DATA, transfer(TASK_GATHER, 1, 1, 1), -1);
  g_autoptr(Trace) one = run_shared(&h);
  ck_assert_double_eq(end_of(one, a), 1);
  ck_assert_double_eq(end_of(one, b), 1);
  int c = add(&h, 1, LANE_PIPELINE, transfer(TASK_SEND, 1, 1, 1), -1);
  int d = add(&h, 1, LANE_DATA, transfer(TASK_GATHER, 1, 1, 1), -1);
  g_autoptr(Trace) both = run_shared(&h);
  for (int task = a; task <= d; task++)
    ck_assert_double_eq_tol(end_of(both, task), 2, 1e-12);
  ck_assert_int_eq(c, 2);
  hand_clear(&h);
}
END_TEST

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  GRand *rand;
  Plan plan;
  PriceTable *prices;
  Program *program;
} Random;

static void random_init(Random *r, int seed)
{
  *r = (Random) { .model = fixture_model(16, 256, 8, 64, 512), .cluster = fixture_cluster("dgx", 8),
                  .framework = fixture_framework("torchtitan"), .rand = g_rand_new_with_seed(seed) };
}

static void random_drop(Random *r)
{
  g_clear_pointer(&r->program, program_free);
  g_clear_pointer(&r->prices, price_table_free);
}

static void random_clear(Random *r)
{
  random_drop(r);
  g_rand_free(r->rand);
  framework_free(r->framework);
  cluster_free(r->cluster);
  model_free(r->model);
}

static void random_build(Random *r)
{
  random_drop(r);
  r->prices = price_table_new(r->model, LAYOUT(&r->plan), r->cluster);
  r->program = program_new(r->model, LAYOUT(&r->plan), r->cluster, r->prices);
}

static void random_next(Random *r)
{
  while (!fixture_draw_plan(r->rand, r->model, r->cluster, r->framework, &r->plan))
    ;
  random_build(r);
}

static void remove_slowdowns(Program *program)
{
  for (guint i = 0; i < program->segments->len; i++)
    g_array_index(program->segments, Segment, i).slowdown = 1;
}

/* Data parallelism alone, or two stages alone, share nothing: the same doubles. */
START_TEST(nothing_shared_is_alone)
{
  Random r;
  int same = 0;

  random_init(&r, 4);
  while (same < 60) {
    random_next(&r);
    if (r.plan.tp > 1 || !(r.plan.pp == 1 || (r.plan.pp == 2 && r.plan.dp == 1)))
      continue;
    g_autoptr(SimLinks) links = sim_links_new(r.program, LAYOUT(&r.plan), r.cluster);
    g_autoptr(Trace) alone = simulate(r.program);
    g_autoptr(Trace) shared = simulate_on(r.program, links, 0);
    for (guint i = 0; i < alone->spans->len; i++) {
      ck_assert_double_eq(g_array_index(shared->spans, Span, i).start, g_array_index(alone->spans, Span, i).start);
      ck_assert_double_eq(g_array_index(shared->spans, Span, i).end, g_array_index(alone->spans, Span, i).end);
    }
    same++;
  }
  random_clear(&r);
}
END_TEST

static double sum_of_seconds(const Program *program)
{
  double sum = program->step_s;

  for (guint i = 0; i < program->tasks->len; i++)
    sum += g_array_index(program->segments, Segment, g_array_index(program->tasks, Task, i).segment).seconds;
  return sum;
}

/* Lanes one after the other, dependencies kept, memory back at zero, the step
 * not before the longest path and not behind all tasks one after the other. */
START_TEST(sharing_is_sound)
{
  Random r;
  int slower = 0;

  random_init(&r, 5);
  for (int tried = 0; tried < 300; tried++) {
    random_next(&r);
    remove_slowdowns(r.program);
    g_autoptr(SimLinks) links = sim_links_new(r.program, LAYOUT(&r.plan), r.cluster);
    g_autoptr(Trace) trace = simulate_on(r.program, links, 0);
    double least = longest_path(r.program, NULL);
    ck_assert_double_ge(trace->end_s, least * (1 - 1e-12));
    ck_assert_double_le(trace->end_s, sum_of_seconds(r.program) * (1 + 1e-12));
    slower += trace->end_s > least * (1 + 1e-9);
    for (guint i = 0; i < r.program->tasks->len; i++) {
      const Task *t = &g_array_index(r.program->tasks, Task, i);
      const Span *span = &g_array_index(trace->spans, Span, i);
      double seconds = g_array_index(r.program->segments, Segment, t->segment).seconds;
      ck_assert_double_ge(span->end - span->start, seconds * (1 - 1e-9) - 1e-12);
      for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++)
        ck_assert_double_le(g_array_index(trace->spans, Span, r.program->deps[d]).end, span->start);
    }
    for (int lane = 0; lane < r.program->n_rows * LANE_COUNT; lane++)
      for (int i = r.program->lane_first[lane] + 1; i < r.program->lane_first[lane + 1]; i++)
        ck_assert_double_le(g_array_index(trace->spans, Span, r.program->lane_tasks[i - 1]).end,
                            g_array_index(trace->spans, Span, r.program->lane_tasks[i]).start);
    for (int row = 0; row < trace->n_rows; row++) {
      const GArray *points = trace->rows[row].points;
      ck_assert_double_eq_tol(g_array_index(points, MemoryPoint, points->len - 1).activations, 0, 1);
      ck_assert_double_eq_tol(g_array_index(points, MemoryPoint, points->len - 1).buffers, 0, 1);
    }
  }
  ck_assert_int_ge(slower, 30); /* else nothing was shared */
  random_clear(&r);
}
END_TEST

static double shared_end(Random *r, double bandwidth)
{
  for (int t = 0; t < r->cluster->n_tiers; t++) {
    r->cluster->tiers[t].bytes_per_s *= bandwidth;
    r->cluster->tiers[t].port_bytes_per_s *= bandwidth;
  }
  random_build(r);
  g_autoptr(SimLinks) links = sim_links_new(r->program, LAYOUT(&r->plan), r->cluster);
  g_autoptr(Trace) trace = simulate_on(r->program, links, 0);
  return trace->end_s;
}

START_TEST(more_bandwidth_is_never_slower)
{
  Random r;
  double worst = 0;

  random_init(&r, 6);
  for (int tried = 0; tried < 200; tried++) {
    random_next(&r);
    double slow = shared_end(&r, 1), fast = shared_end(&r, 2);
    shared_end(&r, 0.5);
    worst = MAX(worst, fast / slow - 1);
  }
  ck_assert_double_le(worst, 1e-12);
  random_clear(&r);
}
END_TEST

START_TEST(same_bytes_again)
{
  Random r;

  random_init(&r, 7);
  for (int tried = 0; tried < 20; tried++) {
    random_next(&r);
    g_autoptr(SimLinks) links = sim_links_new(r.program, LAYOUT(&r.plan), r.cluster);
    g_autoptr(Trace) a = simulate_on(r.program, links, 0);
    g_autoptr(Trace) b = simulate_on(r.program, links, 0);
    ck_assert_mem_eq(a->spans->data, b->spans->data, a->spans->len * sizeof(Span));
  }
  random_clear(&r);
}
END_TEST

/* Fewer buffers are never faster; as many as micro-batches are no limit. */
START_TEST(receive_windows)
{
  Random r;
  int held = 0;

  random_init(&r, 8);
  for (int tried = 0; tried < 60;) {
    random_next(&r);
    if (r.plan.pp < 4 || plan_micro_batches(&r.plan) < 4)
      continue;
    tried++;
    remove_slowdowns(r.program);
    g_autoptr(Trace) alone = simulate(r.program);
    g_autoptr(Trace) ample = simulate_on(r.program, NULL, 1024);
    ck_assert_double_eq(ample->end_s, alone->end_s);
    double last = alone->end_s;
    for (int buffers = 8; buffers > 0; buffers /= 2) {
      SimOptions options = { .receive_buffers = buffers };
      if (!sim_options_check(&options, r.program, NULL))
        break;
      g_autoptr(Trace) trace = simulate_on(r.program, NULL, buffers);
      ck_assert_double_ge(trace->end_s, last);
      held += trace->end_s > last;
      last = trace->end_s;
    }
  }
  ck_assert_int_ge(held, 1);
  random_clear(&r);
}
END_TEST

/* One buffer: the second send waits until the first was consumed. */
START_TEST(window_by_hand)
{
  Hand h;

  hand_init(&h, 1);
  int first = add(&h, 0, LANE_PIPELINE, transfer(TASK_SEND, 1, 1, 1), -1);
  int second = add(&h, 0, LANE_PIPELINE, transfer(TASK_SEND, 1, 1, 1), -1);
  add(&h, 1, LANE_COMPUTE, pass(5, 5), first);
  add(&h, 1, LANE_COMPUTE, pass(5, 5), second);
  g_autoptr(Trace) one = simulate_on(&h.program, NULL, 1);
  g_autoptr(Trace) two = simulate_on(&h.program, NULL, 2);
  ck_assert_double_eq(end_of(one, second), 7);
  ck_assert_double_eq(end_of(two, second), 2);
  hand_clear(&h);
}
END_TEST

/* The receiver takes the second message first: one buffer is a deadlock, and is said. */
START_TEST(deadlock_is_refused)
{
  Hand h;
  SimOptions options = { .receive_buffers = 1 };
  GError *error = NULL;

  hand_init(&h, 1);
  add(&h, 0, LANE_PIPELINE, transfer(TASK_SEND, 1, 1, 1), -1);
  add(&h, 0, LANE_PIPELINE, transfer(TASK_SEND, 1, 1, 1), -1);
  add(&h, 1, LANE_COMPUTE, pass(5, 5), 1);
  add(&h, 1, LANE_COMPUTE, pass(5, 5), 0);
  ck_assert(!sim_options_check(&options, &h.program, &error));
  test_error(&error, 2, "receive buffers: 1: the schedule deadlocks, 3 of 4 tasks never run: expected more");
  options.receive_buffers = 2;
  ck_assert(sim_options_check(&options, &h.program, NULL));
  hand_clear(&h);
}
END_TEST

TEST_MAIN("links", receiver_is_shared, ways_are_apart, lanes_share_a_port, passes_communicate,
          passes_share_with_experts, computed_passes_are_not_slowed, faster_can_be_slower, nodes_share_their_nics,
          nothing_shared_is_alone, sharing_is_sound, more_bandwidth_is_never_slower, same_bytes_again, receive_windows,
          window_by_hand, deadlock_is_refused)
