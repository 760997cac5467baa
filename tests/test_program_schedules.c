#include "main.h"
#include "planned.h"
#include "search/balanced.h"
#include "search/bound.h"
#include "sim/simulate.h"
#include "schedule/table.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

/* The plan of a schedule on 4 ranks with 8 micro-batches and twice the chunks' layers. */
static void setup(Planned *f, const char *schedule, int chunks, Cluster *cluster, const char *framework)
{
  const Schedule *s = schedule_find(schedule);

  planned_init(f, fixture_model(16, 512, 8, 128, 1024), cluster, framework);
  f->plan.pp = 4;
  f->plan.global_batch = 8;
  plan_set_schedule(&f->plan, s, chunks ? chunks : s->min_chunks);
  f->plan.recompute = s->recompute ? RECOMPUTE_FULL : RECOMPUTE_NONE;
}

static void build(Planned *f)
{
  planned_divide(f, f->plan.tp, f->plan.pp, f->plan.dp);
  planned_build(f);
}

/* Blocks of 1 s forward and 2 s backward that keep 8 bytes. */
static void build_even(Planned *f)
{
  planned_divide(f, f->plan.tp, f->plan.pp, f->plan.dp);
  planned_build_with(f, fixture_prices(f->model, 1, 2, 8));
}

static const Task *task_at(const Planned *f, guint i)
{
  return &g_array_index(f->program->tasks, Task, i);
}

static const Segment *segment_at(const Planned *f, guint i)
{
  return &g_array_index(f->program->segments, Segment, task_at(f, i)->segment);
}

static int count(const Planned *f, TaskKind kind)
{
  int n = 0;
  for (guint i = 0; i < f->program->tasks->len; i++)
    n += task_at(f, i)->kind == kind;
  return n;
}

/* ---- properties of every schedule ---- */

static const Plan variants[] = {
  { .tp = 1, .dp = 1, .zero = 0 },
  { .tp = 2, .dp = 2, .zero = 0, .overlap = { .gradients = TRUE } },
  { .tp = 1, .dp = 2, .zero = 1, .overlap = { TRUE, TRUE, TRUE, TRUE } },
  { .tp = 1, .dp = 2, .zero = 1 },
  { .tp = 2, .dp = 2, .zero = 2, .sequence_parallel = TRUE },
  { .tp = 1, .dp = 2, .zero = 3, .overlap = { TRUE, TRUE, TRUE, TRUE } },
  { .tp = 2, .dp = 2, .zero = 3, .overlap = { .pipeline = TRUE } },
};

static void check_lanes(const Program *program, const Trace *trace)
{
  for (int lane = 0; lane < program->n_rows * LANE_COUNT; lane++)
    for (int i = program->lane_first[lane] + 1; i < program->lane_first[lane + 1]; i++)
      ck_assert_double_le(g_array_index(trace->spans, Span, program->lane_tasks[i - 1]).end,
                          g_array_index(trace->spans, Span, program->lane_tasks[i]).start);
}

static void check_memory_returns(const Trace *trace)
{
  for (int row = 0; row < trace->n_rows; row++) {
    const GArray *points = trace->rows[row].points;
    for (guint i = 0; i < points->len; i++) {
      ck_assert_double_ge(g_array_index(points, MemoryPoint, i).activations, -1);
      ck_assert_double_ge(g_array_index(points, MemoryPoint, i).buffers, -1);
    }
    ck_assert_double_eq_tol(g_array_index(points, MemoryPoint, points->len - 1).activations, 0, 1);
    ck_assert_double_eq_tol(g_array_index(points, MemoryPoint, points->len - 1).buffers, 0, 1);
  }
}

/* Time of all tasks one after another, as slowly as they may run. */
static double sum_s(const Planned *f)
{
  double sum = f->program->step_s, slowest = 1;

  for (guint i = 0; i < f->program->tasks->len; i++)
    slowest = MAX(slowest, segment_at(f, i)->slowdown);
  for (guint i = 0; i < f->program->tasks->len; i++)
    sum += slowest * segment_at(f, i)->seconds;
  return sum;
}

static void check_bounds(const Planned *f, const Trace *trace)
{
  PriceSums *sums = price_sums_new(f->model, LAYOUT(&f->plan), f->cluster);
  const BoundRanks ranks = bound_ranks(f->model, LAYOUT(&f->plan), sums);
  Metrics m;

  trace_metrics(trace, &m);
  ck_assert_double_le(bound_time(f->model, LAYOUT(&f->plan), f->cluster, sums, NULL), m.iteration_s);
  ck_assert_double_le(bound_memory(LAYOUT(&f->plan), &ranks), m.peak_memory_bytes);
  ck_assert_double_le(bound_memory_by_order(f->model, LAYOUT(&f->plan), sums), m.peak_memory_bytes);
  price_sums_free(sums);
}

/* Every schedule in several plans: a sound program, lanes in order, memory back
 * to nothing, a step between the critical path and everything one by one, and
 * bounds below both. */
static void check_schedule(const Schedule *s, const Plan *v)
{
  Planned f;

  setup(&f, s->name, 0, fixture_cluster("dgx", 16), "torchtitan");
  f.plan.tp = v->tp;
  f.plan.dp = v->dp;
  f.plan.zero = v->zero;
  f.plan.overlap = v->overlap;
  f.plan.sequence_parallel = v->sequence_parallel;
  f.plan.global_batch = 8 * v->dp;
  build(&f);
  g_autoptr(Trace) trace = simulate(f.program);
  check_lanes(f.program, trace);
  check_memory_returns(trace);
  check_bounds(&f, trace);
  ck_assert_double_le(trace->end_s, sum_s(&f) * (1 + 1e-9));
  g_autofree int *ran = simulate_order(f.program);
  Program ordered = *f.program;
  if (ran)
    ordered.lane_tasks = ran;
  ck_assert_double_ge(trace->end_s * (1 + 1e-9), longest_path(&ordered, NULL));
  planned_clear(&f);
}

START_TEST(every_schedule)
{
  for (int i = 0; schedules[i]; i++)
    check_schedule(schedules[i], &variants[_i]);
}
END_TEST

/* Each micro-batch's activations go over each boundary between ranks once each way. */
static void check_bytes(const Schedule *s)
{
  Planned f;
  double sent = 0;

  setup(&f, s->name, 0, fixture_cluster("dgx", 4), "torchtitan");
  build(&f);
  int turns = s->placement == PLACE_ZIGZAG ? f.plan.vpp - 1 : 0, hops = plan_stages(&f.plan) - 1 - turns;
  for (guint i = 0; i < f.program->tasks->len; i++)
    if (task_at(&f, i)->kind == TASK_SEND)
      sent += segment_at(&f, i)->comm_bytes;
  ck_assert_int_eq(count(&f, TASK_SEND), 2 * hops * 8);
  ck_assert_double_eq_tol(sent, 2.0 * hops * 8 * 2 * 128 * 512, 1);
  planned_clear(&f);
}

START_TEST(bytes_are_conserved)
{
  for (int i = 0; schedules[i]; i++)
    check_bytes(schedules[i]);
}
END_TEST

static double last_pass(const Planned *f)
{
  g_autoptr(Trace) trace = simulate(f->program);
  double end = 0;

  for (guint i = 0; i < trace->spans->len; i++)
    if (g_array_index(trace->spans, Span, i).kind == TASK_PASS)
      end = MAX(end, g_array_index(trace->spans, Span, i).end);
  return end;
}

static void check_dry_run(const Schedule *s)
{
  double pass_time[PASS_COUNT] = { [PASS_FORWARD] = 4, [PASS_BACKWARD] = 8, [PASS_INPUT] = 4, [PASS_WEIGHT] = 4 };
  Planned f;

  setup(&f, s->name, 0, fixture_free_cluster(4), "torchtitan");
  build_even(&f);
  ScheduleShape shape = plan_shape(&f.plan);
  g_autoptr(Replay) replay = schedule_replay(s, &shape, pass_time, 1);
  ck_assert_msg(fabs(last_pass(&f) - replay->makespan) < 1e-9, "%s: %.17g, dry run %.17g", s->name, last_pass(&f),
                replay->makespan);
  planned_clear(&f);
}

/* With free communication the engine runs a program as the schedule's own dry
 * run does; a spread vocabulary and recomputes are priced by the program. */
START_TEST(as_the_dry_run)
{
  for (int i = 0; schedules[i]; i++)
    if (!schedules[i]->vocabulary && !schedules[i]->recompute)
      check_dry_run(schedules[i]);
}
END_TEST

/* ---- by the book ---- */

/* What lies between the gradients of a GPT block: 32 s b h bytes (arXiv 2401.10241). */
START_TEST(deferred_by_the_book)
{
  LayerWork work;
  Planned f;

  setup(&f, "zb-h1", 1, fixture_cluster("dgx", 4), "megatron-core");
  build(&f);
  layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
  ck_assert_double_eq_tol(work.deferred_bytes, 32.0 * 128 * 512, 1);
  ck_assert_double_lt(work.deferred_bytes, work.saved_bytes);
  layer_work_clear(&work);
  planned_clear(&f);
}
END_TEST

static const Segment *pass_by(const Planned *f, int row, Pass pass)
{
  for (guint i = 0; i < f->program->tasks->len; i++)
    if (task_at(f, i)->kind == TASK_PASS && task_at(f, i)->row == row && task_at(f, i)->pass == pass)
      return segment_at(f, i);
  return NULL;
}

static double held_by(const Planned *f, int row, Pass pass)
{
  const Segment *s = pass_by(f, row, pass);
  return s ? s->activation_bytes : 0;
}

/* The input gradient frees what the weight gradient does not need, upstream waits for it alone. */
START_TEST(split_backward)
{
  Planned f;

  setup(&f, "zb-h1", 1, fixture_free_cluster(4), "megatron-core");
  build_even(&f);
  ck_assert_double_eq(held_by(&f, 1, PASS_FORWARD), 4 * 8);
  ck_assert_double_eq(held_by(&f, 1, PASS_INPUT), -4 * 4);
  ck_assert_double_eq(held_by(&f, 1, PASS_WEIGHT), -4 * 4);
  for (guint i = 0; i < f.program->tasks->len; i++)
    for (int d = 0; task_at(&f, i)->kind == TASK_SEND && d < task_at(&f, i)->n_deps; d++)
      ck_assert_int_ne(task_at(&f, f.program->deps[task_at(&f, i)->first_dep + d])->pass, PASS_WEIGHT);
  planned_clear(&f);
}
END_TEST

/* Bytes of weights of a row in parameters. */
static double row_params(const Planned *f, int row)
{
  return f->program->rows[row].static_bytes[PART_WEIGHTS] / 2;
}

static double params_between(const Planned *f, int first, int end)
{
  double sum = 0;
  for (int i = first; i < end; i++)
    sum += f->prices->layers[f->model->layers[i]].params;
  return sum;
}

/* Where one rank has both ends of the model, tied embeddings stand once and need no sum. */
START_TEST(ends_on_one_rank)
{
  Planned f, loop;

  setup(&f, "zb-v", 2, fixture_cluster("dgx", 4), "megatron-core");
  build(&f);
  setup(&loop, "zb-h1", 1, fixture_cluster("dgx", 4), "megatron-core");
  build(&loop);
  ck_assert_int_eq(count(&f, TASK_TIED), 0);
  ck_assert_int_eq(count(&loop, TASK_TIED), 2);
  ck_assert_double_eq_tol(params_between(&loop, 0, 18) - params_between(&f, 0, 18), 1024 * 512, 1);
  ck_assert_double_eq_tol(row_params(&f, 0), params_between(&f, 0, 3) + params_between(&f, 15, 18), 1);
  planned_clear(&f);
  planned_clear(&loop);
}
END_TEST

/* Two copies: each rank holds two stages with all states, and ranks that hold the
 * same ones sum their gradients, a part each under ZeRO. */
START_TEST(two_copies)
{
  for (int zero = 0; zero < 2; zero++) {
    Planned f;
    setup(&f, "dualpipe", 2, fixture_cluster("dgx", 8), "megatron-core");
    f.plan.dp = 2;
    f.plan.zero = zero;
    f.plan.global_batch = 16;
    build(&f);
    for (int row = 0; row < 4; row++)
      ck_assert_double_eq_tol(row_params(&f, row), row_params(&f, 3 - row), 1e-6);
    ck_assert_double_eq_tol(row_params(&f, 0) + row_params(&f, 1), params_between(&f, 0, 18), 1);
    ck_assert_int_eq(count(&f, TASK_COPIES), 4);
    for (guint i = 0; i < f.program->tasks->len; i++)
      if (task_at(&f, i)->kind == TASK_COPIES) {
        ck_assert_double_eq_tol(segment_at(&f, i)->comm_bytes, row_params(&f, task_at(&f, i)->row) * 4 / (zero ? 2 : 1),
                                1);
        ck_assert_int_eq(segment_at(&f, i)->group.size, 2);
      }
    planned_clear(&f);
  }
}
END_TEST

/* A pair takes what computes, or more where communication of one does not fit beside the other. */
static double pair_seconds(double forward_comm, double backward_comm)
{
  Planned f;
  double pair = 0;

  setup(&f, "dualpipe", 2, fixture_free_cluster(4), "megatron-core");
  PriceTable *prices = fixture_prices(f.model, 1, 2, 8);
  for (int i = 0; i < prices->n; i++) {
    PassPrice *pass = prices->layers[i].pass;
    if (pass[PASS_FORWARD].seconds == 0)
      continue;
    pass[PASS_FORWARD].seconds += forward_comm;
    pass[PASS_FORWARD].tensor_s = forward_comm;
    pass[PASS_BACKWARD].seconds += backward_comm;
    pass[PASS_BACKWARD].tensor_s = backward_comm;
  }
  planned_divide(&f, 1, 4, 1);
  planned_build_with(&f, prices);
  for (guint i = 0; i < f.program->tasks->len && pair == 0; i++)
    if (task_at(&f, i)->paired)
      pair = segment_at(&f, i)->seconds + segment_at(&f, i + 1)->seconds;
  planned_clear(&f);
  return pair / 4;
}

START_TEST(pairs_by_hand)
{
  ck_assert_double_eq_tol(pair_seconds(0, 0), 3, 1e-12);
  ck_assert_double_eq_tol(pair_seconds(0.5, 1), 3, 1e-12);
  ck_assert_double_eq_tol(pair_seconds(0, 1.5), 3.5, 1e-12);
  ck_assert_double_eq_tol(pair_seconds(2, 1.5), 3.5, 1e-12);
  ck_assert_double_eq_tol(pair_seconds(2.5, 0), 3.5, 1e-12);
  ck_assert_double_eq_tol(pair_seconds(2, 2), 4, 1e-12);
}
END_TEST

/* What either pass of a pair sends leaves when both have ended. */
START_TEST(pairs_end_together)
{
  Planned f;
  int pairs = 0;

  setup(&f, "dualpipev", 2, fixture_cluster("dgx", 4), "megatron-core");
  build(&f);
  for (guint i = 0; i < f.program->tasks->len; i++) {
    if (task_at(&f, i)->kind == TASK_SEND)
      ck_assert(!task_at(&f, f.program->deps[task_at(&f, i)->first_dep])->paired);
    pairs += task_at(&f, i)->paired;
  }
  ck_assert_int_gt(pairs, 0);
  planned_clear(&f);
}
END_TEST

/* Each rank holds a quarter of the vocabulary once; no rank's backward of the last
 * stage starts before all shares of the logits are there. */
START_TEST(vocabulary_is_spread)
{
  static const char *const names[] = { "vocab-1", "vocab-2" };
  const Schedule *s = schedule_find(names[_i]);
  Planned f;
  double params = 0;

  setup(&f, names[_i], 1, fixture_cluster("dgx", 4), "megatron-core");
  build(&f);
  ck_assert_int_eq(count(&f, TASK_VOCAB), (3 + s->vocabulary) * 8); /* and a lookup and its gradient each */
  ck_assert_int_eq(count(&f, TASK_TIED), 0);
  for (int row = 0; row < 4; row++)
    params += row_params(&f, row);
  ck_assert_double_eq_tol(params, params_between(&f, 0, 18), 0.5);
  ck_assert_double_lt(row_params(&f, 3), 1.05 * row_params(&f, 1));
  g_autoptr(Trace) trace = simulate(f.program);
  for (int micro = 0; micro < 8; micro++) {
    double spread = 0, backward = 0;
    for (guint i = 0; i < trace->spans->len; i++) {
      const Span *span = &g_array_index(trace->spans, Span, i);
      if (span->kind != TASK_PASS || (int)span->micro != micro)
        continue;
      if (span->pass == (s->vocabulary == 2 ? PASS_VOCAB : PASS_LOGITS))
        spread = MAX(spread, span->end);
      if (span->pass == PASS_BACKWARD && span->row == 3)
        backward = span->start;
    }
    ck_assert_double_gt(spread, 0);
    ck_assert_double_gt(backward, spread);
  }
  planned_clear(&f);
}
END_TEST

/* Forwards that are made again leave their input; the last stage's leave all. Backwards make nothing again. */
START_TEST(recompute_slots)
{
  Planned f, whole;

  setup(&f, "varuna", 1, fixture_cluster("dgx", 4), "megatron-core");
  build(&f);
  setup(&whole, "1f1b", 1, fixture_cluster("dgx", 4), "megatron-core");
  build(&whole);
  ck_assert(f.program->opportunistic && !whole.program->opportunistic);
  ck_assert_double_eq_tol(held_by(&f, 1, PASS_FORWARD), 4 * 2.0 * 128 * 512, 1);
  ck_assert_double_eq_tol(held_by(&f, 1, PASS_FORWARD) + held_by(&f, 1, PASS_RECOMPUTE),
                          held_by(&whole, 1, PASS_FORWARD), 1);
  ck_assert_double_eq(held_by(&f, 3, PASS_RECOMPUTE), 0);
  for (int row = 0; row < 4; row++)
    ck_assert_double_eq(pass_by(&f, row, PASS_BACKWARD)->alloc_bytes, pass_by(&whole, row, PASS_BACKWARD)->alloc_bytes);
  ck_assert_double_eq_tol(held_by(&f, 3, PASS_FORWARD), held_by(&whole, 3, PASS_FORWARD), 1);
  planned_clear(&f);
  planned_clear(&whole);
}
END_TEST

/* An order from a file runs as the schedule that it was written from. */
START_TEST(orders_from_files)
{
  static const char *const names[] = { "zb-v", "interleaved", "dualpipev" };
  g_autofree char *folder = g_dir_make_tmp("tdp-XXXXXX", NULL), *path = g_build_filename(folder, "order.csv", NULL);
  g_autofree char *text = NULL, *file = NULL;
  GError *error = NULL;
  Planned f;

  setup(&f, names[_i], 2, fixture_cluster("dgx", 4), "torchtitan");
  build(&f);
  ScheduleShape shape = plan_shape(&f.plan);
  text = schedule_table_text(f.plan.schedule, &shape, NULL);
  ck_assert(g_file_set_contents(path, text, -1, NULL));
  file = g_strdup_printf("{\"pipeline_model_parallel_size\": 4, \"global_batch_size\": 8, \"framework\": "
                         "\"torchtitan\",\"pipeline_schedule\": \"%s\", \"precision\": \"bf16\"}", path);
  Planned g = { .model = fixture_model(16, 512, 8, 128, 1024), .cluster = fixture_cluster("dgx", 4) };
  ck_assert_msg(plan_parse(file, strlen(file), "p.json", g.model, &g.plan, &g.framework, &error), "%s",
                error ? error->message : "");
  ck_assert_int_eq(g.plan.vpp, 2);
  build(&g);
  g_autoptr(Trace) a = simulate(f.program);
  g_autoptr(Trace) b = simulate(g.program);
  ck_assert_double_eq_tol(a->end_s, b->end_s, 1e-12);
  g_unlink(path);
  g_rmdir(folder);
  planned_clear(&f);
  planned_clear(&g);
}
END_TEST

/* ---- splits ---- */

static double slowest_stage(const Planned *f, const LayerSplit *split)
{
  double slowest = 0;

  for (int stage = 0, first = 1; stage < split->stages; first += split->layers[stage++]) {
    double s = 0;
    int end = first + split->layers[stage] + (stage == split->stages - 1);
    for (int i = stage ? first : 0; i < end; i++)
      s += f->prices->layers[f->model->layers[i]].pass[PASS_FORWARD].seconds +
           f->prices->layers[f->model->layers[i]].pass[PASS_BACKWARD].seconds;
    slowest = MAX(slowest, s);
  }
  return slowest;
}

/* The best split for a large vocabulary takes layers off the last stage, and the
 * step gets faster; no split that moves one layer has a faster slowest stage. */
START_TEST(balanced_plans)
{
  Planned f, even;

  for (int balanced = 0; balanced < 2; balanced++) {
    Planned *one = balanced ? &f : &even;
    setup(one, "1f1b", 1, fixture_cluster("dgx", 4), "megatron-core");
    model_free(one->model);
    one->model = fixture_model(16, 512, 8, 128, 50000);
    one->plan.gpus = 4;
    one->plan.global_batch = 32;
    one->plan.balanced = balanced;
    ck_assert(balance_plan(one->model, one->cluster, &one->plan, NULL));
    build(one);
  }
  ck_assert_int_eq(even.plan.split.stages, 0);
  ck_assert_int_lt(f.plan.split.layers[3], f.plan.split.layers[1]);
  g_autoptr(Trace) a = simulate(f.program);
  g_autoptr(Trace) b = simulate(even.program);
  ck_assert_double_lt(a->end_s, b->end_s);
  double slowest = slowest_stage(&f, &f.plan.split);
  for (int from = 0; from < 4; from++)
    for (int to = 0; to < 4; to++) {
      LayerSplit other = f.plan.split;
      if (other.layers[from] < 2)
        continue;
      other.layers[from]--;
      other.layers[to]++;
      ck_assert_double_ge(slowest_stage(&f, &other), slowest * (1 - 1e-12));
    }
  planned_clear(&f);
  planned_clear(&even);
}
END_TEST

/* With too little memory for the time-optimal split, the first stages, which hold
 * the most micro-batches, get fewer layers. */
START_TEST(balance_under_memory)
{
  Planned f;
  LayerSplit roomy;

  setup(&f, "1f1b", 1, fixture_cluster("dgx", 4), "megatron-core");
  f.plan.gpus = 4;
  f.plan.balanced = TRUE;
  f.plan.micro_batch = 8;
  f.plan.global_batch = 64;
  ck_assert(balance_plan(f.model, f.cluster, &f.plan, NULL));
  roomy = f.plan.split;
  build(&f);
  g_autoptr(Trace) trace = simulate(f.program);
  double parts[PART_COUNT];
  f.cluster->device.memory_bytes = 0.97 * trace_row_peak(trace, 0, parts);
  ck_assert(balance_plan(f.model, f.cluster, &f.plan, NULL));
  ck_assert_int_lt(f.plan.split.layers[0], roomy.layers[0]);
  ck_assert_int_eq(split_layers(&f.plan.split), 16);
  Program *tight = program_new(f.model, LAYOUT(&f.plan), f.cluster, f.prices);
  g_autoptr(Trace) fits = simulate(tight);
  for (int row = 0; row < 4; row++)
    ck_assert_double_le(trace_row_peak(fits, row, parts), f.cluster->device.memory_bytes);
  program_free(tight);
  planned_clear(&f);
}
END_TEST

/* Times from elsewhere: each stage's passes of a micro-batch take as long as given, split or in pieces. */
START_TEST(passes_take_given_times)
{
  double forward_s[] = { 1, 2, 3, 4 }, backward_s[] = { 5, 6, 7, 8 }, sum[2][4] = { { 0 } };
  Planned f;

  setup(&f, _i ? "zb-h1" : "1f1b", 1, fixture_cluster("dgx", 8), "megatron-core");
  f.plan.dp = 2;
  f.plan.zero = 1;
  f.plan.global_batch = 16;
  build(&f);
  program_time_passes(f.program, forward_s, backward_s);
  for (guint i = 0; i < f.program->tasks->len; i++)
    if (task_at(&f, i)->kind == TASK_PASS)
      sum[task_at(&f, i)->pass != PASS_FORWARD][task_at(&f, i)->row] += segment_at(&f, i)->seconds / 8;
  for (int stage = 0; stage < 4; stage++) {
    ck_assert_double_eq_tol(sum[0][stage], forward_s[stage], 1e-9);
    ck_assert_double_eq_tol(sum[1][stage], backward_s[stage], 1e-9);
  }
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("program schedules", { every_schedule, G_N_ELEMENTS(variants) }, { bytes_are_conserved }, { as_the_dry_run },
           { deferred_by_the_book }, { split_backward }, { ends_on_one_rank }, { two_copies }, { pairs_by_hand },
           { pairs_end_together }, { vocabulary_is_spread, 2 }, { recompute_slots },
           { orders_from_files, 3 }, { balanced_plans },
           { balance_under_memory }, { passes_take_given_times, 2 })
