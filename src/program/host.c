/* Copies between a device and the host, and what passes hold of a piece at once. */
#include "program/build.h"

#include "cost/offload.h"

double piece_weight_bytes(const ProgramBuild *b, Piece piece)
{
  return gathered_params(b, piece) * weight_bytes(b) / b->plan->sharding.tiling;
}

double piece_gradient_bytes(const ProgramBuild *b, Piece piece)
{
  return params_of(b, piece.first_layer, piece.n_layers) * op_gradient_bytes(b->plan) / b->plan->sharding.tiling;
}

/* What blocks keep for their backwards. */
static double input_bytes(const ProgramBuild *b, Piece piece)
{
  double bytes = 0;

  for (int i = piece.first_layer; i < piece.first_layer + piece.n_layers; i++)
    bytes += model_layer(b->model, i)->kind == LAYER_BLOCK ? price_of(b, i)->saved_bytes : 0;
  return bytes;
}

static const struct {
  TaskKind kind;
  Lane lane;
} copies[COPY_COUNT] = {
  [COPY_WEIGHTS_UP] = { TASK_FETCH, LANE_FETCH },
  [COPY_GRADIENTS_DOWN] = { TASK_STORE, LANE_STORE },
  [COPY_INPUTS_DOWN] = { TASK_STORE, LANE_STORE },
  [COPY_INPUTS_UP] = { TASK_FETCH, LANE_FETCH },
};

/* Bytes copied, and where they live. */
static double copied_bytes(const ProgramBuild *b, Piece piece, Copy copy, Store *store)
{
  const Plan *p = b->plan;
  double params = params_of(b, piece.first_layer, piece.n_layers);

  *store = copy == COPY_WEIGHTS_UP ? p->offload.parameters : copy == COPY_GRADIENTS_DOWN ? STORE_CPU : p->offload.activations;
  if (copy == COPY_WEIGHTS_UP)
    return gathered_params(b, piece) * op_weight_bytes(p) / plan_shards(p);
  if (copy == COPY_GRADIENTS_DOWN)
    return params * op_reduce_bytes(p) / (p->zero > 0 ? plan_shards(p) : 1);
  return input_bytes(b, piece);
}

/* Takes and gives back memory of the device. */
static void set_memory(const ProgramBuild *b, Segment *s, Piece piece, Copy copy)
{
  const Plan *p = b->plan;

  switch (copy) {
  case COPY_WEIGHTS_UP:
    s->alloc_bytes = plan_replicas(p) > 1 ? gathered_params(b, piece) * weight_bytes(b) / plan_shards(p)
                                          : piece_weight_bytes(b, piece);
    break;
  case COPY_GRADIENTS_DOWN:
    s->free_bytes = plan_drops_gradients(p) ? piece_gradient_bytes(b, piece) / plan_shards(p) : 0;
    break;
  default:
    s->activation_bytes = copy == COPY_INPUTS_UP ? s->comm_bytes : -s->comm_bytes;
  }
}

static int copy_segment(ProgramBuild *b, Chunk *chunk, int at, Copy copy)
{
  int *known = &chunk->copies[copy][MAX(at, 0)];

  if (*known < 0) {
    Piece piece = at < 0 ? chunk_whole(chunk) : g_array_index(chunk->pieces, Piece, at);
    Store store;
    Segment s = { .kind = copies[copy].kind, .slowdown = 1, .group = { .size = 1 }, .first_layer = piece.first_layer,
                  .n_layers = piece.n_layers };
    s.comm_bytes = copied_bytes(b, piece, copy, &store);
    s.seconds = s.cost.seconds = host_copy_s(b->cluster, b->plan, store, copies[copy].lane == LANE_FETCH, s.comm_bytes);
    set_memory(b, &s, piece, copy);
    *known = program_add_segment(b, s);
  }
  return *known;
}

int host_copy(ProgramBuild *b, int rank, Chunk *chunk, const Slot *slot, int piece, Copy copy, int behind)
{
  int task = program_add_task(b, rank, copies[copy].lane, copy_segment(b, chunk, piece, copy), slot->chunk, slot->micro);

  if (behind >= 0)
    program_add_edge(b, task, behind);
  return task;
}

double host_output_bytes(const ProgramBuild *b)
{
  return op_tokens(b->plan) * op_vocab(b->model, b->plan) * dtype_bytes[b->plan->precision] * plan_replicas(b->plan);
}

int host_outputs(ProgramBuild *b, int rank, const Slot *slot, int behind)
{
  GroupShape pair = b->data;
  double bytes = host_output_bytes(b), arriving = bytes * (1 - 1.0 / plan_replicas(b->plan));

  pair.size = 2;
  for (int t = 0; t < TIER_MAX; t++)
    pair.per_domain[t] = MIN(pair.per_domain[t], 2);
  Segment s = comm_segment(b, TASK_OUTPUTS, COLLECTIVE_SEND, arriving, pair);
  s.alloc_bytes = bytes;
  int task = program_add_task(b, rank, LANE_DATA, program_add_segment(b, s), slot->chunk, slot->micro);
  program_add_edge(b, task, behind);
  return task;
}
