/* What tasks are: segments of passes and of communication, and the memory of a rank. */
#include "program/build.h"

#include <string.h>

static const LayerPrice *price_of(const ProgramBuild *b, int layer)
{
  return &b->prices->layers[b->model->layers[layer]];
}

static double params_of(const ProgramBuild *b, int first, int n)
{
  double params = 0;
  for (int i = first; i < first + n; i++)
    params += price_of(b, i)->params;
  return params;
}

static double weight_bytes(const ProgramBuild *b)
{
  return dtype_bytes[b->plan->precision];
}

/* Parameters in a piece at least: a layer under ZeRO-3, a bucket where
 * communication runs beside computation, else the whole chunk. */
static double piece_params(const ProgramBuild *b)
{
  const Plan *p = b->plan;

  if (p->dp == 1)
    return G_MAXDOUBLE;
  if (p->zero == 3)
    return 0;
  if (p->overlap.gradients || (p->zero > 0 && p->overlap.parameters))
    return MAX(p->framework->bucket_params, p->framework->bucket_params_per_rank * p->dp);
  return G_MAXDOUBLE;
}

void chunk_init(ProgramBuild *b, Chunk *chunk, int stage)
{
  int first = plan_stage_first_layer(b->plan, b->model, stage);
  int end = plan_stage_first_layer(b->plan, b->model, stage + 1);
  double least = piece_params(b), filled = 0;
  Piece piece = { first, 0 };

  *chunk = (Chunk) { .pieces = g_array_new(FALSE, FALSE, sizeof(Piece)), .first_forward = -1, .last_backward = -1,
                     .send = { -1, -1 } };
  for (int i = first; i < end; i++) {
    piece.n_layers++;
    filled += price_of(b, i)->params;
    if (filled > least || i == end - 1) {
      g_array_append_val(chunk->pieces, piece);
      piece = (Piece) { i + 1, 0 };
      filled = 0;
    }
  }
  int n = chunk->pieces->len;
  for (int pass = 0; pass < PASS_COUNT; pass++) {
    chunk->whole[pass] = -1;
    chunk->split[pass] = g_new(int, n);
    memset(chunk->split[pass], -1, n * sizeof(int));
  }
  chunk->gather = g_memdup2(chunk->split[0], n * sizeof(int));
  chunk->reduce = g_memdup2(chunk->split[0], n * sizeof(int));
}

void chunk_clear(Chunk *chunk)
{
  g_array_unref(chunk->pieces);
  for (int pass = 0; pass < PASS_COUNT; pass++)
    g_free(chunk->split[pass]);
  g_free(chunk->gather);
  g_free(chunk->reduce);
}

static Piece piece_at(const Chunk *chunk, int piece)
{
  if (piece >= 0)
    return g_array_index(chunk->pieces, Piece, piece);
  Piece whole = { g_array_index(chunk->pieces, Piece, 0).first_layer, 0 };
  for (guint i = 0; i < chunk->pieces->len; i++)
    whole.n_layers += g_array_index(chunk->pieces, Piece, i).n_layers;
  return whole;
}

static Segment pass_segment(const ProgramBuild *b, Piece piece, Pass pass)
{
  Segment s = { .kind = TASK_PASS, .pass = pass, .first_layer = piece.first_layer, .n_layers = piece.n_layers,
                .slowdown = 1 };
  double saved = 0, params = params_of(b, piece.first_layer, piece.n_layers);
  gboolean backward = pass == PASS_BACKWARD || pass == PASS_INPUT;

  for (int i = piece.first_layer; i < piece.first_layer + piece.n_layers; i++) {
    const LayerPrice *price = price_of(b, i);
    s.seconds += price->pass[pass].seconds;
    s.compute_s += price->pass[pass].compute_s;
    s.hardware_flops += price->pass[pass].flops;
    saved += price->saved_bytes;
    s.alloc_bytes = MAX(s.alloc_bytes, price->transient_bytes + (backward ? price->recomputed_bytes : 0));
  }
  s.compute_s = MIN(s.compute_s, s.seconds);
  s.free_bytes = s.alloc_bytes;
  if (pass == PASS_FORWARD)
    s.activation_bytes = saved;
  else if (pass == PASS_BACKWARD || pass == PASS_WEIGHT)
    s.activation_bytes = -saved;
  if (b->plan->dp > 1 && b->plan->zero == 3 && pass != PASS_WEIGHT)
    s.free_bytes += params * weight_bytes(b);
  if (b->plan->dp > 1 && b->plan->zero >= 2 && pass != PASS_FORWARD && pass != PASS_INPUT)
    s.alloc_bytes += params * op_gradient_bytes(b->plan);
  return s;
}

int chunk_pass_segment(ProgramBuild *b, Chunk *chunk, int piece, Pass pass)
{
  int *known = piece < 0 ? &chunk->whole[pass] : &chunk->split[pass][piece];

  if (*known < 0)
    *known = program_add_segment(b, pass_segment(b, piece_at(chunk, piece), pass));
  return *known;
}

static CollectiveCost cost_in_parts(const ProgramBuild *b, Collective what, double bytes, const GroupShape *group, int parts,
                                    double part_s)
{
  CollectiveCost cost = collective_cost(b->cluster, what, bytes / parts, group);

  cost.seconds = parts * (cost.seconds + part_s);
  cost.runner_up_s = parts * (cost.runner_up_s + part_s);
  return cost;
}

/* Gradients are scattered and parameters gathered at once, tensor by tensor
 * (ZeRO-3), or by a reduction to and a broadcast from each rank in turn, which
 * take as long as each other. */
static CollectiveCost sharded_cost(const ProgramBuild *b, Collective what, double bytes, const GroupShape *group)
{
  const Framework *f = b->plan->framework;

  if (b->plan->zero < 3 && f->whole_tensors)
    return cost_in_parts(b, COLLECTIVE_BROADCAST, bytes, group, group->size, 0);
  if (b->plan->zero == 3 && f->shard_tensors)
    return cost_in_parts(b, what, bytes, group, f->shard_tensors, f->shard_list_launches * group->size * f->issue_s);
  return collective_cost(b->cluster, what, bytes, group);
}

Segment comm_segment(const ProgramBuild *b, TaskKind kind, Collective what, double bytes, GroupShape group)
{
  Segment s = { .kind = kind, .collective = what, .comm_bytes = bytes, .group = group,
                .cost = collective_cost(b->cluster, what, bytes, &group), .slowdown = 1 };

  if (what == COLLECTIVE_REDUCE_SCATTER || what == COLLECTIVE_ALL_GATHER)
    s.cost = sharded_cost(b, what, bytes, &group);
  s.seconds = s.cost.seconds + (s.cost.seconds > 0 ? b->plan->framework->collective_s : 0);
  if (kind == TASK_REDUCE || kind == TASK_GATHER)
    s.slowdown = overlap_slowdown(b->cluster, &group);
  return s;
}

int chunk_gather_segment(ProgramBuild *b, Chunk *chunk, int piece)
{
  if (chunk->gather[piece] < 0) {
    Piece p = g_array_index(chunk->pieces, Piece, piece);
    double bytes = params_of(b, p.first_layer, p.n_layers) * weight_bytes(b);
    Segment s = comm_segment(b, TASK_GATHER, COLLECTIVE_ALL_GATHER, bytes, b->data);
    s.first_layer = p.first_layer;
    s.n_layers = p.n_layers;
    s.alloc_bytes = b->plan->zero == 3 ? bytes : 0;
    chunk->gather[piece] = program_add_segment(b, s);
  }
  return chunk->gather[piece];
}

int chunk_reduce_segment(ProgramBuild *b, Chunk *chunk, int piece)
{
  int *known = &chunk->reduce[MAX(piece, 0)];

  if (*known < 0) {
    Piece p = piece_at(chunk, piece);
    double params = params_of(b, p.first_layer, p.n_layers);
    Collective what = b->plan->zero > 0 ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE;
    Segment s = comm_segment(b, TASK_REDUCE, what, params * op_reduce_bytes(b->plan), b->data);
    s.first_layer = p.first_layer;
    s.n_layers = p.n_layers;
    s.free_bytes = b->plan->zero >= 2 ? params * op_gradient_bytes(b->plan) : 0;
    *known = program_add_segment(b, s);
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
  GroupShape pair = mesh_pair(p, b->cluster, from_rank, to_rank);
  Segment s = comm_segment(b, TASK_SEND, COLLECTIVE_SEND, scatter ? bytes / p->tp : bytes, pair);

  s.pass = pass;
  if (scatter) {
    GroupShape tensor = mesh_group(p, b->cluster, AXIS_TENSOR);
    double gather = collective_cost(b->cluster, COLLECTIVE_ALL_GATHER, bytes, &tensor).seconds;
    s.seconds += gather;
    s.cost.seconds += gather;
    s.cost.bus_bytes_per_s = s.comm_bytes / s.cost.seconds;
  }
  return s;
}

typedef struct {
  double params, largest;
} RankWeights;

static RankWeights rank_weights(const ProgramBuild *b, int rank)
{
  RankWeights w = { 0 };

  for (int chunk = 0; chunk < b->shape.chunks; chunk++) {
    int stage = program_stage(b, rank, chunk);
    int end = plan_stage_first_layer(b->plan, b->model, stage + 1);
    for (int i = plan_stage_first_layer(b->plan, b->model, stage); i < end; i++) {
      w.params += price_of(b, i)->params;
      w.largest = MAX(w.largest, price_of(b, i)->largest);
    }
  }
  return w;
}

double rank_params(const ProgramBuild *b, int rank)
{
  return rank_weights(b, rank).params;
}

void row_memory(const ProgramBuild *b, int rank, ProgramRow *row)
{
  const Plan *p = b->plan;
  RankWeights w = rank_weights(b, rank);
  double *bytes = row->static_bytes, sharded = p->zero >= 2 ? p->dp : 1;

  memset(bytes, 0, PART_COUNT * sizeof *bytes);
  bytes[PART_WEIGHTS] = w.params * weight_bytes(b) / (p->zero >= 3 ? p->dp : 1);
  bytes[PART_GRADIENTS] = w.params * (op_gradient_bytes(p) + op_gradient_copy_bytes(p)) / sharded;
  bytes[PART_OPTIMIZER] = w.params * op_optimizer_bytes(p) / (p->zero >= 1 ? p->dp : 1);
  bytes[PART_BUFFERS] = op_bucket_bytes(p, w.params);
  bytes[PART_OVERHEAD] = op_overhead_bytes(p);
  row->cached_bytes = op_step_bytes(p, w.params, w.largest);
}
