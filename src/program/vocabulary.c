/* The exchanges of a vocabulary that is spread over all pipeline ranks. */
#include "program/build.h"

/* The shape of the pipeline ranks' group. */
static GroupShape pipeline_group(const ProgramBuild *b)
{
  return mesh_group(&b->layout->mesh, b->cluster, AXIS_PIPELINE);
}

static int add_exchange(ProgramBuild *b, Exchange exchange, Collective what, double bytes)
{
  Segment s = comm_segment(own_states(b), b->cluster, TASK_VOCAB, what, bytes, pipeline_group(b));

  s.exchange = exchange;
  return program_add_segment(b, s);
}

static int last_rank(const ProgramBuild *b)
{
  return pipeline_rank(&b->layout->pipeline, b->stages - 1, 0);
}

void vocabulary_init(ProgramBuild *b)
{
  double output = op_boundary_bytes(b->model, &b->layout->passes), logits = 3 * 4 * op_tokens(&b->layout->passes);
  double rows = op_tokens(&b->layout->passes) * (b->model->embed_dim ? b->model->embed_dim : b->model->hidden) *
                dtype_bytes[b->layout->passes.formats.precision];
  int barriers = b->layout->pipeline.schedule->vocabulary;

  if (!barriers)
    return;
  for (int i = 0; i < 2; i++)
    b->spread[i] = indices_new((gsize)b->shape.ranks * b->shape.micro);
  for (int i = 0; i < EXCHANGE_COUNT; i++)
    b->exchange[i] = indices_new(b->shape.micro);
  b->share_gather = indices_new(b->shape.ranks);
  b->exchange_segment[EXCHANGE_LOOKUP] = add_exchange(b, EXCHANGE_LOOKUP, COLLECTIVE_ALL_REDUCE, rows);
  b->exchange_segment[EXCHANGE_LOOKED_UP] = add_exchange(b, EXCHANGE_LOOKED_UP, COLLECTIVE_BROADCAST, rows);
  b->exchange_segment[EXCHANGE_OUTPUT] = add_exchange(b, EXCHANGE_OUTPUT, COLLECTIVE_BROADCAST, output);
  b->exchange_segment[EXCHANGE_LOGITS] =
      add_exchange(b, EXCHANGE_LOGITS, COLLECTIVE_ALL_REDUCE, barriers == 1 ? logits + output : logits);
  if (barriers == 2)
    b->exchange_segment[EXCHANGE_GRADIENT] = add_exchange(b, EXCHANGE_GRADIENT, COLLECTIVE_ALL_REDUCE, output);
}

void vocabulary_clear(ProgramBuild *b)
{
  for (int i = 0; i < 2; i++)
    g_free(b->spread[i]);
  for (int i = 0; i < EXCHANGE_COUNT; i++)
    g_free(b->exchange[i]);
  g_free(b->share_gather);
}

/* An exchange is issued by one rank, behind its own part in it (-1 = none). */
static void issue(ProgramBuild *b, Exchange exchange, int rank, int chunk, int micro, int task)
{
  int index = program_add_task(b, rank, LANE_PIPELINE, b->exchange_segment[exchange], chunk, micro);

  b->exchange[exchange][micro] = index;
  if (task >= 0)
    program_add_edge(b, index, task);
}

static void look_up(ProgramBuild *b, int rank, int chunk, int micro, int task)
{
  if (micro >= b->shape.micro)
    return;
  issue(b, EXCHANGE_LOOKUP, rank, chunk, micro, task);
  b->arrival[program_slot(b, FALSE, 0, micro)] = b->exchange[EXCHANGE_LOOKUP][micro];
}

void vocabulary_begin(ProgramBuild *b, int rank)
{
  Place first = schedule_place(b->layout->pipeline.schedule, &b->shape, 0, 0);

  for (int micro = 0; micro < LOOKUPS_AHEAD && b->shares && rank == first.rank; micro++)
    look_up(b, rank, first.chunk, micro, -1);
}

/* The first stage's passes take what was looked up, and give its gradient. */
static void behind_first(ProgramBuild *b, int rank, const Slot *slot, int task)
{
  if (slot->pass == PASS_FORWARD)
    look_up(b, rank, slot->chunk, slot->micro + LOOKUPS_AHEAD, task);
  else if (slot->pass == PASS_BACKWARD)
    issue(b, EXCHANGE_LOOKED_UP, rank, slot->chunk, slot->micro, task);
}

void vocabulary_after(ProgramBuild *b, int rank, const Slot *slot, int task)
{
  int barriers = b->layout->pipeline.schedule->vocabulary;

  if (!barriers)
    return;
  if (pass_is_vocabulary(slot->pass))
    b->spread[slot->pass == PASS_VOCAB][(gsize)rank * b->shape.micro + slot->micro] = task;
  else if (program_stage(b, rank, slot->chunk) == 0)
    behind_first(b, rank, slot, task);
  if (rank != last_rank(b))
    return;
  if (slot->pass == PASS_FORWARD && program_stage(b, rank, slot->chunk) == b->stages - 1)
    issue(b, EXCHANGE_OUTPUT, rank, slot->chunk, slot->micro, task);
  else if (slot->pass == PASS_LOGITS)
    issue(b, EXCHANGE_LOGITS, rank, slot->chunk, slot->micro, task);
  else if (slot->pass == PASS_VOCAB && barriers == 2)
    issue(b, EXCHANGE_GRADIENT, rank, slot->chunk, slot->micro, task);
}

/* An exchange waits for a pass of every rank, or is waited for. */
static void join(ProgramBuild *b, Exchange exchange, int pass, int micro, gboolean before)
{
  for (int rank = 0; rank < b->shape.ranks; rank++) {
    int task = b->spread[pass][(gsize)rank * b->shape.micro + micro], other = b->exchange[exchange][micro];
    program_add_edge(b, before ? task : other, before ? other : task);
  }
}

void vocabulary_connect(ProgramBuild *b)
{
  int barriers = b->layout->pipeline.schedule->vocabulary;

  for (int micro = 0; barriers && micro < b->shape.micro; micro++) {
    int backward = b->entry[program_slot(b, TRUE, b->stages - 1, micro)];
    join(b, EXCHANGE_OUTPUT, 0, micro, TRUE);
    join(b, EXCHANGE_LOGITS, 0, micro, FALSE);
    join(b, EXCHANGE_LOGITS, 1, micro, TRUE);
    if (barriers == 2)
      join(b, EXCHANGE_GRADIENT, 1, micro, FALSE);
    program_add_edge(b, backward, b->exchange[barriers == 2 ? EXCHANGE_GRADIENT : EXCHANGE_LOGITS][micro]);
  }
  for (int rank = 0; barriers && rank < b->shape.ranks; rank++)
    if (b->share_gather[rank] >= 0)
      program_add_edge(b, b->exchange[EXCHANGE_LOOKUP][0], b->share_gather[rank]);
}
