/* What tasks are: segments of a chunk's passes and of its communication. */
#include "program/build.h"

#include "cost/kernel.h"
#include "cost/quantized.h"
#include "cost/sharded.h"

#include <math.h>

/* Parameters in a piece at least: a layer where its weights come for its passes or its inputs go, a bucket where
 * communication runs beside computation, else the whole chunk, or a layer where some keep nothing on the device. */
static double piece_params(const ProgramBuild *b, int strategy)
{
  const StateLayout *p = states_of(b, strategy, FALSE);
  double most = p->offload.layers > 0 ? 0 : G_MAXDOUBLE;

  if (fetches_weights(b, strategy) || p->offload.activations)
    return 0;
  if (p->framework->single_process || (!b->strategies[strategy].has_replicas && !p->stores_gradients))
    return most;
  if (p->overlap_gradients || p->gathers_ahead)
    return op_bucket_params(p);
  return most;
}

/* Cuts layers into pieces of one strategy and at least so many parameters. */
static void add_pieces(const ProgramBuild *b, GArray *pieces, Piece layers)
{
  double filled = 0;
  int end = layers.first_layer + layers.n_layers;
  Piece piece = { layers.first_layer, 0, b->strategy[layers.first_layer] };

  for (int i = layers.first_layer; i < end; i++) {
    gboolean last = i == end - 1 || b->strategy[i + 1] != piece.strategy;
    piece.n_layers++;
    filled += price_of(b, 0, i)->params + price_of(b, 0, i)->expert_params;
    if (last || filled > piece_params(b, piece.strategy)) {
      g_array_append_val(pieces, piece);
      piece = (Piece) { i + 1, 0, i + 1 < end ? b->strategy[i + 1] : 0 };
      filled = 0;
    }
  }
}

static gboolean is_mixed(const GArray *pieces)
{
  for (guint i = 1; i < pieces->len; i++)
    if (g_array_index(pieces, Piece, i).strategy != g_array_index(pieces, Piece, 0).strategy)
      return TRUE;
  return FALSE;
}

static Piece all_of(const GArray *pieces)
{
  Piece all = g_array_index(pieces, Piece, 0);

  for (guint i = 1; i < pieces->len; i++)
    all.n_layers += g_array_index(pieces, Piece, i).n_layers;
  return all;
}

void chunk_init(ProgramBuild *b, Chunk *chunk, int rank, int index)
{
  gboolean share = index == b->shape.chunks;
  int stage = share ? -1 : program_stage(b, rank, index);

  *chunk = (Chunk) { .rank = rank, .index = index, .pieces = g_array_new(FALSE, FALSE, sizeof(Piece)),
                     .first_forward = -1, .last_backward = -1, .send = { -1, -1 }, .params = { -1, -1 },
                     .remade = b->stored && stage != b->stages - 1 };
  add_pieces(b, chunk->pieces, share ? (Piece) { b->model->n_layers - 1, 1 } : stage_layers(b, stage));
  int n = chunk->pieces->len;
  chunk->all = all_of(chunk->pieces);
  chunk->mixed = is_mixed(chunk->pieces);
  for (int i = 0; i < 2; i++) {
    for (int pass = 0; pass < PASS_COUNT; pass++) {
      chunk->whole[i][pass] = -1;
      chunk->split[i][pass] = indices_new(n);
    }
    chunk->gather[i][0] = indices_new(n);
    chunk->gather[i][1] = indices_new(n);
    chunk->reduce[i] = indices_new(n);
    chunk->across[i] = indices_new(n);
  }
  for (int copy = 0; copy < COPY_COUNT; copy++)
    chunk->copies[copy] = indices_new(n);
  if (offload_keeps(&own_states(b)->offload)) {
    chunk->stored = indices_new((gsize)n * b->shape.micro);
    chunk->fetched = indices_new(n);
  }
}

void chunk_clear(Chunk *chunk)
{
  g_array_unref(chunk->pieces);
  for (int i = 0; i < 2; i++) {
    for (int pass = 0; pass < PASS_COUNT; pass++)
      g_free(chunk->split[i][pass]);
    g_free(chunk->gather[i][0]);
    g_free(chunk->gather[i][1]);
    g_free(chunk->reduce[i]);
    g_free(chunk->across[i]);
  }
  for (int copy = 0; copy < COPY_COUNT; copy++)
    g_free(chunk->copies[copy]);
  g_free(chunk->stored);
  g_free(chunk->fetched);
}

Piece chunk_whole(const Chunk *chunk)
{
  return chunk->all;
}

Piece chunk_piece(const Chunk *chunk, int piece)
{
  return piece < 0 ? chunk_whole(chunk) : g_array_index(chunk->pieces, Piece, piece);
}

int chunk_pass_segment(ProgramBuild *b, Chunk *chunk, int piece, Pass pass, gboolean releases)
{
  int *known = piece < 0 ? &chunk->whole[releases][pass] : &chunk->split[releases][pass][piece];

  if (*known < 0)
    *known = program_add_segment(b, pass_segment(b, chunk, chunk_piece(chunk, piece), pass, releases));
  return *known;
}

/* Of such a share of what the chunk's ranks divide. */
static Segment part_segment(const StateLayout *states, const Cluster *site, TaskKind kind, Collective what,
                            double bytes, GroupShape group, double share)
{
  Segment s = { .kind = kind, .collective = what, .comm_bytes = bytes, .group = group,
                .cost = sharded_cost(states, site, what, bytes, &group, share), .slowdown = 1 };

  s.seconds = s.cost.seconds + (s.cost.seconds > 0 ? states->framework->collective_s : 0);
  if (kind == TASK_REDUCE || kind == TASK_GATHER)
    s.slowdown = overlap_slowdown(site, &group);
  return s;
}

Segment comm_segment(const StateLayout *states, const Cluster *site, TaskKind kind, Collective what, double bytes,
                     GroupShape group)
{
  return part_segment(states, site, kind, what, bytes, group, 1);
}

void segment_repeat(Segment *s, double times)
{
  s->comm_bytes *= times;
  s->seconds *= times;
  s->cost = collective_repeated(s->cost, times, 0);
}

gboolean chunk_has(const ProgramBuild *b, const Chunk *chunk, int piece, gboolean experts)
{
  Piece p = chunk_piece(chunk, piece);

  return states_of(b, p.strategy, experts)->sums && params_of(b, p, experts) > 0;
}

gboolean chunk_gathers(const ProgramBuild *b, const Chunk *chunk, int piece, gboolean experts)
{
  Piece p = chunk_piece(chunk, piece);

  return chunk_has(b, chunk, piece, experts) ||
         (states_of(b, p.strategy, experts)->sums && fetched_frozen(b, p, experts).params > 0);
}

static int add_comm(ProgramBuild *b, Segment s, Piece piece, gboolean experts)
{
  s.first_layer = piece.first_layer;
  s.n_layers = piece.n_layers;
  s.experts = experts;
  return program_add_segment(b, s);
}

/* Communication that takes what ZeRO++ says instead. */
static void quantize(const ProgramBuild *b, Segment *s, CollectiveCost cost, Collective what, double bytes)
{
  s->cost = cost;
  s->collective = what;
  s->comm_bytes = bytes;
  s->seconds = cost.seconds + (cost.seconds > 0 ? b->layout->passes.framework->collective_s : 0);
}

/* Tiles of a product come one after the other. */
static void tile(const ProgramBuild *b, const Cluster *site, Segment *s)
{
  int tiles = own_states(b)->sharding.tiling;

  s->cost = collective_repeated(collective_cost(site, s->collective, s->comm_bytes / tiles, &s->group), tiles, 0);
  s->seconds = s->cost.seconds + tiles * b->layout->passes.framework->collective_s;
}

/* What a gather takes of memory, and gives back when it ends: int8 weights, and the part that came up from the host. */
static void set_gather_memory(const StateLayout *p, Segment *s, double params, double narrow, double frozen_bytes)
{
  double bytes = op_gathered_bytes(p, params, narrow) + frozen_bytes;

  if (p->zero < 3)
    return;
  s->free_bytes = p->sharding.quantized_weights ? params * QUANTIZED_WEIGHT_BYTES / p->sharding.tiling : 0;
  s->alloc_bytes = s->free_bytes + bytes / p->sharding.tiling;
  if (p->offload.parameters)
    s->free_bytes += bytes / p->shards;
}

/* Share of a layer's weights that leave the device between its recomputation and its backward. They are gathered tensor
 * by tensor; one stays if it and those behind it, and what passes both ways over these, are within the limit. */
static double regathered_share(const ProgramBuild *b, Piece piece, double params)
{
  const RecomputeLayout *r = &b->layout->passes.recompute;
  const Framework *f = own_states(b)->framework;
  int n = MAX(1, f->shard_tensors);
  double tensor = params / piece.n_layers / n;

  if (own_states(b)->zero < 3 || f->shard_live_params <= 0 || r->granularity != RECOMPUTE_FULL ||
      recompute_counts(&r->scope) || model_layer(b->model, piece.first_layer)->kind != LAYER_BLOCK)
    return 0;
  double stay = tensor > f->shard_live_params ? 0 : floor(f->shard_live_params / (2 * tensor)) + 1;
  return 1 - MIN(MIN(stay, floor(f->shard_live_params / tensor)), n) / n;
}

/* The norm behind the blocks stays with the last rank's part of a spread vocabulary; it travels with that part, and its
 * few bytes are no buffers. */
static double norm_params(const ProgramBuild *b, const Chunk *chunk, Piece piece, gboolean experts)
{
  gboolean head = piece.first_layer + piece.n_layers == b->model->n_layers;

  return b->shares && head && !experts && chunk->rank == b->shape.ranks - 1 ? b->final_norm.params : 0;
}

/* Of the chunk's weights of a kind. */
static double share_of(const ProgramBuild *b, Chunk *chunk, Piece piece, gboolean experts)
{
  if (chunk->params[experts] < 0)
    chunk->params[experts] = params_of(b, chunk->all, experts);
  double whole = chunk->params[experts];
  return whole > 0 ? params_of(b, piece, experts) / whole : 1;
}

int chunk_gather_segment(ProgramBuild *b, Chunk *chunk, int piece, gboolean experts, gboolean again)
{
  const StateLayout *own = own_states(b);
  int *known = &chunk->gather[experts][again][piece];

  if (*known < 0) {
    Piece p = g_array_index(chunk->pieces, Piece, piece);
    const StateLayout *states = states_of(b, p.strategy, experts);
    const Site *site = site_of(b, p.strategy, chunk->rank);
    double own_params = gathered_params(b, p, experts), params = own_params + norm_params(b, chunk, p, experts);
    double narrow = narrow_of(b, p, experts);
    Frozen frozen = fetched_frozen(b, p, experts);
    GroupShape group = again && site->secondary[experts].size > 1 ? site->secondary[experts] : site->data[experts];
    Collective what = own->framework->single_process ? COLLECTIVE_BROADCAST : COLLECTIVE_ALL_GATHER;
    double bytes = op_gathered_bytes(states, params, narrow) + frozen.bytes;
    Segment s = part_segment(states, site->cluster, TASK_GATHER, what, bytes, group, share_of(b, chunk, p, experts));
    if (own->sharding.tiling > 1)
      tile(b, site->cluster, &s);
    if (own->sharding.quantized_weights)
      quantize(b, &s, quantized_gather_cost(site->cluster, params, &group), what, params * QUANTIZED_WEIGHT_BYTES);
    if (again)
      segment_repeat(&s, 1 + regathered_share(b, p, params + frozen.params));
    set_gather_memory(states, &s, own_params, narrow, frozen.bytes);
    *known = add_comm(b, s, p, experts);
  }
  return *known;
}

/* To a bucket and back: each gradient is read and written twice. */
static double bucket_copies_s(const ProgramBuild *b, const Cluster *site, double bytes)
{
  gboolean copies = b->layout->passes.framework->copied_buckets && !own_states(b)->sharding.bucket_view;
  return copies ? memory_s(&site->device, 4 * bytes, 2) : 0;
}

static double reduce_casts_s(const ProgramBuild *b, const Cluster *site, double params)
{
  double bytes = op_reduce_cast_bytes(own_states(b)) * params;
  return bytes > 0 ? memory_s(&site->device, bytes, 2) : 0;
}

/* Gradients of a kind that go when they are summed; what goes to the host is a rank's part. */
static double freed_gradients(const StateLayout *p, double params)
{
  double stay = p->stores_gradients ? 1.0 / p->shards : 0;

  return p->drops_gradients ? params * p->gradient_bytes / p->sharding.tiling * (1 - stay) : 0;
}

int chunk_reduce_segment(ProgramBuild *b, Chunk *chunk, int piece, gboolean experts)
{
  const StateLayout *own = own_states(b);
  int *known = &chunk->reduce[experts][MAX(piece, 0)];

  if (*known < 0) {
    Piece p = chunk_piece(chunk, piece);
    const StateLayout *states = states_of(b, p.strategy, experts);
    const Site *site = site_of(b, p.strategy, chunk->rank);
    double own_params = params_of(b, p, experts), params = own_params + norm_params(b, chunk, p, experts);
    double bytes = params * own->reduce_bytes;
    Segment s = part_segment(states, site->cluster, TASK_REDUCE, states->reduction, bytes, site->sums[experts],
                             share_of(b, chunk, p, experts));
    if (own->sharding.quantized_gradients)
      quantize(b, &s, quantized_scatter_cost(site->cluster, params, &site->data[experts]), COLLECTIVE_ALL_TO_ALL,
               params * QUANTIZED_GRADIENT_BYTES);
    s.seconds += bucket_copies_s(b, site->cluster, bytes) + reduce_casts_s(b, site->cluster, params);
    s.free_bytes = own->framework->single_process ? host_output_bytes(b) : freed_gradients(states, own_params);
    *known = add_comm(b, s, p, experts);
  }
  return *known;
}

int chunk_across_segment(ProgramBuild *b, Chunk *chunk, int piece, gboolean experts)
{
  int *known = &chunk->across[experts][MAX(piece, 0)];

  if (*known < 0) {
    Piece p = chunk_piece(chunk, piece);
    const StateLayout *states = states_of(b, p.strategy, experts);
    const Site *site = site_of(b, p.strategy, chunk->rank);
    double bytes = params_of(b, p, experts) * own_states(b)->reduce_bytes / states->shards;
    Segment s = comm_segment(states, site->cluster, TASK_REDUCE, COLLECTIVE_ALL_REDUCE, bytes, site->copies[experts]);
    s.across = TRUE;
    *known = add_comm(b, s, p, experts);
  }
  return *known;
}

/* With scatter-gather each tensor-parallel rank sends its share, and the
 * receivers gather it over their fast links (Narayanan et al. 2021, section 4.1). */
Segment send_segment(const ProgramBuild *b, int from_rank, int to_rank, int boundary, Pass pass)
{
  const Layout *l = b->layout;
  int layer = stage_first_layer(&l->pipeline.cut, b->model, boundary);
  double bytes = op_boundary_bytes_at(b->model, &l->passes, layer);
  gboolean scatter = l->pipeline.scatters_sends;
  GroupShape pair;
  const Cluster *between = mesh_pair_site(&l->mesh, b->cluster, from_rank, to_rank, &pair);
  Segment s = comm_segment(&l->states[0], between, TASK_SEND, COLLECTIVE_SEND,
                           scatter ? bytes / l->passes.tp : bytes, pair);

  s.pass = pass;
  beside_send(b, &s);
  if (scatter) {
    const Cluster *site = b->sites[to_rank].cluster;
    GroupShape tensor = pass_group(&l->passes, site, RANKS_TENSOR);
    CollectiveCost gather = collective_cost(site, COLLECTIVE_ALL_GATHER, bytes, &tensor);
    s.seconds += gather.seconds;
    gather.use = (PortUse) { 0 }; /* the sender has no part in it: sim/links.h */
    s.cost = collective_and(s.cost, gather);
    s.cost.bus_bytes_per_s = s.comm_bytes / s.cost.seconds;
  }
  return s;
}
