/* What all ranks of a stage agree on whenever a chunk's forward or backward ends: the largest values of delayed scales,
 * and behind the last stage's forward a micro-batch's loss. */
#include "program/build.h"

gboolean amax_meets(const ProgramBuild *b)
{
  const PassLayout *p = &b->layout->passes;

  return b->layout->mesh.places > 1 && p->framework->reduced_amax && formats_narrow(&p->formats) &&
         p->formats.recipe == FP8_DELAYED;
}

gboolean loss_meets(const ProgramBuild *b)
{
  return b->layout->mesh.places > b->layout->passes.tp && b->layout->passes.framework->losses_summed && !b->shares;
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

/* Three operations of the pass's stream one after another. */
static void add_meeting(const ProgramBuild *b, const Chunk *chunk, Segment *s, const Op *const ops[3])
{
  const PassLayout *p = &b->layout->passes;
  const Cluster *site = b->sites[chunk->rank].cluster;
  double device_s = 0, host_s = 0;

  for (int i = 0; i < 3; i++) {
    device_s += op_s(ops[i], p, site);
    host_s += p->graph == GRAPH_FULL ? 0 : op_issue_s(ops[i], p->framework, &site->device);
  }
  double slack_s = s->slack_s, data_s = slack_s > 0 ? MAX(host_s, device_s - slack_s) : device_s;
  s->data_s += data_s;
  s->met = TRUE;
  s->slack_s = slack_s > 0 ? MAX(0, slack_s + host_s - device_s) : slack_s; /* what it leaves to others */
  s->seconds += data_s;
}

void amax_meet(const ProgramBuild *b, const Chunk *chunk, Piece piece, Segment *s)
{
  const Mesh *mesh = &b->layout->mesh;
  Op gather = { .name = "amax", .kind = OP_MEMORY, .pass = s->pass, .memory = { .kernels = 1, .operations = 1 } };
  Op update = gather;
  Op reduce = { .name = "amax_reduce", .kind = OP_COLLECTIVE, .pass = s->pass };

  if (!amax_meets(b) || !ends(b, chunk, piece, s->pass))
    return;
  gather.memory.bytes = 2 * sizeof(float) * PRODUCTS * (pass_is_backward(s->pass) ? VALUES_BACKWARD : VALUES_FORWARD) *
                        blocks_of_rank(b, chunk->rank);
  update.memory.bytes = 2 * gather.memory.bytes;
  reduce.collective.what = COLLECTIVE_ALL_REDUCE;
  reduce.collective.bytes = gather.memory.bytes / 2;
  reduce.collective.group = mesh_places(mesh, b->sites[chunk->rank].cluster, mesh->places, 1);
  add_meeting(b, chunk, s, (const Op *const[]) { &gather, &reduce, &update });
}

void loss_meet(const ProgramBuild *b, const Chunk *chunk, Piece piece, Segment *s)
{
  const Mesh *mesh = &b->layout->mesh;
  int tp = b->layout->passes.tp;
  Op copy = { .name = "loss", .kind = OP_MEMORY, .pass = s->pass,
              .memory = { .bytes = 4 * sizeof(float), .kernels = 2, .operations = 2 } };
  Op divide = copy;
  Op reduce = { .name = "loss_reduce", .kind = OP_COLLECTIVE, .pass = s->pass };

  if (!loss_meets(b) || s->pass != PASS_FORWARD || piece.first_layer + piece.n_layers < b->model->n_layers)
    return;
  divide.memory.kernels = divide.memory.operations = 1;
  divide.memory.bytes /= 2;
  reduce.collective.what = COLLECTIVE_ALL_REDUCE;
  reduce.collective.bytes = sizeof(float);
  reduce.collective.group = mesh_places(mesh, b->sites[chunk->rank].cluster, mesh->places / tp, tp);
  add_meeting(b, chunk, s, (const Op *const[]) { &copy, &reduce, &divide });
}
