/* What ends a step: tied embeddings, the gradient norm, the optimizer, updated parameters. */
#include "program/build.h"

#include "cost/orthogonal.h"

/* Everything of the row so far. */
static void wait_for_row(ProgramBuild *b, int task, int row)
{
  program_add_edge(b, task, b->last_task[row]);
  if (b->last_data[row] >= 0 && b->last_data[row] != task)
    program_add_edge(b, task, b->last_data[row]);
  if (b->last_store[row] >= 0)
    program_add_edge(b, task, b->last_store[row]);
}

/* A sum between two rows, in which both take part, behind everything of theirs so far. */
static void add_pair(ProgramBuild *b, TaskKind kind, double bytes, int first, int last)
{
  GroupShape pair;
  const Cluster *between = mesh_pair_site(&b->layout->mesh, b->cluster, first, last, &pair);
  int segment = program_add_segment(b, comm_segment(own_states(b), between, kind, COLLECTIVE_ALL_REDUCE, bytes, pair));
  int before[2][2] = { { b->last_task[first], b->last_data[first] }, { b->last_task[last], b->last_data[last] } };

  for (int end = 0; end < 2; end++) {
    int task = program_add_task(b, end ? last : first, LANE_DATA, segment, 0, 0);
    for (int i = 0; i < 2; i++) {
      program_add_edge(b, task, before[i][0]);
      if (before[i][1] >= 0)
        program_add_edge(b, task, before[i][1]);
    }
  }
}

/* The first and the last stage each hold the embedding, for a tied head or to predict further
 * tokens, and add up its gradients, unless one rank holds both. */
static void add_tied(ProgramBuild *b)
{
  double bytes = op_tied_bytes(b->model, b->layout);

  if (pipeline_entry_copies(&b->layout->pipeline, b->model) && !adapter_freezes(&b->layout->passes.adapter))
    add_pair(b, TASK_TIED, bytes, pipeline_rank(&b->layout->pipeline, 0, 0),
             pipeline_rank(&b->layout->pipeline, pipeline_entry_stage(&b->layout->pipeline, b->model), 0));
  if (layout_sums_ends(b->layout, b->model))
    add_pair(b, TASK_TIED, bytes, pipeline_rank(&b->layout->pipeline, 0, 0),
             pipeline_rank(&b->layout->pipeline, b->stages - 1, 0));
}

/* Rank r and rank p-1-r hold the same stages; data-parallel ranks that hold a
 * part of the gradients sum that part. */
static void add_copies(ProgramBuild *b)
{
  const StateLayout *p = own_states(b);
  int ranks = b->shape.ranks;

  for (int rank = 0; schedule_copies(b->layout->pipeline.schedule) == 2 && rank < ranks / 2; rank++) {
    RankWeights weights = rank_weights(b, rank, 0);
    double params = 0;
    for (int experts = 0; experts < 2; experts++)
      params += weights.params[experts] / states_of(b, 0, experts)->optimizer_parts;
    add_pair(b, TASK_COPIES, params * p->reduce_bytes, rank, ranks - 1 - rank);
  }
}

static int add_norm(ProgramBuild *b)
{
  GroupShape world = group_shape(b->cluster, b->layout->mesh.ranks, 1);
  Segment sum = comm_segment(own_states(b), b->cluster, TASK_NORM, COLLECTIVE_ALL_REDUCE, 4, world);
  if (b->layout->passes.formats.precision == DTYPE_FP16) /* whether any rank found an overflow comes first */
    segment_repeat(&sum, 2);
  int norm = program_add_task(b, 0, LANE_DATA, program_add_segment(b, sum), 0, 0);

  for (int row = 0; row < b->shape.ranks; row++)
    wait_for_row(b, norm, row);
  if (b->shares)
    program_add_edge(b, norm, b->exchange[EXCHANGE_LOOKED_UP][b->shape.micro - 1]);
  return norm;
}

/* The step before's update, on the host from this one's start. */
static int add_delayed(ProgramBuild *b, int row, double seconds)
{
  Segment s = { .kind = TASK_OPTIMIZER, .seconds = seconds, .compute_s = seconds, .slowdown = 1 };
  return program_add_task(b, row, LANE_FETCH, program_add_segment(b, s), 0, 0);
}

/* Ranks that share the node's memory with one of the row where the optimizer is there: layers have no strategies of
 * their own then. */
static double sharers(const ProgramBuild *b, int row, gboolean experts, const RankWeights *rows)
{
  g_autofree double *needs = g_new(double, b->shape.ranks);

  for (int i = 0; i < b->shape.ranks; i++)
    needs[i] = rows[i].params[experts];
  return mesh_node_sharers(&b->layout->mesh, b->cluster, row, needs);
}

/* Updates of layers of all strategies, one after the other; weights: of the row, by strategy. */
static OptimizerPrice step_price(const ProgramBuild *b, int row, const RankWeights *weights, const double shared[2])
{
  const Cluster *site = b->sites[row].cluster;
  OptimizerPrice sum = { 0 };

  for (int i = 0; i < b->n_strategies; i++) {
    const double *params = weights[i].params;
    OptimizerPrice price = optimizer_price(b->strategies[i].states, site, params, weights[i].narrow, shared);
    if (i > 0 && params[0] + params[1] == 0)
      continue;
    for (int experts = 0; experts < 2; experts++)
      optimizer_price_add(&price, optimizer_work_price(&weights[i].optimizer[experts], states_of(b, i, experts),
                                                       b->shape.micro, site));
    optimizer_price_add(&sum, price);
  }
  return sum;
}

/* Bytes of a kind of weights, gathered by the ranks that ZeRO divides a strategy's states over, by so many collectives
 * one after the other, beside which so many bytes are held. */
static int add_gather(ProgramBuild *b, int row, int strategy, gboolean experts, double bytes, double times, double held,
                      int after)
{
  const Site *site = site_of(b, strategy, row);
  Segment gather = comm_segment(states_of(b, strategy, experts), site->cluster, TASK_GATHER, COLLECTIVE_ALL_GATHER,
                                bytes / times, site->data[experts]);

  segment_repeat(&gather, times);
  gather.experts = experts;
  gather.alloc_bytes = gather.free_bytes = held;
  int task = program_add_task(b, row, LANE_DATA, program_add_segment(b, gather), 0, 0);
  program_add_edge(b, task, after);
  return task;
}

/* Muon's momentum, in whole matrices; the last of them, or `after` where there is nothing to gather. */
static int add_momentum(ProgramBuild *b, int row, const RankWeights *weights, int after)
{
  for (int i = 0; i < b->n_strategies; i++)
    for (int experts = 0; experts < 2; experts++) {
      const OptimizerWork *work = &weights[i].optimizer[experts];
      const StateLayout *states = states_of(b, i, experts);
      double bytes = optimizer_gather_bytes(work, states, b->shape.micro);
      if (bytes > 0)
        after = add_gather(b, row, i, experts, bytes, optimizer_gathers(work, states, b->shape.micro), 0, after);
    }
  return after;
}

/* Updated weights that nothing gathers before their use. */
static void add_updated(ProgramBuild *b, int row, const RankWeights *weights, int optimizer)
{
  for (int i = 0; i < b->n_strategies; i++)
    for (int experts = 0; experts < 2; experts++) {
      const StateLayout *states = states_of(b, i, experts);
      double bytes = op_gathered_bytes(states, weights[i].params[experts], weights[i].narrow[experts]);
      if (states->gathers_at_end && bytes > 0)
        add_gather(b, row, i, experts, bytes, 1, op_updated_copies(states, bytes), optimizer);
    }
}

/* Copies of gradients that are there while all strategies' layers are updated. */
static double step_copies(const ProgramBuild *b, const RankWeights *weights)
{
  double bytes = 0;

  for (int i = 0; i < b->n_strategies; i++)
    bytes += op_step_copies(b->strategies[i].states, weights[i].params);
  return bytes;
}

static void add_optimizer(ProgramBuild *b, int row, const RankWeights *rows, int norm)
{
  const RankWeights *weights = &rows[row * b->n_strategies];
  double shared[2] = { 0 };

  for (int experts = 0; experts < 2 && own_states(b)->offload.optimizer; experts++)
    shared[experts] = sharers(b, row, experts, rows);
  OptimizerPrice price = step_price(b, row, weights, shared);
  double copies = step_copies(b, weights);
  Segment s = { .kind = TASK_OPTIMIZER, .seconds = price.seconds, .compute_s = price.seconds,
                .offload_s = price.offload_s, .crowded_s = price.crowded_s, .slowdown = 1,
                .alloc_bytes = copies, .free_bytes = copies };

  int optimizer = program_add_task(b, row, LANE_COMPUTE, program_add_segment(b, s), 0, 0);
  program_add_edge(b, optimizer, add_momentum(b, row, weights, norm));
  if (price.beside_s > 0)
    program_add_edge(b, optimizer, add_delayed(b, row, price.beside_s));
  add_updated(b, row, weights, optimizer);
}

void step_end_tasks(ProgramBuild *b)
{
  add_copies(b);
  add_tied(b);
  int norm = add_norm(b), n = b->n_strategies;
  g_autofree RankWeights *rows = g_new(RankWeights, (gsize)b->shape.ranks * n);
  for (int i = 0; i < b->shape.ranks * n; i++)
    rows[i] = rank_weights(b, i / n, i % n);
  for (int row = 0; row < b->shape.ranks; row++)
    add_optimizer(b, row, rows, norm);
}
