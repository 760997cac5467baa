/* How far what a plan's ranks held is from what is predicted. */
#ifndef TDP_TESTS_MPI_HELD_H
#define TDP_TESTS_MPI_HELD_H

#include "op/op.h"
#include "sim/simulate.h"

#include <math.h>
#include <string.h>

enum { HELD_ACTIVATIONS, HELD_BUFFERS, HELD_ALL, HELD_KINDS };
/* Measured at most: 0.01, 0.067 and 0.022; time moves buffers from run to run, see docs/executor.md. */
static const double held_tolerances[HELD_KINDS] = { 0.02, 0.1, 0.03 };

static inline double held(const Trace *trace, int row, const MemoryPoint *point, int kind)
{
  const double *throughout = trace->rows[row].static_bytes;
  double buffers = point->buffers + throughout[PART_BUFFERS], all = point->activations + buffers;

  for (int part = PART_WEIGHTS; part <= PART_OPTIMIZER; part++)
    all += throughout[part];
  return kind == HELD_ACTIVATIONS ? point->activations : kind == HELD_BUFFERS ? buffers : all;
}

static inline double most(const Trace *trace, int row, int kind)
{
  const TraceRow *r = &trace->rows[row];
  double most = kind == HELD_BUFFERS ? r->most_buffers + r->static_bytes[PART_BUFFERS] : 0;

  for (guint i = 0; i < trace->rows[row].points->len; i++)
    most = fmax(most, held(trace, row, &g_array_index(trace->rows[row].points, MemoryPoint, i), kind));
  return most;
}

/* The same where what ends and begins at one moment is never there at once. */
static inline double least_most(const Trace *trace, int row, int kind)
{
  const GArray *points = trace->rows[row].points;
  double most = 0;

  for (guint i = 0; i < points->len; i++) {
    const MemoryPoint *p = &g_array_index(points, MemoryPoint, i);
    if (i + 1 == points->len || p[1].time > p->time)
      most = fmax(most, held(trace, row, p, kind));
  }
  return most;
}

/* What runs beside passes takes no time, or on a row longer than any pass: a bit each of the kinds that do. */
static const TaskKind beside_kinds[] = { TASK_REDUCE, TASK_SEND };
enum { BESIDE_KINDS = G_N_ELEMENTS(beside_kinds), TIMINGS = 1 << BESIDE_KINDS };

static inline void time_beside(Program *p, int row, int long_ones)
{
  for (guint i = 0; i < p->tasks->len; i++)
    for (int k = 0; k < BESIDE_KINDS; k++) {
      const Task *t = &g_array_index(p->tasks, Task, i);
      Segment *s = &g_array_index(p->segments, Segment, t->segment);
      if (t->kind != beside_kinds[k])
        continue;
      s->seconds = t->row == row && long_ones >> k & 1;
      memset(&s->cost.use, 0, sizeof s->cost.use);
    }
}

/* What is predicted if experts get as many rows as a row's got, with such times beside its passes, which run in the
 * order in which they are listed. */
static inline Trace *predict(const Cluster *cluster, const Model *model, const Plan *plan, int row, double load,
                             int long_ones)
{
  Plan busy = *plan;

  if (load > 0)
    busy.expert_load = load;
  g_autoptr(PriceTable) prices = price_table_new(model, LAYOUT(&busy), cluster);
  g_autoptr(Program) program = program_new(model, LAYOUT(&busy), cluster, prices);
  program->opportunistic = FALSE;
  time_beside(program, row, long_ones);
  return simulate(program);
}

/* Marks what must have ended before a task begins; `before`: of each task the one before it on its lane, -1 = none. */
static inline void mark_ended(const Program *p, const int *before, int task, gboolean *ended)
{
  const Task *t = &g_array_index(p->tasks, Task, task);

  for (int d = t->first_dep - 1; d < t->first_dep + t->n_deps; d++) {
    int earlier = d < t->first_dep ? before[task] : p->deps[d];
    if (earlier < 0 || ended[earlier])
      continue;
    ended[earlier] = TRUE;
    mark_ended(p, before, earlier, ended);
  }
}

/* Parts of the head's input gradient that a row may hold beside a pass: it has made them, and the exchange that sums them
 * may be still to come, as it waits for other rows. */
static inline int waiting_parts(const Program *p, int row)
{
  Exchange sums = p->schedule->vocabulary == 1 ? EXCHANGE_LOGITS : EXCHANGE_GRADIENT;
  const int *lane = &p->lane_first[row * LANE_COUNT + LANE_COMPUTE];
  g_autofree int *before = g_new(int, p->tasks->len);
  int most = 0;

  for (int l = 0; l < p->n_rows * LANE_COUNT; l++)
    for (int i = p->lane_first[l]; i < p->lane_first[l + 1]; i++)
      before[p->lane_tasks[i]] = i > p->lane_first[l] ? p->lane_tasks[i - 1] : -1;
  for (int i = lane[0]; i < lane[1]; i++) {
    g_autofree gboolean *ended = g_new0(gboolean, p->tasks->len);
    int waiting = 0;
    mark_ended(p, before, p->lane_tasks[i], ended);
    for (guint k = 0; k < p->tasks->len; k++) {
      const Task *t = &g_array_index(p->tasks, Task, k);
      if (t->kind != TASK_VOCAB || g_array_index(p->segments, Segment, t->segment).exchange != sums || ended[k])
        continue;
      for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++)
        waiting += g_array_index(p->tasks, Task, p->deps[d]).row == row && ended[p->deps[d]];
    }
    most = MAX(most, waiting);
  }
  return most;
}

/* With one barrier the labels' rows wait beside each part. */
static inline double waiting_bytes(const Program *p, const Model *model, const Layout *layout, int row)
{
  int vocabulary = p->schedule->vocabulary;
  return vocabulary ? waiting_parts(p, row) * op_boundary_bytes(model, &layout->passes) * (vocabulary == 1 ? 2 : 1) : 0;
}

/* 0 between the two that are predicted. */
static inline double distance(double measured, double low, double high)
{
  return measured < low ? measured / low - 1 : measured > high ? measured / high - 1 : 0;
}

/* Experts' rows, over an even share, where a row was measured to hold most: of activations, several micro-batches' and
 * blocks'; of buffers, those of the block that ran. */
static inline double load_of(const TraceRow *row, int kind)
{
  return kind == HELD_ACTIVATIONS ? row->held_load : kind == HELD_BUFFERS ? row->buffers_load : row->peak_load;
}

/* How far the most that any row holds is from what is predicted. Of gradients that are summed beside passes, and of
 * results that are sent, as many are held at once as the program lets be, or fewer: time decides. */
static inline void held_errors(const Cluster *cluster, const Model *model, const Plan *plan, const Program *program,
                               const Trace *trace, double errors[HELD_KINDS])
{
  memset(errors, 0, HELD_KINDS * sizeof *errors);
  for (int row = 0; row < trace->n_rows; row++) {
    double beside = waiting_bytes(program, model, LAYOUT(plan), row);
    for (int kind = 0; kind < HELD_KINDS; kind++) {
      double low = INFINITY, high = 0, waiting = kind == HELD_ACTIVATIONS ? 0 : beside;
      for (int long_ones = 0; long_ones < TIMINGS; long_ones++) {
        g_autoptr(Trace) predicted = predict(cluster, model, plan, row, load_of(&trace->rows[row], kind), long_ones);
        low = fmin(low, least_most(predicted, row, kind));
        high = fmax(high, most(predicted, row, kind));
      }
      double error = distance(most(trace, row, kind), low, high + waiting);
      if (fabs(error) > fabs(errors[kind]))
        errors[kind] = error;
    }
  }
}

/* What is held, of plans that say what this executor keeps. */
static inline gboolean far_from_predicted(const Plan *plan, const double errors[HELD_KINDS])
{
  gboolean far = FALSE;

  for (int kind = 0; kind < HELD_KINDS; kind++)
    far |= fabs(errors[kind]) > held_tolerances[kind];
  return far && g_str_equal(plan->framework->name, "tdp-run");
}

#endif
