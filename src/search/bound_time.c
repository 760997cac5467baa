#include "search/bound_parts.h"

#include <math.h>
#include <string.h>

/* What comes behind the passes of a rank; most hold the same as another. */
static const RankEnd *find_rank_end(Bound *b, int rank, BoundEnds *ends)
{
  double micro = bound_chunk_micro(b);
  const BoundWeights w = bound_weights_at_end(b, rank);

  for (int i = 0; i < ends->n; i++) {
    const RankEnd *end = &ends->ends[i];
    if (memcmp(&end->weights, &w, sizeof w) == 0 && end->micro == micro && end->site == b->site)
      return end;
  }
  int at = ends->n < BOUND_ENDS ? ends->n++ : BOUND_ENDS - 1;
  ends->ends[at] = bound_rank_end(b, &w);
  return &ends->ends[at];
}

/* Of pairs that may share the domains of any tiers that hold both; that inside a node need not be the fastest. */
static double send_on(const Bound *b, const Cluster *cluster)
{
  int stride = b->layout->mesh.dense[AXIS_PIPELINE].stride;
  double bytes = op_boundary_bytes(b->model, &b->layout->passes), least = INFINITY;

  if (b->layout->pipeline.scatters_sends)
    bytes /= b->layout->passes.tp;
  for (int shared = cluster->n_tiers - 1; shared >= 0 && stride < cluster->tiers[shared].devices; shared--) {
    GroupShape pair = { .size = 2 };
    for (int t = 0; t < cluster->n_tiers; t++)
      pair.per_domain[t] = t < shared ? 1 : 2;
    least = fmin(least, collective_cost(cluster, COLLECTIVE_SEND, bytes, &pair).seconds);
  }
  return least;
}

/* A send between neighbouring stages at its fastest, on any type of nodes. */
static double send_s(const Bound *b)
{
  if (b->shape.ranks == 1)
    return 0;
  double least = send_on(b, b->cluster);
  for (int i = 0; i < b->cluster->n_types; i++)
    least = fmin(least, send_on(b, b->cluster->types[i]));
  return least;
}

/* Passes that may run as one with another: then only what computes is certain. */
static gboolean may_overlap(const Bound *b)
{
  return b->layout->pipeline.schedule->pairs;
}

/* Of backwards that are not split. */
static const double *whole_backward(const Bound *b)
{
  return b->layout->pipeline.schedule->recompute ? b->sums->remade_s : b->sums->backward_s;
}

/* Seconds of a rank's passes for one micro-batch. */
static double micro_s(const Bound *b, int rank)
{
  const PriceSums *s = b->sums;
  double forward = sum_of_rank(b, s->forward_s, rank);

  if (may_overlap(b))
    return sum_of_rank(b, s->least_s, rank);
  if (b->layout->pipeline.schedule->split)
    return forward + sum_of_rank(b, s->either_s, rank);
  /* the last stage does not make its forwards again */
  if (b->layout->pipeline.schedule->recompute && bound_stage(b, rank, 0) == b->stages - 1)
    forward = 0;
  return forward + sum_of_rank(b, whole_backward(b), rank);
}

/* The same of what a micro-batch passes before the gradient of its input is there. */
static double passing_s(const Bound *b, int rank)
{
  const PriceSums *s = b->sums;

  return may_overlap(b) ? sum_of_rank(b, s->least_input_s, rank)
                        : sum_of_rank(b, s->forward_s, rank) + sum_of_rank(b, s->input_s, rank);
}

static int lowest_stage(const Bound *b, int rank)
{
  int lowest = b->stages;

  if (b->layout->pipeline.schedule->placement == PLACE_LOOP)
    return bound_stage(b, rank, 0);
  for (int chunk = 0; chunk < b->shape.chunks; chunk++)
    lowest = MIN(lowest, bound_stage(b, rank, chunk));
  return lowest;
}

/* Sends of a micro-batch on its way to a stage: only a table may have neighbours on one rank before a rank's lowest. */
static int sends_to(const Bound *b, int stage)
{
  int sends = 0;

  if (b->layout->pipeline.schedule->placement != PLACE_TABLE)
    return stage;
  for (int i = 0; i < stage; i++)
    sends += schedule_place(b->layout->pipeline.schedule, &b->shape, i, 0).rank !=
             schedule_place(b->layout->pipeline.schedule, &b->shape, i + 1, 0).rank;
  return sends;
}

static double before_stage_mixed(const Bound *b, const double *sum, int stage)
{
  double seconds = 0;

  for (int i = 0; i < stage; i++)
    seconds += sum_of_stage(b, sum, i);
  return seconds;
}

/* Seconds of a pass on all stages before this one. */
static double before_stage(const Bound *b, const double *sum, int stage)
{
  int spread = b->layout->pipeline.schedule->vocabulary > 0;

  if (b->mixed)
    return before_stage_mixed(b, sum, stage);
  return stage == 0 ? 0 : sum[MIN(bound_first_layer(b, stage), b->model->n_layers - spread)] - sum[spread];
}

/* What a rank's passes that no other runs beside take longer, and those on the ranks before it of the first micro-batch
 * and of the last one's gradient, which are first and last there. */
static double alone_s(const Bound *b, int rank)
{
  const Schedule *schedule = b->layout->pipeline.schedule;
  double seconds = 0;

  if (!b->layout->passes.overlap_exchange || !schedule->first || !bound_keeps_order(b->layout))
    return 0;
  for (int back = 0; back < 2; back++) {
    const double *sum = b->sums->alone_s[back ? PASS_BACKWARD : PASS_FORWARD];
    seconds += before_stage(b, sum, rank);
    for (int chunk = 0; chunk < b->shape.chunks; chunk++)
      seconds += schedule_alone(schedule, &b->shape, rank, chunk, back) *
                 sum_of_stage(b, sum, bound_stage(b, rank, chunk));
  }
  return seconds;
}

/* What a rank waits for: the forward of each micro-batch comes behind the backward of one that was some before it
 * (Schedule.ahead), which went on to the last stage and back. Turns of that many micro-batches follow each other on
 * every rank, with what comes before the first and behind the last. */
static double turns_s(const Bound *b, const double *back, double send)
{
  const Schedule *schedule = b->layout->pipeline.schedule;
  const double *forward = b->sums->forward_s;
  int last = b->stages - 1, micro = b->shape.micro;
  double longest = 0;

  if (!schedule->ahead || b->mixed || !bound_keeps_order(b->layout))
    return 0;
  double all_s = before_stage(b, forward, b->stages) + before_stage(b, back, b->stages) + 2 * last * send;
  for (int rank = 0; rank <= last; rank++) {
    int ahead = schedule->ahead(&b->shape, rank);
    double before_s = before_stage(b, forward, rank) + before_stage(b, back, rank) + 2 * rank * send;
    double forward_s = before_stage(b, forward, rank + 1) - before_stage(b, forward, rank);
    longest = MAX(longest, before_s + (micro - 1) % ahead * forward_s + ((micro - 1) / ahead + 1) * (all_s - before_s));
  }
  return longest;
}

/* The slowest rank's passes with what comes before the first and behind the last; `ends` NULL: but for what becomes of
 * states. */
static double pipeline_s(Bound *b, BoundEnds *ends, double *lane, double *last)
{
  const Schedule *schedule = b->layout->pipeline.schedule;
  const double *back = schedule->split ? b->sums->input_s : whole_backward(b);
  double m = bound_chunk_micro(b), send = send_s(b), longest = 0, serial = 0;

  for (int rank = 0; rank < b->shape.ranks; rank = schedule->serial ? rank + 1 : bound_next_rank(b, rank)) {
    int stage = lowest_stage(b, rank);
    double sends_s = sends_to(b, stage) * send, fill = before_stage(b, b->sums->forward_s, stage) + sends_s;
    /* forwards that are slots of their own may be made again before the gradient comes */
    double again = schedule->recompute ? before_stage(b, b->sums->forward_s, stage) : 0;
    double drain = MAX(0, before_stage(b, back, stage) - again) + sends_s;
    double work = m * micro_s(b, rank) + alone_s(b, rank);
    double passing = schedule->split ? m * passing_s(b, rank) : work; /* those alone are of whole backwards */
    b->site = b->mixed ? mesh_site(&b->layout->mesh, b->cluster, rank) : b->cluster;
    const RankEnd none = { 0 }, *end = ends ? find_rank_end(b, rank, ends) : &none;
    longest = MAX(longest, fill + MAX(passing + drain, work + MAX(end->tail, end->slowed)));
    *lane = MAX(*lane, end->lane);
    *last = MAX(*last, end->last);
    serial += work;
  }
  return schedule->serial ? serial : fmax(longest, turns_s(b, back, send));
}

double bound_time(const Model *model, const Layout *l, const Cluster *cluster, const PriceSums *sums, BoundEnds *ends)
{
  Bound b = bound_of(model, l, cluster, sums);
  BoundEnds own = { 0 };
  double lane = 0, last = 0, passes = pipeline_s(&b, ends ? ends : &own, &lane, &last);

  return (MAX(passes, lane) + last) * (1 - 1e-9) + l->passes.framework->step_s;
}

double bound_time_of_passes(const Model *model, const Layout *l, const Cluster *cluster, const PriceSums *sums)
{
  Bound b = bound_of(model, l, cluster, sums);
  double lane = 0, last = 0;

  return pipeline_s(&b, NULL, &lane, &last) * (1 - 1e-9) + l->passes.framework->step_s;
}
