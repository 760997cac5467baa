/* Who receives each send, and when tdp-run posts that. */
#include "program/program.h"

int *program_receivers(const Program *p)
{
  int *receiver = indices_new(MAX(p->tasks->len, 1));

  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = program_task(p, i);
    for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++) {
      const Task *dep = program_task(p, p->deps[d]);
      if (dep->kind == TASK_SEND && dep->row != t->row)
        receiver[p->deps[d]] = i;
    }
  }
  return receiver;
}

/* When tasks end where each pass takes as long as any, and nothing else takes time. */
static int *ends_of(const Program *p)
{
  int n = p->tasks->len, *end = g_new0(int, MAX(n, 1));
  g_autofree int *order = g_new(int, MAX(n, 1)), *lane_end = g_new0(int, p->n_rows * LANE_COUNT);
  int placed = program_order(p, NULL, order);

  for (int i = 0; i < placed; i++) {
    const Task *t = program_task(p, order[i]);
    int *lane = &lane_end[t->row * LANE_COUNT + t->lane], start = *lane;
    for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++)
      start = MAX(start, end[p->deps[d]]);
    *lane = end[order[i]] = start + (t->kind == TASK_PASS);
  }
  return end;
}

/* The sends from row to row, in their order. */
static GArray **sends_by_pair(const Program *p, const int *receiver)
{
  GArray **sends = g_new0(GArray *, p->n_rows * p->n_rows);

  for (int from = 0; from < p->n_rows; from++) {
    const int *lane = &p->lane_first[from * LANE_COUNT + LANE_PIPELINE];
    for (int i = lane[0]; i < lane[1]; i++) {
      int send = p->lane_tasks[i];
      if (receiver[send] < 0)
        continue;
      GArray **pair = &sends[from * p->n_rows + program_task(p, receiver[send])->row];
      if (!*pair)
        *pair = g_array_new(FALSE, FALSE, sizeof(int));
      g_array_append_val(*pair, send);
    }
  }
  return sends;
}

/* Places of tasks in the lanes of computation. */
static int *places_of(const Program *p)
{
  int *place = g_new0(int, MAX(p->tasks->len, 1));

  for (int row = 0; row < p->n_rows; row++) {
    const int *lane = &p->lane_first[row * LANE_COUNT + LANE_COMPUTE];
    for (int i = lane[0]; i < lane[1]; i++)
      place[p->lane_tasks[i]] = i - lane[0];
  }
  return place;
}

/* Two ahead of what was taken, those up to what the pass takes, and those that have begun to be sent when it ends. */
static int *posted_of(const Program *p, const GArray *sends, const int *receiver, const int *end, const int *place, int row)
{
  const int *lane = &p->lane_first[row * LANE_COUNT + LANE_COMPUTE], *sent = (const int *)sends->data;
  int n = lane[1] - lane[0], n_sends = sends->len, taken = 0, begun = 0, before = 0, *posted = g_new(int, MAX(n, 1));
  g_autofree int *takes = g_new0(int, MAX(n, 1)), *wanted = g_new0(int, MAX(n, 1));

  for (int i = 0; i < n_sends; i++) {
    takes[place[receiver[sent[i]]]]++;
    wanted[place[receiver[sent[i]]]] = i + 1;
  }
  for (int k = 0; k < n; k++) {
    while (begun < n_sends && end[sent[begun]] < end[p->lane_tasks[lane[0] + k]])
      begun++;
    before = MAX(MAX(before, begun), MAX(taken + RECEIVES_AHEAD, wanted[k]));
    before = posted[k] = MIN(before, n_sends);
    taken += takes[k];
  }
  return posted;
}

ProgramReceives *program_receives_new(const Program *p)
{
  ProgramReceives *r = g_new(ProgramReceives, 1);
  int pairs = p->n_rows * p->n_rows;
  g_autofree int *receiver = program_receivers(p), *end = ends_of(p), *place = places_of(p);
  g_autofree GArray **sends = sends_by_pair(p, receiver);

  *r = (ProgramReceives) { .n_rows = p->n_rows, .posted = g_new0(int *, pairs) };
  for (int i = 0; i < pairs; i++)
    if (sends[i]) {
      r->posted[i] = posted_of(p, sends[i], receiver, end, place, i % p->n_rows);
      g_array_unref(sends[i]);
    }
  return r;
}

void program_receives_free(ProgramReceives *r)
{
  for (int i = 0; r && i < r->n_rows * r->n_rows; i++)
    g_free(r->posted[i]);
  if (r)
    g_free(r->posted);
  g_free(r);
}
