/*
 * Varuna (Athlur et al. 2022, arXiv 2111.04007): the order comes from running
 * the pipeline with passes of equal length, where a free stage takes a backward
 * first, then a recompute, then a forward. Input and weight gradient take one
 * quantum each; a stage makes its forward again while the stage behind is in
 * the second half of its backward. The last stage holds what it computed.
 */
#include "schedule/all.h"

enum { QUEUE_WEIGHT, QUEUE_BACKWARD, QUEUE_RECOMPUTE, QUEUE_FORWARD, N_QUEUES }; /* by precedence */

/* Each micro-batch passes each queue once, in order of number. */
typedef struct {
  int put, taken;
} Line;

typedef struct {
  Line lines[N_QUEUES];
} Stage;

static int serve(Stage *stage)
{
  for (int i = 0; i < N_QUEUES; i++)
    if (stage->lines[i].taken < stage->lines[i].put) {
      stage->lines[i].taken++;
      return i;
    }
  return -1;
}

/* What a pass of a stage lets others do. */
static void release(Stage *stages, int n, int stage, int queue)
{
  switch (queue) {
  case QUEUE_FORWARD:
    if (stage < n - 1)
      stages[stage + 1].lines[QUEUE_FORWARD].put++;
    else
      stages[stage].lines[QUEUE_BACKWARD].put++;
    break;
  case QUEUE_RECOMPUTE:
    stages[stage].lines[QUEUE_BACKWARD].put++;
    break;
  case QUEUE_BACKWARD:
    stages[stage].lines[QUEUE_WEIGHT].put++;
    if (stage > 0)
      stages[stage - 1].lines[QUEUE_RECOMPUTE].put++;
    break;
  default:
    break;
  }
}

static void order_all(const ScheduleShape *shape, SlotList *slots)
{
  static const Pass passes[N_QUEUES] = { PASS_WEIGHT, PASS_BACKWARD, PASS_RECOMPUTE, PASS_FORWARD };
  int p = shape->ranks;
  g_autofree Stage *stages = g_new0(Stage, p);
  g_autofree int *served = g_new(int, p);
  int left = shape->micro; /* weight gradients of the first stage, the last to end */

  stages[0].lines[QUEUE_FORWARD].put = shape->micro;
  while (left > 0) {
    for (int i = 0; i < p; i++) {
      served[i] = serve(&stages[i]);
      if (served[i] > QUEUE_WEIGHT)
        slot_add(&slots[i], passes[served[i]], 0, stages[i].lines[served[i]].taken - 1);
    }
    for (int i = 0; i < p; i++)
      release(stages, p, i, served[i]);
    left -= served[0] == QUEUE_WEIGHT;
  }
}

const Schedule schedule_varuna = {
  .name = "varuna",
  .title = "Varuna",
  .min_chunks = 1,
  .max_chunks = 1,
  .recompute = TRUE,
  .opportunistic = TRUE,
  .order_all = order_all,
};
