/*
 * 1F1B with a vocabulary spread over all ranks (Yeung et al. 2024, arXiv
 * 2411.05288). Every rank runs the passes S (logits and softmax of its share)
 * and T (their gradients) of every micro-batch between the last stage's forward
 * and backward:
 *
 *   vocab-1      F, broadcast, S, barrier, T, barrier, B: the sums of the
 *                softmax meet behind S, the gradients behind T
 *   vocab-2      F, broadcast, S, barrier, B: S makes both parts of the input's
 *                gradient, so one barrier does; T makes the weights' gradient
 *                and runs whenever it suits, here before the next S
 *   interlaced   as vocab-1, all ranks run S and T of a micro-batch as one block
 *                at the same time (nnScaler's way, as the paper compares it)
 *
 * Each barrier holds a micro-batch for one repeating interval more, so the
 * ranks hold one micro-batch more for each. While the first backwards travel
 * back through the ranks, these run vocabulary passes ahead; how many, and
 * whether vocabulary passes come before or behind the forward afterwards,
 * follows from how much longer a backward takes than a forward.
 */
#include "schedule/all.h"

typedef struct {
  SlotList *slots;
  int micro;
  int forward, backward, step;
} Build;

static void add_forward(Build *b)
{
  if (b->forward < b->micro)
    slot_add(b->slots, PASS_FORWARD, 0, b->forward++);
}

static void add_backward(Build *b)
{
  slot_add(b->slots, PASS_BACKWARD, 0, b->backward++);
}

/* T of the micro-batch before and S of the next. */
static void add_step(Build *b)
{
  if (b->step > 0 && b->step <= b->micro)
    slot_add(b->slots, PASS_VOCAB, 0, b->step - 1);
  if (b->step < b->micro)
    slot_add(b->slots, PASS_LOGITS, 0, b->step);
  b->step++;
}

typedef struct {
  int ahead;               /* vocabulary steps before the first backward */
  gboolean before_forward; /* afterwards: backward, vocabulary, forward; else vocabulary last */
} Turn;

/*
 * A rank's backward begins one backward before that of the rank before it, its
 * forward one forward after. From the last rank up, each rank's vocabulary step
 * comes a forward earlier in its interval, until it would fall into the
 * backward; then it moves behind the forward for a rank.
 */
static Turn turn_of(const ScheduleShape *shape, int rank)
{
  double time[PASS_COUNT], offset = 0;
  Turn turn = { 0, TRUE };

  shape_times(shape, time);
  for (int r = shape->ranks - 1; r > rank; r--) {
    gboolean before = turn.before_forward;
    if (!before) {
      offset += time[PASS_BACKWARD] - time[PASS_FORWARD];
      turn.before_forward = TRUE;
    } else if (offset - time[PASS_FORWARD] >= -time[PASS_BACKWARD]) {
      offset -= time[PASS_FORWARD];
    } else {
      turn.before_forward = FALSE;
    }
    turn.ahead += before;
  }
  return turn;
}

static void order_with(const ScheduleShape *shape, int rank, int barriers, SlotList *slots)
{
  Build b = { .slots = slots, .micro = shape->micro };
  Turn turn = turn_of(shape, rank);

  for (int i = 0; i < shape->ranks - rank; i++)
    add_forward(&b);
  for (int i = 0; i < barriers; i++) {
    add_step(&b);
    add_forward(&b);
  }
  for (int i = 0; i < turn.ahead; i++)
    add_step(&b);
  while (b.backward < b.micro) {
    add_backward(&b);
    if (turn.before_forward)
      add_step(&b);
    add_forward(&b);
    if (!turn.before_forward)
      add_step(&b);
  }
  while (b.step <= b.micro)
    add_step(&b);
}

static void order_1(const ScheduleShape *shape, int rank, SlotList *slots)
{
  order_with(shape, rank, 2, slots);
}

static void order_2(const ScheduleShape *shape, int rank, SlotList *slots)
{
  order_with(shape, rank, 1, slots);
}

static int peak_1(const ScheduleShape *shape, int rank)
{
  return MIN(shape->ranks - rank + 2, shape->micro);
}

static int peak_2(const ScheduleShape *shape, int rank)
{
  return MIN(shape->ranks - rank + 1, shape->micro);
}

static void add_block(Build *b)
{
  if (b->step == b->micro)
    return;
  slot_add(b->slots, PASS_LOGITS, 0, b->step);
  slot_add(b->slots, PASS_VOCAB, 0, b->step++);
}

static int interlaced_warmup(const ScheduleShape *shape, int rank)
{
  return MIN(shape->ranks * 3 / 2 - rank, shape->micro);
}

/* Neighbours take forward and backward in turns, so that a forward passes two ranks in an interval. */
static void order_interlaced(const ScheduleShape *shape, int rank, SlotList *slots)
{
  Build b = { .slots = slots, .micro = shape->micro };
  int p = shape->ranks, warmup = interlaced_warmup(shape, rank), behind = MIN(p - rank, shape->micro);
  int waiting = MAX(0, warmup - behind - (p - rank - 1) / 2);
  gboolean forward_first = rank % 2 == p % 2;

  for (int i = 0; i < warmup; i++)
    add_forward(&b);
  for (int i = 0; i < behind; i++)
    add_block(&b);
  for (int i = 0; i < waiting; i++) {
    add_backward(&b);
    add_block(&b);
  }
  while (b.backward < b.micro) {
    if (forward_first)
      add_forward(&b);
    add_backward(&b);
    if (!forward_first)
      add_forward(&b);
    add_block(&b);
  }
}

static int peak_interlaced(const ScheduleShape *shape, int rank)
{
  return interlaced_warmup(shape, rank);
}

const Schedule schedule_vocab_1 = {
  .name = "vocab-1",
  .title = "1F1B, vocabulary spread, two barriers",
  .min_chunks = 1,
  .max_chunks = 1,
  .vocabulary = 2,
  .by_time = TRUE,
  .order = order_1,
  .peak = peak_1,
};

const Schedule schedule_vocab_2 = {
  .name = "vocab-2",
  .title = "1F1B, vocabulary spread, one barrier",
  .min_chunks = 1,
  .max_chunks = 1,
  .vocabulary = 1,
  .by_time = TRUE,
  .order = order_2,
  .peak = peak_2,
};

const Schedule schedule_vocab_interlaced = {
  .name = "vocab-interlaced",
  .title = "1F1B, vocabulary spread, interlaced",
  .min_chunks = 1,
  .max_chunks = 1,
  .vocabulary = 2,
  .order = order_interlaced,
  .peak = peak_interlaced,
};
