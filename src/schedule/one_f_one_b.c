/* One forward, one backward: PipeDream-flush (arXiv 2006.09503), DAPPLE, DeepSpeed's
 * TrainSchedule, what SageMaker v1 calls "interleaved", and 1F1B whose layers are
 * spread unevenly to make up for the vocabulary ("1f1b-redistributed"). */
#include "schedule/all.h"

static void order(const ScheduleShape *shape, int rank, SlotList *slots)
{
  int m = shape->micro;
  int warmup = MIN(shape->ranks - rank - 1, m);

  for (int i = 0; i < warmup; i++)
    slot_add(slots, PASS_FORWARD, 0, i);
  for (int i = warmup; i < m; i++) {
    slot_add(slots, PASS_FORWARD, 0, i);
    slot_add(slots, PASS_BACKWARD, 0, i - warmup);
  }
  for (int i = m - warmup; i < m; i++)
    slot_add(slots, PASS_BACKWARD, 0, i);
}

static int peak(const ScheduleShape *shape, int rank)
{
  return MIN(shape->ranks - rank, shape->micro);
}

static int first(const ScheduleShape *shape, int chunk, int n)
{
  (void)chunk;
  return MIN(n, shape->micro);
}

const Schedule schedule_1f1b = {
  .name = "1f1b",
  .title = "1F1B",
  .aliases = "1F1B Schedule1F1B pipedream-flush dapple TrainSchedule deepspeed sagemaker-interleaved "
             "1f1b-redistributed",
  .min_chunks = 1,
  .max_chunks = 1,
  .order = order,
  .peak = peak,
  .ahead = peak,
  .first = first,
};
