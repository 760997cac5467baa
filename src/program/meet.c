/* Passes of ranks that wait for one another beyond what layers' prices say. */
#include "program/build.h"

#include "cost/slowest.h"

static gboolean gathers_in_passes(const ProgramBuild *b)
{
  return own_states(b)->zero >= 3;
}

/* Seconds of a row's passes in a step, and the gathers among which they lie. */
static double passes_s(const Program *p, int row, int *gathers)
{
  double sum = 0;

  *gathers = 0;
  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = &g_array_index(p->tasks, Task, i);
    sum += t->row == row && t->kind == TASK_PASS ? g_array_index(p->segments, Segment, t->segment).seconds : 0;
    *gathers += t->row == row && t->kind == TASK_GATHER;
  }
  return sum;
}

/* The rank that has the last stage. */
static int loss_rank(const ProgramBuild *b)
{
  return schedule_place(b->layout->pipeline.schedule, &b->shape, b->stages - 1, 0).rank;
}

/* Whether a pass is of one of the rank's chunks. */
static gboolean is_of_rank(const ProgramBuild *b, const Segment *s, int rank)
{
  for (int chunk = 0; chunk < b->shape.chunks; chunk++) {
    Piece stage = stage_layers(b, program_stage(b, rank, chunk));
    if (s->first_layer >= stage.first_layer && s->first_layer < stage.first_layer + stage.n_layers)
      return TRUE;
  }
  return FALSE;
}

static Meetings meetings_of(const ProgramBuild *b)
{
  const Program *p = b->program;
  Meetings m = { .met = b->layout->passes.met,
                 .inside_s = price_of_layer(b->prices, b->model, 0, MIN(1, b->model->n_layers - 1))->apart_s };
  int gathers = 0, rows = b->cluster->device.rate_jitter > 0 || amax_meets(b) ? p->n_rows : 0;
  double step_s = 0;

  for (int row = 0; row < rows; row++) {
    int met;
    double seconds = passes_s(p, row, &met);
    gathers = seconds > step_s ? met : gathers;
    step_s = MAX(step_s, seconds);
  }
  m.stages_s = step_s * MIN(1, (double)b->shape.ranks / p->shape.micro);
  m.replicas_s = step_s / (gathers_in_passes(b) ? MAX(gathers, 1) : 1);
  m.passing_s = amax_meets(b) ? step_s / (2 * p->shape.micro * b->shape.chunks) : 0;
  return m;
}

/* A pass whose computation takes `more` times as long, as far as it does not wait for the host. */
static void lengthen(Segment *s, double more)
{
  double behind = segment_behind(s, more - 1);

  s->slack_s = MAX(0, s->slack_s - (s->compute_s - s->slack_s) * (more - 1));
  s->seconds += behind;
  s->compute_s += behind;
  s->crowded_s *= more;
}

void program_meet(ProgramBuild *b)
{
  const Device *device = &b->cluster->device;
  gboolean all = amax_meets(b), loss = loss_meets(b) && !all;
  Program *p = b->program;

  if (device->rate_jitter == 0 && (device->rate_passing == 0 || (!loss && !all)))
    return;
  Meetings m = meetings_of(b);
  int gathers, rank = loss_rank(b);
  double inside = slowest_inside(device, &b->layout->passes, m.inside_s);
  double more = slowest_of_all(device, &b->layout->mesh, &m) / inside;
  m.passing_s = loss ? passes_s(p, rank, &gathers) / p->shape.micro : m.passing_s;
  double more_last = slowest_of_all(device, &b->layout->mesh, &m) / inside;
  for (guint i = 0; i < p->segments->len; i++) {
    Segment *s = &g_array_index(p->segments, Segment, i);
    if (s->kind == TASK_PASS)
      lengthen(s, loss && is_of_rank(b, s, rank) ? more_last : more);
  }
}
