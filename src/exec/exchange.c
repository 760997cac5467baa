/* Collectives inside passes. */
#include "exec/layer.h"

const Exposed exposed_of[GROUP_COUNT] = {
  [GROUP_TENSOR] = EXPOSED_TENSOR, [GROUP_TENSOR_BESIDE] = EXPOSED_TENSOR,
  [GROUP_CONTEXT] = EXPOSED_CONTEXT, [GROUP_EXPERT] = EXPOSED_EXPERT, [GROUP_EXPERT_TENSOR] = EXPOSED_EXPERT,
  [GROUP_EXPERT_BLOCK] = EXPOSED_EXPERT,
};

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
