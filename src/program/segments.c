/* What tasks are: segments of a chunk's passes and of its communication. */
#include "program/build.h"

#include <string.h>

/* Parameters in a piece at least: a layer under ZeRO-3, a bucket where
 * communication runs beside computation, else the whole chunk. */
static double piece_params(const ProgramBuild *b)
{
  const Plan *p = b->plan;

  if (!sums_weights(p))
    return G_MAXDOUBLE;
  if (p->zero == 3)
    return 0;
  if (p->overlap.gradients || (p->zero > 0 && p->overlap.parameters))
    return op_bucket_params(p);
  return G_MAXDOUBLE;
}

/* Cuts layers into pieces of at least so many parameters. */
static void add_pieces(const ProgramBuild *b, GArray *pieces, Piece layers)
{
  double least = piece_params(b), filled = 0;
  Piece piece = { layers.first_layer, 0 };
  int end = layers.first_layer + layers.n_layers;

  for (int i = layers.first_layer; i < end; i++) {
    piece.n_layers++;
    filled += price_of(b, 0, i)->params + price_of(b, 0, i)->expert_params;
    if (filled > least || i == end - 1) {
      g_array_append_val(pieces, piece);
      piece = (Piece) { i + 1, 0 };
      filled = 0;
    }
  }
}

void chunk_init(ProgramBuild *b, Chunk *chunk, int rank, int index)
{
  gboolean share = index == b->shape.chunks;
  int stage = share ? -1 : program_stage(b, rank, index);

  *chunk = (Chunk) { .rank = rank, .pieces = g_array_new(FALSE, FALSE, sizeof(Piece)), .first_forward = -1, .last_backward = -1,
                     .send = { -1, -1 }, .remade = b->stored && stage != b->stages - 1 };
  add_pieces(b, chunk->pieces, share ? (Piece) { b->model->n_layers - 1, 1 } : stage_layers(b, stage));
  int n = chunk->pieces->len;
  for (int pass = 0; pass < PASS_COUNT; pass++) {
    chunk->whole[pass] = -1;
    chunk->split[pass] = g_new(int, n);
    memset(chunk->split[pass], -1, n * sizeof(int));
  }
  for (int experts = 0; experts < 2; experts++) {
    chunk->gather[experts] = g_memdup2(chunk->split[0], n * sizeof(int));
    chunk->reduce[experts] = g_memdup2(chunk->split[0], n * sizeof(int));
    chunk->across[experts] = g_memdup2(chunk->split[0], n * sizeof(int));
  }
}

void chunk_clear(Chunk *chunk)
{
  g_array_unref(chunk->pieces);
  for (int pass = 0; pass < PASS_COUNT; pass++)
    g_free(chunk->split[pass]);
  for (int experts = 0; experts < 2; experts++) {
    g_free(chunk->gather[experts]);
    g_free(chunk->reduce[experts]);
    g_free(chunk->across[experts]);
  }
}

Piece chunk_whole(const Chunk *chunk)
{
  Piece whole = { g_array_index(chunk->pieces, Piece, 0).first_layer, 0 };

  for (guint i = 0; i < chunk->pieces->len; i++)
    whole.n_layers += g_array_index(chunk->pieces, Piece, i).n_layers;
  return whole;
}

static Piece piece_at(const Chunk *chunk, int piece)
{
  return piece < 0 ? chunk_whole(chunk) : g_array_index(chunk->pieces, Piece, piece);
}

int chunk_pass_segment(ProgramBuild *b, Chunk *chunk, int piece, Pass pass)
{
  int *known = piece < 0 ? &chunk->whole[pass] : &chunk->split[pass][piece];

  if (*known < 0)
    *known = program_add_segment(b, pass_segment(b, chunk, piece_at(chunk, piece), pass));
  return *known;
}

static CollectiveCost cost_in_parts(const Cluster *site, Collective what, double bytes, const GroupShape *group,
                                    int parts, double part_s)
{
  CollectiveCost cost = collective_cost(site, what, bytes / parts, group);

  cost.seconds = parts * (cost.seconds + part_s);
  cost.runner_up_s = parts * (cost.runner_up_s + part_s);
  return cost;
}

/* Gradients are scattered and parameters gathered at once, tensor by tensor
 * (ZeRO-3), or by a reduction to and a broadcast from each rank in turn, which
 * take as long as each other. */
static CollectiveCost sharded_cost(const ProgramBuild *b, const Cluster *site, Collective what, double bytes,
                                   const GroupShape *group)
{
  const Framework *f = b->plan->framework;

  if (b->plan->zero < 3 && f->whole_tensors)
    return cost_in_parts(site, COLLECTIVE_BROADCAST, bytes, group, group->size, 0);
  if (b->plan->zero == 3 && f->shard_tensors)
    return cost_in_parts(site, what, bytes, group, f->shard_tensors, f->shard_list_launches * group->size * f->issue_s);
  return collective_cost(site, what, bytes, group);
}

Segment comm_segment(const ProgramBuild *b, const Cluster *site, TaskKind kind, Collective what, double bytes,
                     GroupShape group)
{
  Segment s = { .kind = kind, .collective = what, .comm_bytes = bytes, .group = group,
                .cost = collective_cost(site, what, bytes, &group), .slowdown = 1 };

  if (what == COLLECTIVE_REDUCE_SCATTER || what == COLLECTIVE_ALL_GATHER)
    s.cost = sharded_cost(b, site, what, bytes, &group);
  s.seconds = s.cost.seconds + (s.cost.seconds > 0 ? b->plan->framework->collective_s : 0);
  if (kind == TASK_REDUCE || kind == TASK_GATHER)
    s.slowdown = overlap_slowdown(site, &group);
  return s;
}

gboolean chunk_has(const ProgramBuild *b, const Chunk *chunk, int piece, gboolean experts)
{
  return plan_replicas(&b->view[experts]) > 1 && params_of(b, piece_at(chunk, piece), experts) > 0;
}

static int add_comm(ProgramBuild *b, Segment s, Piece piece, gboolean experts)
{
  s.first_layer = piece.first_layer;
  s.n_layers = piece.n_layers;
  s.experts = experts;
  return program_add_segment(b, s);
}

int chunk_gather_segment(ProgramBuild *b, Chunk *chunk, int piece, gboolean experts)
{
  const Site *site = &b->sites[chunk->rank];
  int *known = &chunk->gather[experts][piece];

  if (*known < 0) {
    Piece p = g_array_index(chunk->pieces, Piece, piece);
    double bytes = params_of(b, p, experts) * weight_bytes(b);
    Segment s = comm_segment(b, site->cluster, TASK_GATHER, COLLECTIVE_ALL_GATHER, bytes, site->data[experts]);
    s.alloc_bytes = b->plan->zero == 3 ? bytes : 0;
    *known = add_comm(b, s, p, experts);
  }
  return *known;
}

int chunk_reduce_segment(ProgramBuild *b, Chunk *chunk, int piece, gboolean experts)
{
  const Site *site = &b->sites[chunk->rank];
  int *known = &chunk->reduce[experts][MAX(piece, 0)];

  if (*known < 0) {
    Piece p = piece_at(chunk, piece);
    double params = params_of(b, p, experts);
    Collective what = b->plan->zero > 0 ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE;
    Segment s =
        comm_segment(b, site->cluster, TASK_REDUCE, what, params * op_reduce_bytes(b->plan), site->data[experts]);
    s.free_bytes = b->plan->zero >= 2 ? params * op_gradient_bytes(b->plan) : 0;
    *known = add_comm(b, s, p, experts);
  }
  return *known;
}

int chunk_across_segment(ProgramBuild *b, Chunk *chunk, int piece, gboolean experts)
{
  const Site *site = &b->sites[chunk->rank];
  int *known = &chunk->across[experts][MAX(piece, 0)];

  if (*known < 0) {
    Piece p = piece_at(chunk, piece);
    double bytes = params_of(b, p, experts) * op_reduce_bytes(b->plan) / plan_shards(&b->view[experts]);
    Segment s = comm_segment(b, site->cluster, TASK_REDUCE, COLLECTIVE_ALL_REDUCE, bytes, site->copies[experts]);
    *known = add_comm(b, s, p, experts);
  }
  return *known;
}

/* With scatter-gather each tensor-parallel rank sends its share, and the
 * receivers gather it over their fast links (Narayanan et al. 2021, section 4.1). */
Segment send_segment(const ProgramBuild *b, int from_rank, int to_rank, Pass pass)
{
  const Plan *p = b->plan;
  double bytes = op_boundary_bytes(b->model, p);
  gboolean scatter = p->framework->scatter_gather && p->tp > 1 && !p->sequence_parallel;
  GroupShape pair;
  const Cluster *between = mesh_pair_site(p, b->cluster, from_rank, to_rank, &pair);
  Segment s = comm_segment(b, between, TASK_SEND, COLLECTIVE_SEND, scatter ? bytes / p->tp : bytes, pair);

  s.pass = pass;
  if (scatter) {
    const Cluster *site = b->sites[to_rank].cluster;
    GroupShape tensor = mesh_group(p, site, AXIS_TENSOR);
    double gather = collective_cost(site, COLLECTIVE_ALL_GATHER, bytes, &tensor).seconds;
    s.seconds += gather;
    s.cost.seconds += gather;
    s.cost.bus_bytes_per_s = s.comm_bytes / s.cost.seconds;
  }
  return s;
}
