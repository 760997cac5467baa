/* What of a plan the ops of its layers depend on. */
#include "op/op.h"

#include "schedule/all.h"

#include <string.h>

/* Batch, order along the pipeline, and what becomes of a step's states but for what layers say of them. */
static void drop_step(Plan *v)
{
  Overlap overlap = { .tensor = v->overlap.tensor, .experts = v->overlap.experts, .exchange = v->overlap.exchange };
  double persistence = v->sharding.persistence;

  v->global_batch = v->micro_group = v->shard_group = 0;
  v->balanced = FALSE;
  v->overlap = overlap;
  memset(v->types, 0, sizeof v->types);
  memset(&v->offload, 0, sizeof v->offload);
  memset(&v->sharding, 0, sizeof v->sharding);
  v->sharding.persistence = persistence;
  if (optimizer_kind(&v->optimizer)->orthogonal) /* its vectors have states of their own formats */
    return;
  v->optimizer.remainders = FALSE;
  v->optimizer.formats[STATE_EXP_AVG] = v->optimizer.formats[STATE_EXP_AVG_SQ] = FORMAT_USUAL;
}

/* ZeRO-3 is seen by its copies, and where small tensors stay whole. */
static gboolean sees_zero(const Plan *p)
{
  return p->zero == 3 && (p->framework->shard_copy_bytes > 0 || p->sharding.persistence > 0);
}

/* Stages are seen by what a rank with both ends of the model holds once; the rest of them where recomputation counts
 * the layers of each, and where all ranks share the vocabulary. */
static gboolean sees_stages(const Plan *p)
{
  return p->schedule->vocabulary || (p->recompute == RECOMPUTE_FULL && recompute_counts(&p->scope));
}

static void drop_stages(Plan *v)
{
  int ranks = plan_ends_meet(v) ? 1 : 2;

  v->schedule = &schedule_1f1b;
  v->pp = ranks;
  v->vpp = 1;
  v->split_rank = 0;
  memset(&v->split, 0, sizeof v->split);
}

void op_view(const Plan *p, Plan *v)
{
  gboolean zero = sees_zero(p);

  *v = *p;
  if (!sees_stages(p))
    drop_stages(v);
  drop_step(v);
  v->zero = zero ? 3 : 0;
  v->pipeline_inner = FALSE; /* groups inside passes have the same shape in either order of ranks (mesh.h) */
  if (!zero)
    v->dp = 1;
  else if (!plan_experts_apart(p)) /* whether there are replicas */
    v->dp = v->cp > 1 ? 1 : MIN(v->dp, 2);
}
