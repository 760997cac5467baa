/* How far what a plan's ranks held is from what is predicted. */
#ifndef TDP_TESTS_MPI_HELD_H
#define TDP_TESTS_MPI_HELD_H

#include "op/op.h"
#include "sim/simulate.h"

#include <math.h>
#include <string.h>

enum { HELD_ACTIVATIONS, HELD_BUFFERS, HELD_ALL, HELD_KINDS };
/* Measured at most: 0.008, 0.032 and 0.011; time moves buffers from run to run, see docs/executor.md. */
static const double held_tolerances[HELD_KINDS] = { 0.015, 0.05, 0.02 };

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

/* Prices and the program of a plan whose experts have such a load. */
typedef struct {
  PriceTable *prices;
  Program *program;
} Loaded;

static inline void loaded_free(void *data)
{
  Loaded *l = data;

  price_table_free(l->prices);
  program_free(l->program);
  g_free(l);
}

typedef struct {
  const Cluster *cluster;
  const Model *model;
  const Plan *plan;
  const Trace *measured;
  GHashTable *made; /* text of an ExpertLoad to Loaded */
} Loads;

static inline Loaded *load_with(const Loads *l, ExpertLoad load)
{
  Loaded *made = g_new(Loaded, 1);
  Plan busy = *l->plan;

  busy.expert_load = load.rows;
  Layout layout = layout_of(&busy);
  layout.passes.expert_own_tokens = load.own;
  made->prices = price_table_new(l->model, &layout, l->cluster);
  made->program = program_new(l->model, &layout, l->cluster, made->prices);
  return made;
}

static inline const Loaded *loaded(const Loads *l, ExpertLoad load)
{
  g_autofree char *key = g_strdup_printf("%a %a", load.rows, load.own);
  Loaded *made = g_hash_table_lookup(l->made, key);

  if (!made) {
    made = load_with(l, load);
    g_hash_table_insert(l->made, g_steal_pointer(&key), made);
  }
  return made;
}

static inline const Segment *segment_of(const Loaded *l, int task)
{
  return program_segment(l->program, program_task(l->program, task));
}

/* As measured of a task's layer. */
static inline const ExpertLoad *load_of(const Loads *l, const Program *p, int task, int layer)
{
  const Task *t = program_task(p, task);

  return &l->measured->loads[(schedule_copy(p->schedule, t->chunk) * p->shape.micro + t->micro) * l->model->n_layers + layer];
}

/* Activations that a layer with such a load holds more, or less, once a pass has run. */
static inline double held_more(const Loads *l, ExpertLoad load, Pass pass, int layer)
{
  const LayerPrice *price = price_of_layer(loaded(l, load)->prices, l->model, 0, layer);

  switch (pass) {
  case PASS_FORWARD:
    return price->saved_bytes;
  case PASS_INPUT:
    return price->deferred_bytes - price->saved_bytes;
  case PASS_WEIGHT:
    return -price->deferred_bytes;
  default:
    return pass == PASS_BACKWARD ? -price->saved_bytes : 0;
  }
}

/* What a pass holds where each block's experts have the rows that they had: activations those of the blocks in the mean;
 * buffers those of one block, beside activations of others that are not there yet, of the blocks behind it in a forward and
 * of those up to it in a backward, or no more. The block is that with which most is held, of buffers alone or in all. */
static inline void load_pass(const Loads *l, Program *p, int task, int kind)
{
  Task *t = &g_array_index(p->tasks, Task, task);
  Segment s = *program_segment(p, t);
  double sum = 0, more = 0, behind = 0, most = -INFINITY;
  int blocks = 0;

  for (int layer = s.first_layer; layer < s.first_layer + s.n_layers; layer++) {
    gboolean block = model_layer(l->model, layer)->ffn.experts > 0;
    sum += block ? load_of(l, p, task, layer)->rows : 0;
    more += held_more(l, *load_of(l, p, task, layer), t->pass, layer);
    blocks += block;
  }
  for (int layer = s.first_layer + s.n_layers - 1; layer >= s.first_layer && blocks > 0; layer--) {
    ExpertLoad load = *load_of(l, p, task, layer);
    const Segment *block = segment_of(loaded(l, load), task);
    double absent = t->pass == PASS_FORWARD ? behind : MAX(more, 0) - behind;
    double value = block->alloc_bytes - (kind == HELD_BUFFERS ? 0 : absent);
    behind += held_more(l, load, t->pass, layer);
    if (model_layer(l->model, layer)->ffn.experts == 0 || value <= most)
      continue;
    most = value;
    s.absent_bytes = absent;
    s.alloc_bytes = block->alloc_bytes;
    s.free_bytes = block->free_bytes;
  }
  if (blocks == 0)
    return;
  s.activation_bytes = segment_of(loaded(l, (ExpertLoad) { sum / blocks, sum / blocks }), task)->activation_bytes;
  if (s.passes)
    g_array_ref(s.passes);
  t->segment = p->segments->len;
  g_array_append_val(p->segments, s);
}

/* What is predicted for the rows that a row's experts had, with such times beside its passes, which run in the order in
 * which they are listed. */
static inline Trace *predict(const Loads *l, int row, int kind, int long_ones)
{
  Loaded *even = load_with(l, (ExpertLoad) { l->plan->expert_load, l->plan->expert_load });
  Program *program = even->program;

  program->opportunistic = FALSE;
  for (guint i = 0; i < program->tasks->len; i++)
    if (program_task(program, i)->row == row && program_task(program, i)->kind == TASK_PASS)
      load_pass(l, program, i, kind);
  time_beside(program, row, long_ones);
  Trace *trace = simulate(program);
  loaded_free(even);
  return trace;
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

/* How far the most that any row holds is from what is predicted. Of gradients that are summed beside passes, and of
 * results that are sent, as many are held at once as the program lets be, or fewer: time decides. */
static inline void held_errors(const Cluster *cluster, const Model *model, const Plan *plan, const Program *program,
                               const Trace *trace, double errors[HELD_KINDS])
{
  Loads l = { cluster, model, plan, trace, g_hash_table_new_full(g_str_hash, g_str_equal, g_free, loaded_free) };

  memset(errors, 0, HELD_KINDS * sizeof *errors);
  for (int row = 0; row < trace->n_rows; row++) {
    double beside = waiting_bytes(program, model, LAYOUT(plan), row);
    for (int kind = 0; kind < HELD_KINDS; kind++) {
      double low = INFINITY, high = 0, waiting = kind == HELD_ACTIVATIONS ? 0 : beside;
      for (int long_ones = 0; long_ones < TIMINGS; long_ones++) {
        g_autoptr(Trace) predicted = predict(&l, row, kind, long_ones);
        low = fmin(low, least_most(predicted, row, kind));
        high = fmax(high, most(predicted, row, kind));
      }
      double error = distance(most(trace, row, kind), low, high + waiting);
      if (fabs(error) > fabs(errors[kind]))
        errors[kind] = error;
    }
  }
  g_hash_table_unref(l.made);
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
