/*
 * DualPipe and DualPipeV (DeepSeek-AI 2024, arXiv 2412.19437 and its DualPipe
 * repository): forwards of one direction overlapped with backwards of the
 * other. DualPipe holds two copies of the model, one in each direction, with
 * half of the micro-batches each; DualPipeV is one half of it, folded into a V.
 * Both run the same eight steps, counted from the outermost rank inwards.
 */
#include "schedule/all.h"

typedef struct {
  SlotList *slots;
  int chunk[2];    /* of the direction that begins here, and of the other */
  int forward[2];  /* next micro-batch of each */
  int backward[2];
  Slot *pending;   /* weight gradients put off, in order */
  int n_pending, done;
} Steps;

static void add_forward(Steps *s, int way)
{
  slot_add(s->slots, PASS_FORWARD, s->chunk[way], s->forward[way]++);
}

static void add_backward(Steps *s, int way, gboolean split)
{
  Slot slot = { .pass = split ? PASS_INPUT : PASS_BACKWARD, .chunk = s->chunk[way], .micro = s->backward[way]++ };

  slot_append(s->slots, slot);
  if (split)
    s->pending[s->n_pending++] = slot;
}

static void add_weight(Steps *s)
{
  const Slot *slot = &s->pending[s->done++];
  slot_add(s->slots, PASS_WEIGHT, slot->chunk, slot->micro);
}

static void add_overlapped(Steps *s, int forward_way, int backward_way)
{
  slot_add_pair(s->slots, s->chunk[forward_way], s->forward[forward_way]++, s->chunk[backward_way],
                s->backward[backward_way]++);
}

/* Forwards until the steady state; `in` ranks lie further in, `out` further out, this one included. */
static void add_warmup(Steps *s, int in, int out)
{
  for (int i = 0; i < 2 * in; i++)
    add_forward(s, 0);
  for (int i = 0; i < out; i++) {
    add_forward(s, 0);
    add_forward(s, 1);
  }
  for (int i = 0; i < in; i++) {
    add_backward(s, 1, TRUE);
    add_weight(s);
    add_forward(s, 1);
  }
}

static void add_steady(Steps *s, int in, int times)
{
  for (int i = 0; i < times; i++) {
    if (i == 0 && in == 0) {
      add_forward(s, 0);
      add_backward(s, 1, FALSE);
    } else {
      add_overlapped(s, 0, 1);
    }
    add_overlapped(s, 1, 0);
  }
  for (int i = 0; i < in; i++) {
    add_backward(s, 1, FALSE);
    add_overlapped(s, 1, 0);
  }
}

static void add_cooldown(Steps *s, int in, int out)
{
  for (int i = 0; i < out; i++) {
    add_backward(s, 1, i > out / 2 || (i == out / 2 && out % 2 == 0));
    add_backward(s, 0, i >= out / 2);
  }
  for (int i = 0; i < in; i++) {
    add_weight(s);
    add_backward(s, 0, TRUE);
  }
  while (s->done < s->n_pending)
    add_weight(s);
}

/* `depth` ranks from the outermost to the innermost, `micro` micro-batches of each direction. */
static void add_steps(Steps *s, int depth, int position, int micro)
{
  int in = depth - position - 1, out = position + 1;
  g_autofree Slot *pending = g_new(Slot, 2 * micro);

  s->pending = pending;
  add_warmup(s, in, out);
  add_steady(s, in, micro - 2 * depth + out);
  add_cooldown(s, in, out);
}

static void order(const ScheduleShape *shape, int rank, SlotList *slots)
{
  int p = shape->ranks, half = shape->micro / 2;
  gboolean upper = rank >= p / 2;
  Steps s = { .slots = slots, .chunk = { upper, !upper }, .forward = { upper ? half : 0, upper ? 0 : half } };

  s.backward[0] = s.forward[0];
  s.backward[1] = s.forward[1];
  add_steps(&s, p / 2, MIN(rank, p - 1 - rank), half);
}

static int peak(const ScheduleShape *shape, int rank)
{
  (void)rank;
  return shape->ranks + 1;
}

const Schedule schedule_dualpipe = {
  .name = "dualpipe",
  .title = "DualPipe",
  .min_chunks = 2,
  .max_chunks = 2,
  .placement = PLACE_TWO_WAY,
  .split = TRUE,
  .pairs = TRUE,
  .least_micro = 2,
  .order = order,
  .peak = peak,
};

static void order_v(const ScheduleShape *shape, int rank, SlotList *slots)
{
  Steps s = { .slots = slots, .chunk = { 0, 1 } };
  add_steps(&s, shape->ranks, rank, shape->micro);
}

static int peak_v(const ScheduleShape *shape, int rank)
{
  (void)rank;
  return 2 * shape->ranks + 1;
}

const Schedule schedule_dualpipev = {
  .name = "dualpipev",
  .title = "DualPipeV",
  .aliases = "DualPipeV ScheduleDualPipeV",
  .min_chunks = 2,
  .max_chunks = 2,
  .placement = PLACE_ZIGZAG,
  .split = TRUE,
  .pairs = TRUE,
  .least_micro = 2,
  .order = order_v,
  .peak = peak_v,
};
