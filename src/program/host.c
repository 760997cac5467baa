/* Copies between a device and the host, and what passes hold of a piece at once. */
#include "program/build.h"

#include "cost/offload.h"

double piece_weight_bytes(const ProgramBuild *b, Piece piece)
{
  double params = 0, narrow = 0, frozen = 0;

  for (int experts = 0; experts < 2; experts++)
    if (states_of(b, piece.strategy, experts)->fetches_weights) {
      params += gathered_params(b, piece, experts);
      narrow += narrow_of(b, piece, experts);
      frozen += fetched_frozen(b, piece, experts).bytes;
    }
  return (op_gathered_bytes(states_of(b, piece.strategy, FALSE), params, narrow) + frozen) /
         own_states(b)->sharding.tiling;
}

double piece_gradient_bytes(const ProgramBuild *b, Piece piece)
{
  double params = 0;

  for (int experts = 0; experts < 2; experts++)
    params += states_of(b, piece.strategy, experts)->drops_gradients ? params_of(b, piece, experts) : 0;
  return params * own_states(b)->gradient_bytes / own_states(b)->sharding.tiling;
}

/* Parameters of a piece that a rank has of those that ranks share. */
static double owned_params(const ProgramBuild *b, Piece piece)
{
  double owned = 0;

  for (int experts = 0; experts < 2; experts++)
    owned += params_of(b, piece, experts) / states_of(b, piece.strategy, experts)->optimizer_parts;
  return owned;
}

/* Bytes of the weights that passes fetch, frozen ones too, likewise. */
static double owned_weights(const ProgramBuild *b, Piece piece)
{
  double owned = 0;

  for (int experts = 0; experts < 2; experts++)
    owned += (op_kept_bytes(own_states(b), gathered_params(b, piece, experts), narrow_of(b, piece, experts)) +
              fetched_frozen(b, piece, experts).bytes) /
             states_of(b, piece.strategy, experts)->optimizer_parts;
  return owned;
}

/* What blocks keep for their backwards. */
static double input_bytes(const ProgramBuild *b, Piece piece)
{
  const Offload *o = &own_states(b)->offload;
  double bytes = 0;

  for (int i = piece.first_layer; i < piece.first_layer + piece.n_layers; i++)
    if (model_layer(b->model, i)->kind == LAYER_BLOCK && offload_block(o, i - 1))
      bytes += price_of(b, 0, i)->saved_bytes;
  return bytes;
}

static const struct {
  TaskKind kind;
  Lane lane;
} copies[COPY_COUNT] = {
  [COPY_WEIGHTS_UP] = { TASK_FETCH, LANE_FETCH },
  [COPY_GRADIENTS_DOWN] = { TASK_STORE, LANE_STORE },
  [COPY_GRADIENTS_AGAIN] = { TASK_STORE, LANE_STORE },
  [COPY_INPUTS_DOWN] = { TASK_STORE, LANE_STORE },
  [COPY_INPUTS_UP] = { TASK_FETCH, LANE_FETCH },
};

static gboolean is_of_gradients(Copy copy)
{
  return copy == COPY_GRADIENTS_DOWN || copy == COPY_GRADIENTS_AGAIN;
}

/* Bytes copied, and where they live. */
static double copied_bytes(const ProgramBuild *b, Piece piece, Copy copy, Store *store)
{
  const StateLayout *p = own_states(b);

  *store = copy == COPY_WEIGHTS_UP       ? p->offload.parameters
           : is_of_gradients(copy)       ? STORE_CPU
           : p->offload.layers > 0       ? STORE_CPU
                                         : p->offload.activations;
  if (copy == COPY_WEIGHTS_UP)
    return owned_weights(b, piece);
  if (is_of_gradients(copy))
    return owned_params(b, piece) * p->reduce_bytes;
  return input_bytes(b, piece);
}

/* Takes and gives back memory of the device: what is gathered next comes up as a rank's part,
 * and what was scattered goes down as one. */
static void set_memory(const ProgramBuild *b, Segment *s, Piece piece, Copy copy)
{
  const StateLayout *kinds[] = { states_of(b, piece.strategy, FALSE), states_of(b, piece.strategy, TRUE) };

  switch (copy) {
  case COPY_WEIGHTS_UP:
    for (int experts = 0; experts < 2; experts++)
      s->alloc_bytes += (op_gathered_bytes(kinds[0], gathered_params(b, piece, experts),
                                           narrow_of(b, piece, experts)) +
                         fetched_frozen(b, piece, experts).bytes) /
                        (kinds[experts]->sums ? kinds[experts]->shards : kinds[0]->sharding.tiling);
    break;
  case COPY_GRADIENTS_DOWN:
  case COPY_GRADIENTS_AGAIN:
    s->free_bytes = kinds[0]->drops_gradients || kinds[1]->drops_gradients
                        ? owned_params(b, piece) * own_states(b)->gradient_bytes / own_states(b)->sharding.tiling
                        : 0;
    break;
  default:
    s->activation_bytes = copy == COPY_INPUTS_UP ? s->comm_bytes : -s->comm_bytes;
  }
}

static double copy_s(const ProgramBuild *b, const Chunk *chunk, Store store, gboolean up, double bytes)
{
  return host_copy_s(b->sites[chunk->rank].cluster, own_states(b), store, up, bytes);
}

static int copy_segment(ProgramBuild *b, Chunk *chunk, int at, Copy copy)
{
  int *known = &chunk->copies[copy][MAX(at, 0)];

  if (*known < 0) {
    Piece piece = chunk_piece(chunk, at);
    Store store;
    Segment s = { .kind = copies[copy].kind, .slowdown = 1, .group = { .size = 1 }, .first_layer = piece.first_layer,
                  .n_layers = piece.n_layers };
    s.comm_bytes = copied_bytes(b, piece, copy, &store);
    s.seconds = copy_s(b, chunk, store, copies[copy].lane == LANE_FETCH, s.comm_bytes);
    if (copy == COPY_GRADIENTS_AGAIN) { /* up, on one stream with the copy down */
      s.seconds += copy_s(b, chunk, store, TRUE, s.comm_bytes);
      s.comm_bytes *= 2;
    }
    s.cost.seconds = s.seconds;
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

/* ---- all that the first blocks keep ---- */

int *host_stored(const ProgramBuild *b, const Chunk *chunk, int piece, int micro)
{
  return &chunk->stored[piece * b->shape.micro + micro];
}

/* Blocks of a piece, of the model's from 0: the embedding is before them, the head behind. */
static int first_block(const Chunk *chunk, int piece)
{
  return g_array_index(chunk->pieces, Piece, piece).first_layer - 1;
}

static int last_block(const Chunk *chunk, int piece)
{
  return first_block(chunk, piece) + g_array_index(chunk->pieces, Piece, piece).n_layers - 1;
}

static int piece_with(const Chunk *chunk, int block)
{
  int piece = 0;

  while (last_block(chunk, piece) < block)
    piece++;
  return piece;
}

/* Whether a piece has any of the blocks that go to the host. */
static gboolean goes(const ProgramBuild *b, const Chunk *chunk, int piece)
{
  return first_block(chunk, piece) < own_states(b)->offload.layers && last_block(chunk, piece) >= 0;
}

void host_store_layers(ProgramBuild *b, int rank, Chunk *chunk, const Slot *slot, int piece, int task)
{
  int last = b->model->blocks - 1, layers = own_states(b)->offload.layers;
  int gone = MIN(last_block(chunk, piece), last) - (last + 1 - layers);
  int before = gone >= 0 ? piece_with(chunk, gone) : piece;

  if (before < piece && first_block(chunk, piece) <= last)
    program_add_edge(b, task, *host_stored(b, chunk, before, slot->micro));
  if (goes(b, chunk, piece))
    *host_stored(b, chunk, piece, slot->micro) = host_copy(b, rank, chunk, slot, piece, COPY_INPUTS_DOWN, task);
}

/* The piece before whose backward a piece comes back: once that of block L - n + i is done, at the latest its own. */
static int returns_before(const ProgramBuild *b, const Chunk *chunk, int piece)
{
  int stay = b->model->blocks - own_states(b)->offload.layers;

  return MAX(piece_with(chunk, stay + MAX(0, first_block(chunk, piece))) - 1, piece);
}

int host_fetch_layers(ProgramBuild *b, int rank, Chunk *chunk, const Slot *slot, int piece, gboolean first)
{
  int before = b->last_task[rank];

  if (first)
    chunk->to_fetch = piece_with(chunk, own_states(b)->offload.layers - 1);
  for (int i = chunk->to_fetch; i >= 0 && goes(b, chunk, i) && returns_before(b, chunk, i) >= piece; i--) {
    chunk->fetched[i] = host_copy(b, rank, chunk, slot, i, COPY_INPUTS_UP, *host_stored(b, chunk, i, slot->micro));
    if (before >= 0)
      program_add_edge(b, chunk->fetched[i], before);
    chunk->to_fetch = i - 1;
  }
  return goes(b, chunk, piece) ? chunk->fetched[piece] : -1;
}

/* ---- outputs of one process ---- */

double host_output_bytes(const ProgramBuild *b)
{
  const PassLayout *p = &b->layout->passes;

  return op_tokens(p) * op_vocab(b->model, p) * dtype_bytes[p->formats.precision] * own_states(b)->replicas;
}

int host_outputs(ProgramBuild *b, int rank, const Slot *slot, int behind)
{
  GroupShape pair = b->sites[rank].data[0];
  double bytes = host_output_bytes(b), arriving = bytes * (1 - 1.0 / own_states(b)->replicas);

  pair.size = 2;
  for (int t = 0; t < TIER_MAX; t++)
    pair.per_domain[t] = MIN(pair.per_domain[t], 2);
  Segment s = comm_segment(own_states(b), b->sites[rank].cluster, TASK_OUTPUTS, COLLECTIVE_SEND, arriving, pair);
  s.alloc_bytes = bytes;
  int task = program_add_task(b, rank, LANE_DATA, program_add_segment(b, s), slot->chunk, slot->micro);
  program_add_edge(b, task, behind);
  return task;
}
