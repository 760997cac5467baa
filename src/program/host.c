/* Copies between a device and the host, and what passes hold of a piece at once. */
#include "program/build.h"

#include "cost/offload.h"

double piece_weight_bytes(const ProgramBuild *b, Piece piece)
{
  double params = 0;

  for (int experts = 0; experts < 2; experts++)
    params += plan_fetches_weights(view_of(b, piece.strategy, experts)) ? gathered_params(b, piece, experts) : 0;
  return params * op_gathered_weight_bytes(view_of(b, piece.strategy, FALSE)) / b->plan->sharding.tiling;
}

double piece_gradient_bytes(const ProgramBuild *b, Piece piece)
{
  double params = 0;

  for (int experts = 0; experts < 2; experts++)
    params += plan_drops_gradients(view_of(b, piece.strategy, experts)) ? params_of(b, piece, experts) : 0;
  return params * op_gradient_bytes(b->plan) / b->plan->sharding.tiling;
}

/* Parameters of a piece that a rank has of the weights that ranks share under ZeRO. */
static double owned_params(const ProgramBuild *b, Piece piece, gboolean gathered)
{
  double owned = 0;

  for (int experts = 0; experts < 2; experts++) {
    double params = gathered ? gathered_params(b, piece, experts) : params_of(b, piece, experts);
    owned += params / (b->plan->zero > 0 ? plan_shards(view_of(b, piece.strategy, experts)) : 1);
  }
  return owned;
}

/* What blocks keep for their backwards. */
static double input_bytes(const ProgramBuild *b, Piece piece)
{
  double bytes = 0;

  for (int i = piece.first_layer; i < piece.first_layer + piece.n_layers; i++)
    bytes += model_layer(b->model, i)->kind == LAYER_BLOCK ? price_of(b, 0, i)->saved_bytes : 0;
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
  *store = copy == COPY_WEIGHTS_UP       ? p->offload.parameters
           : copy == COPY_GRADIENTS_DOWN ? STORE_CPU
                                         : p->offload.activations;
  if (copy == COPY_WEIGHTS_UP)
    return owned_params(b, piece, TRUE) * op_weight_bytes(p);
  if (copy == COPY_GRADIENTS_DOWN)
    return owned_params(b, piece, FALSE) * op_reduce_bytes(p);
  return input_bytes(b, piece);
}

/* Takes and gives back memory of the device: what is gathered next comes up as a rank's part,
 * and what was scattered goes down as one. */
static void set_memory(const ProgramBuild *b, Segment *s, Piece piece, Copy copy)
{
  const Plan *views[] = { view_of(b, piece.strategy, FALSE), view_of(b, piece.strategy, TRUE) };

  switch (copy) {
  case COPY_WEIGHTS_UP:
    for (int experts = 0; experts < 2; experts++)
      s->alloc_bytes += gathered_params(b, piece, experts) * op_gathered_weight_bytes(views[0]) /
                        (plan_replicas(views[experts]) > 1 ? plan_shards(views[experts]) : b->plan->sharding.tiling);
    break;
  case COPY_GRADIENTS_DOWN:
    s->free_bytes = plan_drops_gradients(views[0]) || plan_drops_gradients(views[1])
                        ? owned_params(b, piece, FALSE) * op_gradient_bytes(b->plan) / b->plan->sharding.tiling
                        : 0;
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
    s.seconds = s.cost.seconds =
        host_copy_s(b->sites[chunk->rank].cluster, b->plan, store, copies[copy].lane == LANE_FETCH, s.comm_bytes);
    set_memory(b, &s, piece, copy);
    *known = program_add_segment(b, s);
  }
  return *known;
}

int host_copy(ProgramBuild *b, int rank, Chunk *chunk, const Slot *slot, int piece, Copy copy, int behind)
{
  int task = program_add_task(b, rank, copies[copy].lane, copy_segment(b, chunk, piece, copy), slot->chunk,
                              slot->micro);

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
  GroupShape pair = b->sites[rank].data[0];
  double bytes = host_output_bytes(b), arriving = bytes * (1 - 1.0 / plan_replicas(b->plan));

  pair.size = 2;
  for (int t = 0; t < TIER_MAX; t++)
    pair.per_domain[t] = MIN(pair.per_domain[t], 2);
  Segment s = comm_segment(b->plan, b->sites[rank].cluster, TASK_OUTPUTS, COLLECTIVE_SEND, arriving, pair);
  s.alloc_bytes = bytes;
  int task = program_add_task(b, rank, LANE_DATA, program_add_segment(b, s), slot->chunk, slot->micro);
  program_add_edge(b, task, behind);
  return task;
}
