/* Largest values of delayed scales, on which ranks agree whenever a chunk's forward or backward ends. */
#include "program/build.h"

static gboolean reduces(const ProgramBuild *b)
{
  const PassLayout *p = &b->layout->passes;

  return p->framework->reduced_amax && formats_narrow(&p->formats) && p->formats.recipe == FP8_DELAYED;
}

static int blocks_of(const ProgramBuild *b, Piece layers)
{
  int blocks = 0;

  for (int i = layers.first_layer; i < layers.first_layer + layers.n_layers; i++)
    blocks += model_layer(b->model, i)->kind == LAYER_BLOCK;
  return blocks;
}

/* Blocks of all chunks of a rank: they have one history. */
static int blocks_of_rank(const ProgramBuild *b, int rank)
{
  int blocks = 0;

  for (int chunk = 0; chunk < b->shape.chunks; chunk++)
    blocks += blocks_of(b, stage_layers(b, program_stage(b, rank, chunk)));
  return blocks;
}

/* Whether that pass of these layers is the last of its chunk, in which ranks meet. */
static gboolean ends(const ProgramBuild *b, const Chunk *chunk, Piece piece, Pass pass)
{
  Piece whole = chunk_whole(chunk);

  if (blocks_of(b, whole) == 0)
    return FALSE;
  if (pass_is_backward(pass))
    return piece.first_layer == whole.first_layer;
  return pass == PASS_FORWARD && piece.first_layer + piece.n_layers == whole.first_layer + whole.n_layers;
}

/* Values of the four products of a block: of input, weight and output, and of the gradients of output and input. */
enum { PRODUCTS = 4, VALUES_FORWARD = 3, VALUES_BACKWARD = 2 };

void amax_meet(const ProgramBuild *b, const Chunk *chunk, Piece piece, Segment *s, double slack_s)
{
  const PassLayout *p = &b->layout->passes;
  const Cluster *site = b->sites[chunk->rank].cluster;
  Op gather = { .name = "amax", .kind = OP_MEMORY, .pass = s->pass, .memory = { .kernels = 1, .operations = 1 } };
  Op update = gather;
  Op reduce = { .name = "amax_reduce", .kind = OP_COLLECTIVE, .pass = s->pass };

  if (!reduces(b) || b->layout->mesh.places == 1 || !ends(b, chunk, piece, s->pass))
    return;
  gather.memory.bytes = 2 * sizeof(float) * PRODUCTS * (pass_is_backward(s->pass) ? VALUES_BACKWARD : VALUES_FORWARD) *
                        blocks_of_rank(b, chunk->rank);
  update.memory.bytes = 2 * gather.memory.bytes;
  reduce.collective.what = COLLECTIVE_ALL_REDUCE;
  reduce.collective.bytes = gather.memory.bytes / 2;
  reduce.collective.group = mesh_places(&b->layout->mesh, site, b->layout->mesh.places, 1);
  const Op *const ops[] = { &gather, &reduce, &update };
  double device_s = 0, host_s = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(ops); i++) {
    device_s += op_s(ops[i], p, site);
    host_s += p->graph == GRAPH_FULL ? 0 : op_issue_s(ops[i], p->framework, &site->device);
  }
  s->data_s += slack_s > 0 ? MAX(host_s, device_s - slack_s) : device_s;
  s->slack_s = slack_s > 0 ? MAX(0, slack_s + host_s - device_s) : s->slack_s; /* what it leaves to others */
  s->seconds += s->data_s;
}
