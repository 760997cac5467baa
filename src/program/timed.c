/* Passes with times from elsewhere. */
#include "program/program.h"

static Segment *segment_of(const Program *p, const Task *t)
{
  return &g_array_index(p->segments, Segment, t->segment);
}

static gboolean is_timed(const Task *t)
{
  return t->kind == TASK_PASS && (t->pass == PASS_FORWARD || pass_is_backward(t->pass) || t->pass == PASS_WEIGHT);
}

/* Index of a task's stage and direction. */
static int direction_of(const Program *p, const Task *t)
{
  return 2 * schedule_stage(p->schedule, &p->shape, t->row, t->chunk) + (t->pass != PASS_FORWARD);
}

void program_time_passes(Program *p, const double *forward_s, const double *backward_s)
{
  int stages = schedule_stages(p->schedule, &p->shape);
  g_autofree double *priced = g_new0(double, 2 * stages);
  g_autofree gboolean *done = g_new0(gboolean, p->segments->len);

  for (guint i = 0; i < p->tasks->len; i++)
    if (is_timed(program_task(p, i)))
      priced[direction_of(p, program_task(p, i))] += segment_of(p, program_task(p, i))->seconds / p->shape.micro;
  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = program_task(p, i);
    if (!is_timed(t) || done[t->segment])
      continue;
    int at = direction_of(p, t);
    double scale = (at % 2 ? backward_s : forward_s)[at / 2] / priced[at];
    segment_of(p, t)->seconds *= scale;
    segment_of(p, t)->compute_s *= scale;
    segment_of(p, t)->slack_s *= scale;
    segment_of(p, t)->tensor_s *= scale;
    segment_of(p, t)->beyond_s *= scale;
    segment_of(p, t)->crowded_s *= scale;
    segment_of(p, t)->context_s *= scale;
    segment_of(p, t)->expert_s *= scale;
    segment_of(p, t)->data_s *= scale;
    g_clear_pointer(&segment_of(p, t)->passes, g_array_unref); /* as priced, it took another time */
    done[t->segment] = TRUE;
  }
}
