#include "sim/ranks.h"

#include "sim/lane_order.h"
#include "sim/noise.h"
#include "sim/overlap.h"
#include "sim/rank_times.h"
#include "sim/rank_trace.h"
#include "sim/simulate.h"

#include <string.h>

/* The sweep of one program; ends of tasks stand in slots of `replicas` doubles,
 * given to another task once nobody will read them. */
typedef struct {
  const Program *program;
  RankTimes times;
  const SimOverlap *overlap;
  const int *order;         /* tasks, each behind what it waits for */
  int *previous;            /* by task: of its lane, -1 = none */
  const OverlapPass **pass; /* by task: runs beside collectives; NULL for others */
  int *start_slot;          /* by task: starts of a collective that passes run beside, -1 = not kept */
  int *slot;                /* by task: ends */
  int *first_dying, *dying; /* by place in the order: tasks whose ends that place is the last to read */
  GArray *free_slots;       /* int */
  int n_slots;
  int *cursor;              /* by rank: first collective that had not ended when its last pass started */
  double *slots, *ready;
  RankRun *run;
  int recorded;             /* replica whose spans are kept */
  double *device_noise, *link_noise; /* quantiles of the slowest of so many of a place's ranks as are drawn at once */
  double *pass_noise;       /* likewise, of one of them, NULL = none; then rates are drawn rank by rank, too */
  double *rates, *slowest;  /* by row and replica: noise of each of a place's ranks, and the largest */
  const Routing *routing;   /* NULL = none */
  guint64 *random;          /* by step */
  guint64 *loads;           /* by step: where the routing's draws begin */
  double *noisy, *lasting;  /* by replica */
} Ranks;

static int take_slot(Ranks *r)
{
  if (r->free_slots->len == 0)
    return r->n_slots++;
  int slot = g_array_index(r->free_slots, int, r->free_slots->len - 1);
  g_array_set_size(r->free_slots, r->free_slots->len - 1);
  return slot;
}

static int beside_task(const Ranks *r, int i)
{
  return g_array_index(r->overlap->tasks, int, i);
}

static void mark_passes(Ranks *r)
{
  int n = r->program->tasks->len;

  r->pass = g_new0(const OverlapPass *, n);
  r->start_slot = indices_new(n);
  for (guint i = 0; i < r->overlap->passes->len; i++) {
    const OverlapPass *pass = &g_array_index(r->overlap->passes, OverlapPass, i);
    r->pass[pass->task] = pass;
    for (int b = pass->first; b <= pass->last; b++)
      r->start_slot[beside_task(r, b)] = 0;
  }
}

static void find_previous(Ranks *r)
{
  const Program *p = r->program;

  r->previous = g_new(int, p->tasks->len);
  for (int lane = 0; lane < p->n_rows * LANE_COUNT; lane++)
    for (int i = p->lane_first[lane]; i < p->lane_first[lane + 1]; i++)
      r->previous[p->lane_tasks[i]] = i > p->lane_first[lane] ? p->lane_tasks[i - 1] : -1;
}

/* Where in the order each task's end is read for the last time; where nobody reads it: its own place. */
static void find_dying(Ranks *r)
{
  const Program *p = r->program;
  int n = p->tasks->len;
  g_autofree int *last = g_new(int, n);

  for (int i = 0; i < n; i++) {
    int task = r->order[i];
    const Task *t = program_task(r->program, task);
    const OverlapPass *pass = r->pass[task];
    last[task] = i;
    for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++)
      last[p->deps[d]] = i;
    if (r->previous[task] >= 0)
      last[r->previous[task]] = i;
    for (int b = pass ? pass->first : 0; pass && b <= pass->last; b++)
      last[beside_task(r, b)] = i;
  }
  r->first_dying = g_new0(int, n + 1);
  r->dying = g_new(int, n);
  for (int i = 0; i < n; i++)
    r->first_dying[last[i] + 1]++;
  for (int i = 0; i < n; i++)
    r->first_dying[i + 1] += r->first_dying[i];
  g_autofree int *next = g_memdup2(r->first_dying, n * sizeof(int));
  for (int i = 0; i < n; i++)
    r->dying[next[last[i]]++] = i;
}

static void give_slots(Ranks *r)
{
  int n = r->program->tasks->len;

  r->slot = g_new(int, n);
  r->free_slots = g_array_new(FALSE, FALSE, sizeof(int));
  for (int i = 0; i < n; i++) {
    int task = r->order[i];
    r->slot[task] = take_slot(r);
    if (r->start_slot[task] == 0)
      r->start_slot[task] = take_slot(r);
    for (int d = r->first_dying[i]; d < r->first_dying[i + 1]; d++) {
      int dead = r->dying[d];
      g_array_append_val(r->free_slots, r->slot[dead]);
      if (r->start_slot[dead] >= 0)
        g_array_append_val(r->free_slots, r->start_slot[dead]);
    }
  }
}

static double *ends_of(const Ranks *r, int task)
{
  return r->slots + (gsize)r->slot[task] * r->times.replicas;
}

static void add_seconds(const double *ready, const double *own, double seconds, double *end, int n)
{
  for (int i = 0; i < n && own; i++)
    end[i] = ready[i] + own[i];
  for (int i = 0; i < n && !own; i++)
    end[i] = ready[i] + seconds;
}

/* A pass of each rank beside its collectives; its group has the slowest's end. */
static void run_beside(Ranks *r, const OverlapPass *pass, const double *own, const Segment *segment, double *end)
{
  int *cursor = r->cursor + (gsize)pass->row * r->times.replicas;

  for (int rank = 0; rank < r->times.replicas; rank++) {
    double since = r->ready[rank], left = own ? own[rank] : segment->seconds;
    int i = MAX(cursor[rank], pass->first);
    while (i <= pass->last && ends_of(r, beside_task(r, i))[rank] <= since)
      i++;
    cursor[rank] = i;
    for (; i <= pass->last; i++) {
      int task = beside_task(r, i);
      const Segment *s = &g_array_index(r->program->segments, Segment, program_task(r->program, task)->segment);
      double start = r->slots[(gsize)r->start_slot[task] * r->times.replicas + rank];
      if (overlap_meet(&since, &left, start, ends_of(r, task)[rank], s->slowdown))
        break;
    }
    end[rank] = since + left;
  }
  rank_join_slowest(end, r->times.replicas, rank_join_of(&r->times, segment));
}

/* Sums of each rank, and the span of the one that is kept. */
static void record(Ranks *r, int task, const double *end)
{
  const Task *t = program_task(r->program, task);
  int n = r->times.replicas;
  double *pass_s = r->run->pass_s + (gsize)t->row * n, *finish_s = r->run->finish_s + (gsize)t->row * n;

  for (int i = 0; i < n; i++)
    finish_s[i] = MAX(finish_s[i], end[i]);
  for (int i = 0; i < n && t->kind == TASK_PASS; i++)
    pass_s[i] += end[i] - r->ready[i];
  g_array_index(r->run->trace->spans, Span, task) =
      (Span) { .start = r->ready[r->recorded], .end = end[r->recorded], .segment = t->segment, .micro = t->micro,
               .row = t->row, .chunk = t->chunk, .lane = t->lane, .kind = t->kind, .pass = t->pass,
               .paired = t->paired };
}

/* When all that a task waits for has ended. */
static void find_ready(Ranks *r, int task)
{
  const Task *t = program_task(r->program, task);
  int n = r->times.replicas;
  const double *last = r->previous[task] >= 0 ? ends_of(r, r->previous[task]) : memset(r->ready, 0, n * sizeof *last);

  if (t->n_deps == 0 && last != r->ready)
    memcpy(r->ready, last, n * sizeof *last);
  for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++) {
    const double *end = ends_of(r, r->program->deps[d]);
    for (int i = 0; i < n; i++)
      r->ready[i] = MAX(last[i], end[i]);
    last = r->ready;
  }
}

/* What the busiest experts add to a pass; a group has its own tokens. */
static void add_loads(Ranks *r, const Task *task, RankJoin group)
{
  const RankTimes *t = &r->times;
  double seconds = 0;

  for (int i = 0; i < t->replicas; i++) {
    if (i % t->places == 0 || (!r->routing->popular && i % group.size == 0))
      seconds = routing_s(r->routing, r->program, task->segment, r->loads[i / t->places], task->micro,
                          task->row * t->places + i % t->places);
    r->noisy[i] += seconds;
  }
}

/* What a group's slowest rank is behind in this pass, of its rate and its pass together, beyond its slowest rate. */
static void draw_passes(Ranks *r, const Task *task, RankJoin group)
{
  const RankTimes *t = &r->times;
  const gsize first = (gsize)task->row * t->replicas;

  for (int i = 0; i < t->replicas; i++) {
    r->noisy[i] = noise_slowest(r->pass_noise, &r->random[i / t->places], r->rates + (first + i) * t->fold, t->fold);
    r->lasting[i] = r->slowest[first + i];
  }
  rank_join_slowest(r->noisy, t->replicas, group);
  rank_join_slowest(r->lasting, t->replicas, group);
  for (int i = 0; i < t->replicas; i++)
    r->noisy[i] -= r->lasting[i];
}

/* Seconds of a pass as each replica draws it: a group has the slowest's. */
static const double *drawn(Ranks *r, const Task *task, const Segment *s, const double *own)
{
  const RankTimes *t = &r->times;
  RankJoin group = rank_join_of(t, s);

  if (r->pass_noise)
    draw_passes(r, task, group);
  for (int i = 0; i < t->replicas; i++)
    r->noisy[i] = (own ? own[i] : s->seconds) + (r->pass_noise ? s->compute_s * r->noisy[i] : 0);
  if (r->routing)
    add_loads(r, task, group);
  return r->noisy;
}

static void run_task(Ranks *r, int task)
{
  const Task *t = program_task(r->program, task);
  const Segment *segment = &g_array_index(r->program->segments, Segment, t->segment);
  const double *own = rank_times_of(&r->times, task);
  double *end = ends_of(r, task);
  int n = r->times.replicas;

  if ((r->pass_noise || r->routing) && t->kind == TASK_PASS)
    own = drawn(r, t, segment, own);
  find_ready(r, task);
  rank_join_slowest(r->ready, n, rank_join_of(&r->times, segment));
  if (r->start_slot[task] >= 0)
    memcpy(r->slots + (gsize)r->start_slot[task] * n, r->ready, n * sizeof *end);
  if (r->pass[task])
    run_beside(r, r->pass[task], own, segment, end);
  else
    add_seconds(r->ready, own, segment->seconds, end, n);
  if (segment->met)
    rank_join_slowest(end, n, (RankJoin) { r->times.places, 1 });
  record(r, task, end);
}

static RankRun *run_new(const Program *p, int replicas)
{
  RankRun *run = g_new0(RankRun, 1);

  run->n_rows = p->n_rows;
  run->replicas = replicas;
  run->pass_s = g_new0(double, (gsize)p->n_rows * replicas);
  run->finish_s = g_new0(double, (gsize)p->n_rows * replicas);
  run->trace = trace_new(p);
  g_array_set_size(run->trace->spans, p->tasks->len);
  return run;
}

static void finish_run(RankRun *run, const Program *p)
{
  for (int rank = 0; rank < run->n_rows * run->replicas; rank++) {
    run->end_s = MAX(run->end_s, run->finish_s[rank]);
    if (run->pass_s[rank] > run->pass_s[run->slowest])
      run->slowest = rank;
  }
  run->end_s += p->step_s;
}

static RankRun *sweep(Ranks *r, int recorded)
{
  int n = r->times.replicas;

  r->run = run_new(r->program, n);
  r->recorded = recorded;
  memset(r->cursor, 0, (gsize)r->program->n_rows * n * sizeof *r->cursor);
  for (guint i = 0; i < r->program->tasks->len; i++)
    run_task(r, r->order[i]);
  finish_run(r->run, r->program);
  return r->run;
}

static void ranks_init(Ranks *r, const Program *p)
{
  find_previous(r);
  mark_passes(r);
  find_dying(r);
  give_slots(r);
  r->slots = g_new(double, (gsize)r->n_slots * r->times.replicas);
  r->ready = g_new(double, r->times.replicas);
  r->cursor = g_new(int, (gsize)p->n_rows * r->times.replicas);
}

static void ranks_clear(Ranks *r)
{
  rank_times_clear(&r->times);
  g_free(r->previous);
  g_free(r->pass);
  g_free(r->start_slot);
  g_free(r->slot);
  g_free(r->first_dying);
  g_free(r->dying);
  g_array_unref(r->free_slots);
  g_free(r->cursor);
  g_free(r->slots);
  g_free(r->ready);
}

/* The ranks of a program whose lanes run in its order. */
static RankRun *run_ranks(const Program *p, const Layout *layout, const Cluster *cluster, const Straggler *stragglers,
                          int n_stragglers)
{
  g_autoptr(SimOverlap) overlap = sim_overlap_new(p);
  g_autofree int *last = overlap ? sim_overlap_last(overlap, p) : NULL;
  g_autofree int *order = g_new(int, p->tasks->len);
  Ranks r = { .program = p, .overlap = overlap, .order = order };

  if (!overlap || program_order(p, last, order) < (int)p->tasks->len)
    return NULL;
  rank_times_init(&r.times, p, layout, cluster, stragglers, n_stragglers);
  ranks_init(&r, p);
  RankRun *run = sweep(&r, 0);
  int replica = run->slowest % run->replicas;
  if (replica != 0) {
    rank_run_free(run);
    run = sweep(&r, replica);
  }
  trace_complete(run->trace, p);
  run->trace->end_s = run->end_s;
  ranks_clear(&r);
  return run;
}

RankRun *simulate_ranks(const Program *p, const Layout *layout, const Cluster *cluster, const Straggler *stragglers,
                        int n_stragglers)
{
  g_autofree int *lane_tasks = simulate_order(p);
  Program ordered = *p;

  if (!lane_tasks)
    return run_ranks(p, layout, cluster, stragglers, n_stragglers);
  ordered.lane_tasks = lane_tasks;
  RankRun *run = run_ranks(&ordered, layout, cluster, stragglers, n_stragglers);
  if (run)
    lane_order_sort_spans(run->trace, p, lane_tasks);
  return run;
}

/* ---- draws ---- */

#define REPLICAS_MAX 4096 /* of all steps that are swept at once */
#define SEED 20260101u

/* Noise of a place's slowest rank. */
static double draw_rate(Ranks *r, gsize at, int step)
{
  const int fold = r->times.fold;

  if (!r->pass_noise)
    return noise_draw(r->device_noise, &r->random[step]);
  r->slowest[at] = -INFINITY;
  for (int k = 0; k < fold; k++) {
    r->rates[at * fold + k] = noise_draw(r->device_noise, &r->random[step]);
    r->slowest[at] = MAX(r->slowest[at], r->rates[at * fold + k]);
  }
  return r->slowest[at];
}

/* One step's factors, from a generator that goes on with its passes. */
static void draw_factors(Ranks *r, int step)
{
  RankTimes *t = &r->times;

  for (int row = 0; row < r->program->n_rows; row++)
    for (int i = step * t->places; i < (step + 1) * t->places; i++) {
      gsize at = (gsize)row * t->replicas + i;
      t->factor[at] = 1 + draw_rate(r, at, step);
      if (t->link)
        t->link[at] = 1 + noise_draw(r->link_noise, &r->random[step]);
    }
}

static void slow_down(RankTimes *t, const Straggler *stragglers, int n)
{
  for (int i = 0; i < n; i++)
    for (int step = 0; step < t->replicas / t->places; step++)
      t->factor[rank_times_slot(t, stragglers[i].rank, step)] *= stragglers[i].factor;
}

static double end_of_step(const Ranks *r, int step)
{
  const RankTimes *t = &r->times;
  double end = 0;

  for (int row = 0; row < r->program->n_rows; row++)
    for (int i = step * t->places; i < (step + 1) * t->places; i++)
      end = MAX(end, r->run->finish_s[(gsize)row * t->replicas + i]);
  return end + r->program->step_s;
}

/* Steps from `first` on, as many as are swept at once. */
static void draw_steps(Ranks *r, const Straggler *stragglers, int n_stragglers, int first)
{
  RankTimes *t = &r->times;

  for (int step = 0; step < t->replicas / t->places; step++) {
    r->random[step] = (SEED + (guint64)first + step) * 0xd1342543de82ef95u;
    r->loads[step] = noise_apart(r->random[step], G_MAXINT);
    draw_factors(r, step);
  }
  slow_down(t, stragglers, n_stragglers);
  rank_times_price(t);
  sweep(r, 0);
}

static double *draw(Ranks *r, const Straggler *stragglers, int n_stragglers, int n)
{
  int at_once = r->times.replicas / r->times.places;
  double *seconds = g_new(double, MAX(n, 1));

  for (int i = 0; i < n; i++) {
    if (i % at_once == 0)
      draw_steps(r, stragglers, n_stragglers, i);
    seconds[i] = end_of_step(r, i % at_once);
    if (i % at_once == at_once - 1 || i == n - 1)
      rank_run_free(r->run);
  }
  return seconds;
}

double *simulate_draws(const Program *p, const Layout *layout, const Cluster *cluster, const Jitter *jitter,
                       const Straggler *stragglers, int n_stragglers, int n)
{
  g_autofree int *lane_tasks = simulate_order(p), *order = g_new(int, p->tasks->len);
  Program ordered = *p;

  ordered.lane_tasks = lane_tasks ? lane_tasks : p->lane_tasks;
  g_autoptr(SimOverlap) overlap = sim_overlap_new(&ordered);
  g_autofree int *last = overlap ? sim_overlap_last(overlap, &ordered) : NULL;
  if (!overlap || program_order(&ordered, last, order) < (int)p->tasks->len)
    return NULL;

  Ranks r = { .program = &ordered, .overlap = overlap, .order = order };
  rank_times_init_steps(&r.times, &ordered, layout, cluster, REPLICAS_MAX, jitter->link > 0);
  ranks_init(&r, &ordered);
  const gsize places = (gsize)ordered.n_rows * r.times.replicas;
  r.device_noise = noise_quantiles(jitter->pass > 0 ? 1 : r.times.fold, jitter->device);
  r.link_noise = noise_quantiles(r.times.fold, jitter->link);
  r.pass_noise = jitter->pass > 0 ? noise_quantiles(1, jitter->pass) : NULL;
  r.rates = r.pass_noise ? g_new(double, places * r.times.fold) : NULL;
  r.slowest = r.pass_noise ? g_new(double, places) : NULL;
  r.random = g_new(guint64, r.times.replicas / r.times.places);
  r.noisy = g_new(double, r.times.replicas);
  r.lasting = g_new(double, r.times.replicas);
  r.loads = g_new(guint64, r.times.replicas / r.times.places);
  r.routing = jitter->routing;
  double *seconds = draw(&r, stragglers, n_stragglers, n);
  g_free(r.device_noise);
  g_free(r.link_noise);
  g_free(r.pass_noise);
  g_free(r.rates);
  g_free(r.slowest);
  g_free(r.random);
  g_free(r.noisy);
  g_free(r.lasting);
  g_free(r.loads);
  ranks_clear(&r);
  return seconds;
}

double *simulate_plan_draws(const Model *model, const Cluster *cluster, const Plan *plan, const Jitter *jitter,
                            const Straggler *stragglers, int n_stragglers, int n)
{
  const Layout layout = layout_of(plan);
  Cluster even = *cluster;

  even.device.rate_spread = even.device.rate_passing = 0;
  g_autoptr(PriceTable) prices = price_table_new(model, &layout, &even);
  g_autoptr(Program) program = program_new(model, &layout, &even, prices);
  g_autoptr(Routing) routing = routing_new(model, plan, &even, program);
  const Jitter own = { cluster->device.rate_spread, jitter->pass, jitter->link, routing };
  return simulate_draws(program, &layout, &even, &own, stragglers, n_stragglers, n);
}

void rank_run_free(RankRun *run)
{
  if (!run)
    return;
  g_free(run->pass_s);
  g_free(run->finish_s);
  trace_free(run->trace);
  g_free(run);
}
