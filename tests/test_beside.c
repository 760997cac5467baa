/* What tdp-run is predicted to hold for a while: as many bytes as its sources take (src/exec). */
#include "main.h"
#include "op/op.h"
#include "planned.h"
#include "schedule/schedule.h"
#include "sim/simulate.h"

enum { HIDDEN = 32, TOKENS = 16, ROWS = 4 * HIDDEN * TOKENS }; /* bytes of a boundary in fp32 */

static void setup(Planned *f, Model *model, const char *schedule)
{
  planned_init(f, model, fixture_cluster("cpu", 1), "tdp-run");
  f->plan.precision = DTYPE_FP32;
  f->plan.global_batch = 8;
  plan_set_schedule(&f->plan, schedule_find(schedule), schedule_find(schedule)->min_chunks);
}

static Model *dense(void) { return fixture_llama(8, HIDDEN, 8, 4, TOKENS, 61); }

static const Segment *segment_of(const Planned *f, int task)
{
  return &g_array_index(f->program->segments, Segment, g_array_index(f->program->tasks, Task, task).segment);
}

/* What a row's first pass takes beyond others of its chunk. */
static double posted(const Planned *f, int row)
{
  const int *at = &f->program->lane_first[row * LANE_COUNT + LANE_COMPUTE];
  const Segment *first = segment_of(f, f->program->lane_tasks[at[0]]);
  double least = first->alloc_bytes;

  for (int i = at[0]; i < at[1]; i++) {
    const Segment *s = segment_of(f, f->program->lane_tasks[i]);
    if (s->kind == TASK_PASS && s->pass == first->pass && s->first_layer == first->first_layer)
      least = MIN(least, s->alloc_bytes);
  }
  return first->alloc_bytes - least;
}

/* A first and a last stage receive from one row, two ahead; others from two; of a copy in the other direction, too. */
START_TEST(receives_are_posted)
{
  static const struct {
    const char *schedule;
    int rows[4];
  } cases[] = {
    { "1f1b", { 2, 4, 4, 2 } }, { "interleaved", { 4, 4, 4, 4 } }, { "zb-v", { 2, 4, 4, 2 } },
    { "chimera", { 2, 4, 4, 2 } },
  };
  Planned f;

  setup(&f, dense(), cases[_i].schedule);
  planned_divide(&f, 1, 4, 1);
  planned_build(&f);
  for (int row = 0; row < 4; row++)
    ck_assert_double_eq(posted(&f, row), cases[_i].rows[row] * ROWS);
  planned_clear(&f);
}
END_TEST

static const Segment *pass_of(const Planned *f, Pass pass, int first_layer)
{
  for (guint i = 0; i < f->program->segments->len; i++) {
    const Segment *s = &g_array_index(f->program->segments, Segment, i);
    if (s->kind == TASK_PASS && s->pass == pass && s->first_layer == first_layer)
      return s;
  }
  ck_abort_msg("no such pass");
}

/* Each row has a place for what others look up, and their tokens; all but the last one for a normed output, which that
 * leaves for its own share. The first has two lookups when its first forward begins, which takes one. */
START_TEST(spread_rows_are_held)
{
  Planned f;

  setup(&f, dense(), "vocab-1");
  planned_divide(&f, 1, 4, 1);
  planned_build(&f);
  for (int row = 0; row < 4; row++)
    ck_assert_double_eq(f.program->rows[row].static_bytes[PART_BUFFERS], (row < 3 ? 2 : 1) * ROWS + 4 * TOKENS);
  int first = f.program->lane_tasks[f.program->lane_first[LANE_COMPUTE]];
  const Segment *s = segment_of(&f, first), *others = pass_of(&f, PASS_FORWARD, 0);
  ck_assert_double_eq(s->alloc_bytes - (RECEIVES_AHEAD + LOOKUPS_AHEAD) * ROWS, others->alloc_bytes);
  planned_clear(&f);
}
END_TEST

static const LayerPrice *price(const Planned *f, int layer)
{
  return price_of_layer(f->prices, f->model, 0, layer);
}

/* A backward holds most while it runs the last block: the head has been there, and what it kept is gone. A forward has
 * what its last product made, and tokens and labels come with it. */
START_TEST(head_is_gone_at_the_worst_moment)
{
  Planned f;

  setup(&f, dense(), "1f1b");
  planned_build(&f);
  const Segment *s = pass_of(&f, PASS_BACKWARD, 0);
  double head = price(&f, f.model->n_layers - 1)->saved_bytes;
  ck_assert_double_gt(head, 0);
  ck_assert_double_eq(segment_at_start(s), -head);
  ck_assert_double_eq(segment_at_start(s) + segment_at_end(s), s->activation_bytes);
  ck_assert_double_eq(s->alloc_bytes, price(&f, 1)->transient_bytes);
  ck_assert_double_eq(pass_of(&f, PASS_FORWARD, 0)->alloc_bytes, ROWS + 8 * TOKENS);
  planned_clear(&f);
}
END_TEST

/* An input gradient's pass leaves more behind than it frees, which is the embedding's, that it comes to last; most is
 * held in the block that comes first. A weight gradient's pass frees that, and holds nothing else;
 * tokens and labels go with it. */
START_TEST(deferred_gradients_come_late)
{
  Planned f;

  setup(&f, dense(), "zb-h1");
  f.plan.recompute = RECOMPUTE_SELECTIVE;
  planned_divide(&f, 1, 2, 1);
  planned_build(&f);
  const Segment *s = pass_of(&f, PASS_INPUT, 0);
  const LayerPrice *block = price(&f, 1);
  ck_assert_double_lt(block->deferred_bytes, block->saved_bytes);
  ck_assert_double_gt(s->activation_bytes, 0);
  ck_assert_double_eq(segment_at_start(s), 0);
  ck_assert_double_eq(segment_at_end(s), s->activation_bytes);
  ck_assert_double_eq(s->alloc_bytes, block->transient_bytes + block->recomputed_bytes - ROWS); /* that was posted */
  ck_assert_double_eq(pass_of(&f, PASS_WEIGHT, 0)->free_bytes, 8 * TOKENS);
  planned_clear(&f);
}
END_TEST

/* What a forward makes for the next chunk on its rank waits there until that takes it; the gradient goes back so. */
START_TEST(results_wait_on_their_rank)
{
  Planned f;

  setup(&f, dense(), "zb-v");
  planned_build(&f);
  const Segment *first = pass_of(&f, PASS_FORWARD, 0), *second = pass_of(&f, PASS_FORWARD, 5);
  const Segment *back = pass_of(&f, PASS_INPUT, 5), *last = pass_of(&f, PASS_INPUT, 0);
  ck_assert_double_eq(first->alloc_bytes - first->free_bytes, ROWS + 8 * TOKENS);
  ck_assert_double_eq(second->alloc_bytes - second->free_bytes, -ROWS + 8 * TOKENS);
  ck_assert_double_eq(back->alloc_bytes - back->free_bytes, ROWS);
  ck_assert_double_eq(last->alloc_bytes - last->free_bytes, -ROWS);
  planned_clear(&f);
}
END_TEST

/* Passes that overlap elsewhere run one behind the other: neither holds the other's. Side by side one holds both. */
START_TEST(pairs_run_in_turn)
{
  Planned f;
  double most = 0;

  setup(&f, dense(), "dualpipev");
  ck_assert(f.framework->pairs_in_turn);
  f.framework->pairs_in_turn = _i == 0;
  planned_divide(&f, 1, 2, 1);
  planned_build(&f);
  for (guint i = 0; i < f.program->segments->len; i++) {
    const Segment *s = &g_array_index(f.program->segments, Segment, i);
    if (s->kind == TASK_PASS)
      most = MAX(most, s->alloc_bytes);
  }
  ck_assert_int_eq(most <= price(&f, 1)->transient_bytes, f.framework->pairs_in_turn);
  planned_clear(&f);
}
END_TEST

/* Of a choice of experts stays what each of a token's copies weighs, where it goes and its place there, and where experts
 * begin; ranks that gather tokens keep all ranks' choices beside, others how many rows each expert gets. */
START_TEST(choices_are_kept)
{
  enum { RANKS = 2, EXPERTS = 4, TOP = 2, COPY = 4 + 2 * 4 };
  static const ExpertDispatch dispatch[] = { DISPATCH_ALL_TO_ALL, DISPATCH_GATHER };
  double saved[2], all = TOKENS * RANKS * TOP * COPY + 4 * (EXPERTS / RANKS + 1), counts = 4 * EXPERTS;
  Planned f;

  for (int i = 0; i < 2; i++) {
    setup(&f, fixture_moe(8, HIDDEN, 8, TOKENS, 61, EXPERTS, TOP, 16), "1f1b");
    planned_divide(&f, 1, 1, RANKS);
    f.plan.ep = RANKS;
    f.plan.dispatch = dispatch[i];
    planned_build(&f);
    saved[i] = price(&f, 1)->saved_bytes;
    planned_clear(&f);
  }
  ck_assert_double_eq(saved[1] - saved[0], all - counts);
}
END_TEST

/* Where nothing is known of what stands beside passes, nothing is said of it, and scratch is beside all they keep. */
START_TEST(others_hold_nothing_between_passes)
{
  static const char *const tried[] = { "1f1b", "vocab-1", "zb-v" };
  Planned f;

  setup(&f, dense(), tried[_i]);
  f.framework->executor_memory = FALSE;
  planned_divide(&f, 1, _i < 2 ? 4 : 1, 1);
  planned_build(&f);
  for (int row = 0; row < f.program->n_rows; row++)
    ck_assert_double_eq(f.program->rows[row].static_bytes[PART_BUFFERS], 0);
  for (guint i = 0; i < f.program->segments->len; i++) {
    const Segment *s = &g_array_index(f.program->segments, Segment, i);
    if (s->kind == TASK_PASS) {
      ck_assert_double_eq(s->absent_bytes, 0);
      ck_assert_double_eq(s->alloc_bytes, s->free_bytes);
    }
  }
  planned_clear(&f);
}
END_TEST

/* What passes take from others they give back, whatever the schedule. */
START_TEST(schedules_give_back)
{
  for (int pp = 1; pp <= 4; pp *= 2)
    for (int i = 0; schedules[i]; i++) {
      Planned f;
      setup(&f, dense(), schedules[i]->name);
      planned_divide(&f, 1, pp, 1);
      if (plan_check(&f.plan, f.model, f.cluster, NULL) == RULE_NONE)
        planned_run(&f);
      planned_clear(&f);
    }
}
END_TEST

static const Task *task_of(const Program *p, int task)
{
  return &g_array_index(p->tasks, Task, task);
}

/* Whether a send's receive is posted where its receiver has come to a pass, of which it has run those before. */
static gboolean is_posted(const Program *p, const ProgramReceives *r, const int *receiver, const int *next, int send)
{
  int row = task_of(p, send)->row, to = task_of(p, receiver[send])->row, lane = to * LANE_COUNT + LANE_COMPUTE, number = 0;
  int pass = MIN(next[lane], p->lane_first[lane + 1] - 1) - p->lane_first[lane];

  for (int i = p->lane_first[row * LANE_COUNT + LANE_PIPELINE]; p->lane_tasks[i] != send; i++)
    number += receiver[p->lane_tasks[i]] >= 0 && task_of(p, receiver[p->lane_tasks[i]])->row == to;
  return r->posted[row * p->n_rows + to][pass] > number;
}

/* Tasks that can run where a send, and what is behind it on its lane, waits for its receive. */
static int come_through(const Program *p)
{
  g_autoptr(ProgramReceives) receives = program_receives_new(p);
  g_autofree int *receiver = program_receivers(p), *next = g_memdup2(p->lane_first, p->n_rows * LANE_COUNT * sizeof(int));
  g_autofree gboolean *done = g_new0(gboolean, p->tasks->len);
  int n = 0, before;

  do {
    before = n;
    for (int lane = 0; lane < p->n_rows * LANE_COUNT; lane++)
      for (; next[lane] < p->lane_first[lane + 1]; next[lane]++, n++) {
        int task = p->lane_tasks[next[lane]], ready = receiver[task] < 0 || is_posted(p, receives, receiver, next, task);
        for (int d = 0; d < task_of(p, task)->n_deps; d++)
          ready &= done[p->deps[task_of(p, task)->first_dep + d]];
        if (!ready)
          break;
        done[task] = TRUE;
      }
  } while (n > before);
  return n;
}

/* Whatever the schedule, no rows wait for one another because receives are not posted. */
START_TEST(sends_come_through)
{
  for (int pp = 2; pp <= 8; pp *= 2)
    for (int i = 0; schedules[i]; i++) {
      Planned f;
      setup(&f, fixture_llama(14, HIDDEN, 8, 4, TOKENS, 61), schedules[i]->name);
      f.plan.global_batch = 16;
      planned_divide(&f, 1, pp, 1);
      if (plan_check(&f.plan, f.model, f.cluster, NULL) == RULE_NONE) {
        planned_build(&f);
        ck_assert_msg(come_through(f.program) == (int)f.program->tasks->len, "%s, %d ranks", schedules[i]->name, pp);
      }
      planned_clear(&f);
    }
}
END_TEST

/* What comes around before the first row is done with its first chunk is received by then, and waits there. */
START_TEST(results_that_come_around_are_received)
{
  enum { PP = 2, MICRO = 8 };
  Planned f;

  setup(&f, dense(), "looped-bfs");
  planned_divide(&f, 1, PP, 1);
  planned_build(&f);
  g_autoptr(ProgramReceives) r = program_receives_new(f.program);
  const int *posted = r->posted[1 * PP + 0];
  ck_assert_int_eq(posted[0], RECEIVES_AHEAD);
  ck_assert_int_eq(posted[MICRO - 1], MICRO - 2); /* of which the last is sent when the last forward but one ends */
  ck_assert_int_eq(posted[MICRO], MICRO - 1);
  ck_assert_ptr_null(r->posted[0]);
  planned_clear(&f);
}
END_TEST

static void take_long(Program *p, TaskKind kind, double seconds)
{
  for (guint i = 0; i < p->segments->len; i++) {
    Segment *s = &g_array_index(p->segments, Segment, i);
    s->seconds = s->kind == kind ? seconds : s->seconds;
    if (s->kind == kind)
      memset(&s->cost.use, 0, sizeof s->cost.use);
  }
}

/* Results of a row that are made and not yet sent when a pass ends. */
static int results_at(const Program *p, const Trace *t, int row, double end)
{
  int results = 0;

  for (guint i = 0; i < t->spans->len; i++) {
    const Span *send = &g_array_index(t->spans, Span, i);
    if (send->kind != TASK_SEND || send->row != row || send->end <= end)
      continue;
    for (int d = 0; d < task_of(p, i)->n_deps; d++)
      results += g_array_index(t->spans, Span, p->deps[task_of(p, i)->first_dep + d]).end <= end;
  }
  return results;
}

/* However long sends take, a row has two results at most, and holds them until they are sent. */
START_TEST(two_results_are_held)
{
  static const char *const tried[] = { "1f1b", "gpipe", "looped-bfs", "zb-h2" };
  int most = 0;
  Planned f;

  setup(&f, dense(), tried[_i]);
  planned_divide(&f, 1, 2, 1);
  f.plan.overlap.pipeline = TRUE;
  planned_build(&f);
  take_long(f.program, TASK_SEND, 1000);
  g_autoptr(Trace) t = simulate(f.program);
  for (guint i = 0; i < t->spans->len; i++) {
    const Span *span = &g_array_index(t->spans, Span, i);
    if (span->kind == TASK_PASS)
      most = MAX(most, results_at(f.program, t, span->row, span->end));
    if (span->kind == TASK_SEND)
      ck_assert_double_eq(segment_of(&f, i)->free_bytes, ROWS);
  }
  ck_assert_int_eq(most, 2);
  planned_clear(&f);
}
END_TEST

/* What the first row's last pass of a layer alone takes for its gradients. */
static double gradients_taken(const Planned *f, int layer)
{
  const int *lane = &f->program->lane_first[LANE_COMPUTE];
  double taken = NAN;

  for (int i = lane[0]; i < lane[1]; i++) {
    const Segment *s = segment_of(f, f->program->lane_tasks[i]);
    if (s->kind == TASK_PASS && s->pass == PASS_BACKWARD && s->first_layer == layer)
      taken = s->alloc_bytes - price(f, layer)->transient_bytes;
  }
  return taken;
}

/* A table that the head reads too stays gathered from the embedding's first forward to the optimizer, and its gradient
 * is whole from the head's backward on: the embedding's takes the positions' alone. */
START_TEST(shared_table_stays)
{
  enum { TABLE = 4 * 64 * HIDDEN, POSITIONS = 4 * TOKENS * HIDDEN, NORM = 4 * HIDDEN };
  gboolean tied = _i == 0;
  Planned f;

  setup(&f, tied ? fixture_gpt_plain(8, HIDDEN, 8, TOKENS, 64) : fixture_llama(8, HIDDEN, 8, 4, TOKENS, 64), "1f1b");
  planned_divide(&f, 1, 1, 2);
  f.plan.zero = 3;
  planned_build(&f);
  int optimizer = f.program->lane_tasks[f.program->lane_first[LANE_COMPUTE + 1] - 1];
  ck_assert_double_eq(segment_of(&f, optimizer)->free_bytes, tied ? TABLE : 0);
  ck_assert_double_eq(gradients_taken(&f, 0), tied ? POSITIONS : TABLE);
  ck_assert_double_eq(gradients_taken(&f, 9), tied ? TABLE + 2 * NORM : TABLE + NORM);
  planned_clear(&f);
}
END_TEST

enum { SHARED_ROWS = 2, SHARED_TABLE = 4 * 64 * HIDDEN };

/* What a row's passes take and leave to others, and what its optimizer frees. */
static void row_left(const char *schedule, int pp, int zero, gboolean tied, double left[], double freed[])
{
  Planned f;

  setup(&f, fixture_gpt_plain(8, HIDDEN, 8, TOKENS, 64), schedule);
  f.model->tied_embeddings = tied;
  planned_divide(&f, 1, pp, 2);
  f.plan.zero = zero;
  planned_build(&f);
  for (int row = 0; row < pp; row++) {
    const int *lane = &f.program->lane_first[row * LANE_COUNT + LANE_COMPUTE];
    left[row] = 0;
    for (int i = lane[0]; i < lane[1]; i++) {
      const Segment *s = segment_of(&f, f.program->lane_tasks[i]);
      left[row] += s->alloc_bytes - s->free_bytes;
      freed[row] = s->free_bytes; /* the last one is the optimizer */
    }
  }
  planned_clear(&f);
}

/* Wherever embedding and head meet, in whatever order their gradients come: of each micro-batch whose head is there one
 * whole gradient is left to be summed, not two, and each row gives back what it took. */
START_TEST(shared_table_is_given_back)
{
  static const struct {
    const char *schedule;
    int pp, zero, heads[SHARED_ROWS];
    gboolean meet[SHARED_ROWS];
  } cases[] = {
    { "1f1b", 1, 1, { 0 }, { TRUE } }, { "1f1b", 1, 2, { 4 }, { TRUE } }, { "1f1b", 1, 3, { 4 }, { TRUE } },
    { "1f1b", 2, 3, { 0 }, { FALSE } }, { "zb-v", 2, 1, { 0 }, { TRUE } }, { "zb-v", 2, 2, { 4 }, { TRUE } },
    { "zb-v", 2, 3, { 4 }, { TRUE } }, { "hanayo", 2, 3, { 4 }, { TRUE } },
    { "chimera", 2, 2, { 2, 2 }, { TRUE, TRUE } }, { "chimera", 2, 3, { 2, 2 }, { TRUE, TRUE } },
  };
  double left[2][SHARED_ROWS], freed[2][SHARED_ROWS];

  for (int tied = 0; tied < 2; tied++)
    row_left(cases[_i].schedule, cases[_i].pp, cases[_i].zero, tied, left[tied], freed[tied]);
  for (int row = 0; row < cases[_i].pp; row++) {
    double kept = cases[_i].meet[row] && cases[_i].zero == 3 ? SHARED_TABLE : 0;
    ck_assert_double_eq(left[0][row] - left[1][row], cases[_i].heads[row] * SHARED_TABLE);
    ck_assert_double_eq(freed[1][row] - freed[0][row], kept);
  }
}
END_TEST

static double most_buffers(const Program *p)
{
  g_autoptr(Trace) t = simulate(p);
  double most = 0;

  for (guint i = 0; i < t->rows[0].points->len; i++)
    most = MAX(most, g_array_index(t->rows[0].points, MemoryPoint, i).buffers);
  return most;
}

/* Weights are there from when they may be gathered, of the next piece while one runs, however long that takes. */
START_TEST(gathered_weights_are_held_early)
{
  Planned f;

  setup(&f, dense(), "1f1b");
  planned_divide(&f, 1, 1, 2);
  f.plan.zero = 3;
  planned_build(&f);
  take_long(f.program, TASK_REDUCE, 0);
  double soon = most_buffers(f.program);
  take_long(f.program, TASK_GATHER, 1000);
  ck_assert_double_eq(most_buffers(f.program), soon);
  int first = f.program->lane_tasks[f.program->lane_first[LANE_COMPUTE]];
  ck_assert_double_ge(segment_of(&f, first)->alloc_bytes, 4 * (price(&f, 0)->params + price(&f, 1)->params));
  planned_clear(&f);
}
END_TEST

/* Bytes that the executor's allocator counted in the backward of a block of tests/mpi/parity.c, with as many rows at
 * each expert: the gradient that passes on, those of the feed-forward's products (router, experts' two, shared experts'
 * two), what shared experts gave, and the experts' rows twice. */
START_TEST(experts_hold_their_rows)
{
  Planned f;

  setup(&f, fixture_moe(8, HIDDEN, 8, TOKENS, 61, 4, 2, 16), "1f1b");
  planned_divide(&f, 1, 1, 4);
  f.plan.ep = 2;
  planned_build(&f);
  ck_assert_double_eq(price(&f, 1)->transient_bytes, 2048 + (256 + 8192 + 4096 + 2048 + 2048) + 2048 + 2 * 4096);
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("beside", { receives_are_posted, 4 }, { spread_rows_are_held }, { head_is_gone_at_the_worst_moment },
           { choices_are_kept }, { deferred_gradients_come_late }, { results_wait_on_their_rank }, { pairs_run_in_turn, 2 },
           { others_hold_nothing_between_passes, 3 }, { schedules_give_back }, { experts_hold_their_rows },
           { sends_come_through }, { results_that_come_around_are_received }, { two_results_are_held, 4 },
           { gathered_weights_are_held_early }, { shared_table_stays, 2 }, { shared_table_is_given_back, 10 })
