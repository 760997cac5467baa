/*
 * What tdp-run holds beside the scratch of its passes: receives that are posted (exec/groups.c, receives_post), what
 * waits for the next pass on its own rank, and rows of a spread vocabulary (exec/work_spread.c). Of other software
 * nothing is known of these.
 */
#include "program/build.h"

static double boundary_bytes(const ProgramBuild *b)
{
  return op_boundary_bytes(b->model, &b->layout->passes);
}

/* The row of the stage before a chunk's, or behind it; -1: there is none. */
static int neighbour(const ProgramBuild *b, int rank, int chunk, gboolean behind)
{
  const PipelineLayout *p = &b->layout->pipeline;
  int stage = program_stage(b, rank, chunk) + (behind ? 1 : -1);

  return stage >= 0 && stage < b->stages ? pipeline_rank(p, stage, schedule_copy(p->schedule, chunk)) : -1;
}

/* Other rows that send something to this one. */
static int sending_rows(const ProgramBuild *b, int rank)
{
  g_autofree gboolean *sends = g_new0(gboolean, b->shape.ranks);
  int n = 0;

  for (int i = 0; i < 2 * b->shape.chunks; i++) {
    int row = neighbour(b, rank, i / 2, i % 2);
    if (row >= 0 && row != rank)
      sends[row] = TRUE;
  }
  for (int row = 0; row < b->shape.ranks; row++)
    n += sends[row];
  return n;
}

/* Each row adds up what it looks up for others in one place; the first has lookups ahead, the last a normed output. */
static double spread_bytes(const ProgramBuild *b, int rank)
{
  const PassLayout *p = &b->layout->passes;
  double tokens = op_tokens(p), rows = tokens * b->model->hidden * dtype_bytes[p->formats.precision];
  gboolean first = rank == pipeline_rank(&b->layout->pipeline, 0, 0);
  gboolean last = rank == pipeline_rank(&b->layout->pipeline, b->stages - 1, 0);

  return tokens * sizeof(gint32) + (first ? 1 + LOOKUPS_AHEAD : 1) * rows + (last ? boundary_bytes(b) : 0);
}

double beside_bytes(const ProgramBuild *b, int rank)
{
  if (!executor_memory(b))
    return 0;
  double posted = sending_rows(b, rank) * MIN(RECEIVES_AHEAD, b->shape.micro);
  return posted * boundary_bytes(b) + (b->shares ? spread_bytes(b, rank) : 0);
}

void beside_pass(const ProgramBuild *b, const Chunk *chunk, Segment *s)
{
  gboolean backward = is_backward(s->pass);
  Piece whole = chunk_whole(chunk);
  gboolean first = s->first_layer == whole.first_layer;
  gboolean last = s->first_layer + s->n_layers == whole.first_layer + whole.n_layers;

  if (!executor_memory(b) || (!backward && s->pass != PASS_FORWARD))
    return;
  int from = (backward ? last : first) ? neighbour(b, chunk->rank, chunk->index, backward) : -1;
  int to = (backward ? first : last) ? neighbour(b, chunk->rank, chunk->index, !backward) : -1;
  if (from >= 0)
    s->alloc_bytes -= boundary_bytes(b);
  if (from >= 0 && from != chunk->rank)
    s->free_bytes -= boundary_bytes(b);
  if (to == chunk->rank)
    s->free_bytes -= boundary_bytes(b);
}
