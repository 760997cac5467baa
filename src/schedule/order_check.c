#include "base/error.h"
#include "schedule/all.h"

typedef struct {
  const Schedule *schedule;
  const ScheduleShape *shape;
  const ScheduleOrder *order;
  int stages;
  guint8 *seen;       /* bit of each pass by stage and micro-batch */
  guint8 *vocabulary; /* the same of S and T by rank and micro-batch */
  guint8 *copies;     /* bit of each weight copy by micro-batch */
} Check;

static guint8 bit(int n)
{
  return (guint8)(1 << n);
}

/* "rank 1, slot 7: forward of stage 1 for micro-batch 3 " and what is wrong with it. */
static gboolean wrong(const Check *c, int rank, int i, const char *what, GError **error)
{
  const Slot *slot = &c->order->slots[i];

  return input_error(error, "rank %d, pass %d: the %s of stage %d for micro-batch %d %s", rank,
                     i - c->order->first[rank], pass_names[slot->pass],
                     schedule_stage(c->schedule, c->shape, rank, slot->chunk), (int)slot->micro, what);
}

static gboolean check_range(const Check *c, int rank, int i, GError **error)
{
  const Slot *slot = &c->order->slots[i];

  if (slot->pass < PASS_COUNT && slot->chunk < c->shape->chunks && slot->micro < (guint)c->shape->micro)
    return TRUE;
  return input_error(error, "rank %d, pass %d: chunk %d, micro-batch %u: expected below %d chunks and %d micro-batches",
                     rank, i - c->order->first[rank], slot->chunk, slot->micro, c->shape->chunks, c->shape->micro);
}

static gboolean check_vocabulary(const Check *c, int rank, int i, GError **error)
{
  const Slot *slot = &c->order->slots[i];
  guint8 *seen = &c->vocabulary[(gsize)rank * c->shape->micro + slot->micro];

  if (!c->schedule->vocabulary)
    return wrong(c, rank, i, "is of a vocabulary that this schedule does not spread", error);
  if (*seen & bit(slot->pass))
    return wrong(c, rank, i, "comes a second time", error);
  if (slot->pass == PASS_VOCAB && !(*seen & bit(PASS_LOGITS)))
    return wrong(c, rank, i, "comes before its logits", error);
  *seen |= bit(slot->pass);
  return TRUE;
}

/* What is wrong with making a forward again; NULL if nothing. */
static const char *misplaced_again(gboolean backward, gboolean again)
{
  if (!again)
    return "is not needed: its activations are held";
  return backward ? "comes after its backward" : NULL;
}

/* What is wrong with a backward, or an input gradient; NULL if nothing. */
static const char *misplaced_backward(gboolean backward, guint8 before, gboolean again)
{
  if (backward)
    return "is a second backward";
  return again && !(before & bit(PASS_RECOMPUTE)) ? "comes before its forward is made again" : NULL;
}

/* What is wrong with a pass where these of its stage and micro-batch have come before; NULL if nothing. */
static const char *misplaced(Pass pass, guint8 before, gboolean again)
{
  gboolean backward = before & (bit(PASS_BACKWARD) | bit(PASS_INPUT));

  if (before & bit(pass))
    return "comes a second time";
  if (pass != PASS_FORWARD && !(before & bit(PASS_FORWARD)))
    return "comes before its forward";
  if (pass == PASS_WEIGHT && !(before & bit(PASS_INPUT)))
    return "comes before its input gradient";
  if (pass == PASS_RECOMPUTE)
    return misplaced_again(backward, again);
  return pass_is_backward(pass) ? misplaced_backward(backward, before, again) : NULL;
}

static gboolean check_pair(const Check *c, int rank, int i, GError **error)
{
  const Slot *slot = &c->order->slots[i], *other = slot + 1;

  if (!slot->paired)
    return TRUE;
  if (i + 1 == c->order->first[rank + 1] || other->paired)
    return wrong(c, rank, i, "is paired with no other pass", error);
  if (slot->pass != PASS_FORWARD || (other->pass != PASS_BACKWARD && other->pass != PASS_INPUT))
    return wrong(c, rank, i, "is in a pair, which must be a forward and then a backward", error);
  if (slot->chunk == other->chunk && slot->micro == other->micro)
    return wrong(c, rank, i, "is paired with its own backward", error);
  return TRUE;
}

static gboolean check_slot(const Check *c, int rank, int i, GError **error)
{
  const Slot *slot = &c->order->slots[i];
  int stage = schedule_stage(c->schedule, c->shape, rank, slot->chunk);

  if (pass_is_vocabulary(slot->pass))
    return check_vocabulary(c, rank, i, error);
  c->copies[slot->micro] |= bit(schedule_copy(c->schedule, slot->chunk));
  if (c->copies[slot->micro] == (bit(0) | bit(1)))
    return wrong(c, rank, i, "runs on one copy of the weights, other passes of it on the other copy", error);
  guint8 *seen = &c->seen[(gsize)stage * c->shape->micro + slot->micro];
  const char *what = misplaced(slot->pass, *seen, c->schedule->recompute && stage < c->stages - 1);
  if (what)
    return wrong(c, rank, i, what, error);
  *seen |= bit(slot->pass);
  return check_pair(c, rank, i, error);
}

static gboolean check_complete(const Check *c, GError **error)
{
  guint8 vocabulary = c->schedule->vocabulary ? bit(PASS_LOGITS) | bit(PASS_VOCAB) : 0;

  for (int micro = 0; micro < c->shape->micro; micro++) {
    for (int stage = 0; stage < c->stages; stage++) {
      guint8 seen = c->seen[(gsize)stage * c->shape->micro + micro];
      const char *missing = !(seen & bit(PASS_FORWARD)) ? "forward"
                            : !(seen & (bit(PASS_BACKWARD) | bit(PASS_INPUT))) ? "backward"
                            : (seen & bit(PASS_INPUT)) && !(seen & bit(PASS_WEIGHT)) ? "weight gradient" : NULL;
      if (missing)
        return input_error(error, "stage %d has no %s for micro-batch %d", stage, missing, micro);
    }
    for (int rank = 0; rank < c->shape->ranks; rank++)
      if (c->vocabulary[(gsize)rank * c->shape->micro + micro] != vocabulary)
        return input_error(error, "rank %d does not run both vocabulary passes for micro-batch %d", rank, micro);
  }
  return TRUE;
}

static gboolean check_progress(const Check *c, GError **error)
{
  const double unit[PASS_COUNT] = { 1, 2, 1, 1, 1, 1, 1 };
  ScheduleOrder *copy = g_new(ScheduleOrder, 1);

  copy->ranks = c->order->ranks;
  copy->first = g_memdup2(c->order->first, (c->order->ranks + 1) * sizeof *copy->first);
  copy->slots = g_memdup2(c->order->slots, c->order->first[c->order->ranks] * sizeof *copy->slots);
  g_autoptr(Replay) r = schedule_replay_order(c->schedule, c->shape, copy, unit, 1, error);
  return r != NULL;
}

gboolean schedule_order_check(const Schedule *schedule, const ScheduleShape *shape, const ScheduleOrder *order,
                              GError **error)
{
  int stages = schedule_stages(schedule, shape);
  g_autofree guint8 *seen = g_new0(guint8, (gsize)stages * shape->micro);
  g_autofree guint8 *vocabulary = g_new0(guint8, (gsize)shape->ranks * shape->micro);
  g_autofree guint8 *copies = g_new0(guint8, shape->micro);
  Check c = { schedule, shape, order, stages, seen, vocabulary, copies };

  if (order->ranks != shape->ranks)
    return input_error(error, "the order has %d ranks, expected %d", order->ranks, shape->ranks);
  for (int rank = 0; rank < shape->ranks; rank++)
    for (int i = order->first[rank]; i < order->first[rank + 1]; i++)
      if (!check_range(&c, rank, i, error) || !check_slot(&c, rank, i, error))
        return FALSE;
  return check_complete(&c, error) && check_progress(&c, error);
}
