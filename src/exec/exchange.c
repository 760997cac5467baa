/* Collectives inside passes. */
#include "exec/layer.h"

static const Exposed exposed_of[GROUP_COUNT] = {
  [GROUP_TENSOR] = EXPOSED_TENSOR, [GROUP_TENSOR_BESIDE] = EXPOSED_TENSOR,
  [GROUP_CONTEXT] = EXPOSED_CONTEXT, [GROUP_EXPERT] = EXPOSED_EXPERT, [GROUP_EXPERT_TENSOR] = EXPOSED_EXPERT,
  [GROUP_EXPERT_BLOCK] = EXPOSED_EXPERT,
};

void exchange_all_reduce(const LayerRun *r, Group g, void *x, gsize n, ExecType type, ExecReduce op)
{
  exposure_begin(r->exposure, r->s, exposed_of[g]);
  r->b->all_reduce(r->b, r->groups[g], r->s, x, n, type, op);
  exposure_end(r->exposure, r->s);
}

void exchange_all_gather(const LayerRun *r, Group g, const void *x, void *y, gsize n_each, ExecType type)
{
  exposure_begin(r->exposure, r->s, exposed_of[g]);
  r->b->all_gather(r->b, r->groups[g], r->s, x, y, n_each, type);
  exposure_end(r->exposure, r->s);
}

void exchange_reduce_scatter(const LayerRun *r, Group g, const void *x, void *y, gsize n_each, ExecType type)
{
  exposure_begin(r->exposure, r->s, exposed_of[g]);
  r->b->reduce_scatter(r->b, r->groups[g], r->s, x, y, n_each, type);
  exposure_end(r->exposure, r->s);
}

void exchange_all_to_all(const LayerRun *r, Group g, const void *x, void *y, ExecCounts n, ExecType type)
{
  exposure_begin(r->exposure, r->s, exposed_of[g]);
  r->b->all_to_all(r->b, r->groups[g], r->s, x, y, n, type);
  exposure_end(r->exposure, r->s);
}

void exchange_broadcast(const LayerRun *r, Group g, void *x, gsize n, ExecType type, int root)
{
  exposure_begin(r->exposure, r->s, exposed_of[g]);
  r->b->broadcast(r->b, r->groups[g], r->s, x, n, type, root);
  exposure_end(r->exposure, r->s);
}

void exchange_begin_beside(const LayerRun *r)
{
  r->b->event_record(r->b, r->ready, r->s);
  r->b->event_wait(r->b, r->ready, r->beside);
}

void exchange_end_beside(const LayerRun *r)
{
  r->b->event_record(r->b, r->arrived, r->beside);
}

void exchange_wait(const LayerRun *r, Group g)
{
  exposure_begin(r->exposure, r->s, exposed_of[g]);
  r->b->event_wait(r->b, r->arrived, r->s);
  exposure_end(r->exposure, r->s);
}
