/* The exchanges of a vocabulary that is spread over all pipeline ranks. */
#include "program/build.h"

#include <string.h>

enum { BROADCAST, BEHIND_S, BEHIND_T };

/* The shape of the pipeline ranks' group. */
static GroupShape pipeline_group(const ProgramBuild *b)
{
  return mesh_group(b->plan, b->cluster, AXIS_PIPELINE);
}

static int add_exchange(ProgramBuild *b, Collective what, double bytes)
{
  return program_add_segment(b, comm_segment(b, b->cluster, TASK_VOCAB, what, bytes, pipeline_group(b)));
}

static int *new_tasks(gsize n)
{
  int *tasks = g_new(int, n);
  memset(tasks, -1, n * sizeof(int));
  return tasks;
}

static int last_rank(const ProgramBuild *b)
{
  return schedule_place(b->plan->schedule, &b->shape, b->stages - 1, 0).rank;
}

void vocabulary_init(ProgramBuild *b)
{
  double output = op_boundary_bytes(b->model, b->plan), logits = 2 * 4 * op_tokens(b->plan);
  int barriers = b->plan->schedule->vocabulary;

  if (!barriers)
    return;
  for (int i = 0; i < 2; i++)
    b->spread[i] = new_tasks((gsize)b->shape.ranks * b->shape.micro);
  for (int i = 0; i < 3; i++)
    b->exchange[i] = new_tasks(b->shape.micro);
  b->exchange_segment[BROADCAST] = add_exchange(b, COLLECTIVE_BROADCAST, output);
  b->exchange_segment[BEHIND_S] = add_exchange(b, COLLECTIVE_ALL_REDUCE, barriers == 1 ? logits + output : logits);
  if (barriers == 2)
    b->exchange_segment[BEHIND_T] = add_exchange(b, COLLECTIVE_ALL_REDUCE, output);
}

void vocabulary_clear(ProgramBuild *b)
{
  for (int i = 0; i < 2; i++)
    g_free(b->spread[i]);
  for (int i = 0; i < 3; i++)
    g_free(b->exchange[i]);
}

/* An exchange is issued by the last stage's rank, behind its own part in it. */
static void issue(ProgramBuild *b, int exchange, int rank, const Slot *slot, int task)
{
  int index = program_add_task(b, rank, LANE_PIPELINE, b->exchange_segment[exchange], slot->chunk, slot->micro);

  b->exchange[exchange][slot->micro] = index;
  program_add_edge(b, index, task);
}

void vocabulary_after(ProgramBuild *b, int rank, const Slot *slot, int task)
{
  int barriers = b->plan->schedule->vocabulary;

  if (!barriers)
    return;
  if (is_vocabulary(slot->pass))
    b->spread[slot->pass == PASS_VOCAB][(gsize)rank * b->shape.micro + slot->micro] = task;
  if (rank != last_rank(b))
    return;
  if (slot->pass == PASS_FORWARD && program_stage(b, rank, slot->chunk) == b->stages - 1)
    issue(b, BROADCAST, rank, slot, task);
  else if (slot->pass == PASS_LOGITS)
    issue(b, BEHIND_S, rank, slot, task);
  else if (slot->pass == PASS_VOCAB && barriers == 2)
    issue(b, BEHIND_T, rank, slot, task);
}

/* An exchange waits for a pass of every rank, or is waited for. */
static void join(ProgramBuild *b, int exchange, int pass, int micro, gboolean before)
{
  for (int rank = 0; rank < b->shape.ranks; rank++) {
    int task = b->spread[pass][(gsize)rank * b->shape.micro + micro], other = b->exchange[exchange][micro];
    program_add_edge(b, before ? task : other, before ? other : task);
  }
}

void vocabulary_connect(ProgramBuild *b)
{
  int barriers = b->plan->schedule->vocabulary;

  for (int micro = 0; barriers && micro < b->shape.micro; micro++) {
    int backward = b->entry[program_slot(b, TRUE, b->stages - 1, micro)];
    join(b, BROADCAST, 0, micro, TRUE);
    join(b, BEHIND_S, 0, micro, FALSE);
    join(b, BEHIND_S, 1, micro, TRUE);
    if (barriers == 2)
      join(b, BEHIND_T, 1, micro, FALSE);
    program_add_edge(b, backward, b->exchange[barriers][micro]);
  }
}
