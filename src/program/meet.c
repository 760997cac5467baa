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

static Meetings meetings_of(const ProgramBuild *b)
{
  const Program *p = b->program;
  Meetings m = { .met = b->layout->passes.met,
                 .inside_s = price_of_layer(b->prices, b->model, 0, MIN(1, b->model->n_layers - 1))->apart_s };
  int gathers = 0;
  double step_s = 0;

  for (int row = 0; row < p->n_rows; row++) {
    int met;
    double seconds = passes_s(p, row, &met);
    gathers = seconds > step_s ? met : gathers;
    step_s = MAX(step_s, seconds);
  }
  m.stages_s = step_s * MIN(1, (double)b->shape.ranks / p->shape.micro);
  m.replicas_s = step_s / (gathers_in_passes(b) ? MAX(gathers, 1) : 1);
  return m;
}

void program_meet(ProgramBuild *b)
{
  const Device *device = &b->cluster->device;
  Program *p = b->program;

  if (device->rate_jitter == 0)
    return;
  Meetings m = meetings_of(b);
  double more = slowest_of_all(device, &b->layout->mesh, &m) / slowest_inside(device, &b->layout->passes, m.inside_s);
  for (guint i = 0; i < p->segments->len; i++) {
    Segment *s = &g_array_index(p->segments, Segment, i);
    if (s->kind != TASK_PASS)
      continue;
    s->seconds += s->compute_s * (more - 1);
    s->compute_s *= more;
    s->crowded_s *= more;
  }
}
