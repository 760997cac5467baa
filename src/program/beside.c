/*
 * What tdp-run holds beside the scratch of its passes: receives that are posted (exec/groups.c, receives_post), what
 * waits for the next pass on its own rank, tokens on the device, and rows of a spread vocabulary (exec/work_spread.c). Of
 * other software nothing is known of these.
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

int beside_sender(const ProgramBuild *b, const Chunk *chunk, Pass pass)
{
  gboolean flows = pass == PASS_FORWARD || is_backward(pass);
  int row = flows ? neighbour(b, chunk->rank, chunk->index, is_backward(pass)) : -1;

  return executor_memory(b) && row != chunk->rank ? row : -1;
}

void beside_receives(const ProgramBuild *b, int posted, gboolean last, Segment *s)
{
  s->alloc_bytes += posted * boundary_bytes(b);
  if (last)
    s->free_bytes += boundary_bytes(b);
}

/* Each row adds up what it looks up for others in one place; the first has lookups ahead, the last a normed output. */
static double spread_bytes(const ProgramBuild *b, int rank)
{
  const PassLayout *p = &b->layout->passes;
  double tokens = op_tokens(p), rows = tokens * b->model->hidden * dtype_bytes[p->formats.precision];
  gboolean first = rank == pipeline_rank(&b->layout->pipeline, 0, 0);
  gboolean last = rank == pipeline_rank(&b->layout->pipeline, b->stages - 1, 0);

  int ahead = first ? MIN(LOOKUPS_AHEAD, b->shape.micro - 1) : 0;

  return tokens * sizeof(gint32) + (1 + ahead) * rows + (last ? boundary_bytes(b) : 0);
}

double beside_bytes(const ProgramBuild *b, int rank)
{
  return executor_memory(b) && b->shares ? spread_bytes(b, rank) : 0;
}

/* Tokens and labels of a micro-batch come with the first pass that reads either, and go with the chunk's last (exec/
 * work.c, tokens_load and drop_tokens). */
static void hold_tokens(const ProgramBuild *b, Piece whole, Segment *s)
{
  double bytes = 2 * op_tokens(&b->layout->passes) * sizeof(gint32);
  int end = b->model->n_layers, reads = whole.first_layer == 0 ? 0 : end - 1;
  gboolean ends = whole.first_layer == 0 || whole.first_layer + whole.n_layers == end;

  if (b->shares) {
    s->alloc_bytes += s->pass == PASS_LOGITS ? bytes : 0;
    s->free_bytes += s->pass == PASS_VOCAB ? bytes : 0;
  } else if (ends) {
    gboolean comes = s->pass == PASS_FORWARD && s->first_layer <= reads && s->first_layer + s->n_layers > reads;
    gboolean goes = makes_weight_gradient(s->pass) && s->first_layer == whole.first_layer;
    s->alloc_bytes += comes ? bytes : 0;
    s->free_bytes += goes ? bytes : 0;
  }
}

void beside_pass(const ProgramBuild *b, const Chunk *chunk, Segment *s)
{
  gboolean backward = is_backward(s->pass);
  Piece whole = chunk_whole(chunk);
  gboolean first = s->first_layer == whole.first_layer;
  gboolean last = s->first_layer + s->n_layers == whole.first_layer + whole.n_layers;

  if (!executor_memory(b))
    return;
  hold_tokens(b, whole, s);
  if (!backward && s->pass != PASS_FORWARD)
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
