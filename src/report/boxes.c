#include "report/boxes.h"

static gboolean same_pass(const BoxPass *a, const BoxPass *b)
{
  return a->pass == b->pass && a->chunk == b->chunk && a->micro == b->micro;
}

/* Whether a span goes on with the box: with its pass, or as the second of its pair. */
static gboolean continues(Box *box, const Span *s, const BoxPass *pass, double gap_s)
{
  if (box->n_passes == 0 || s->kind != TASK_PASS || s->start - box->end > gap_s)
    return FALSE;
  if (same_pass(&box->passes[box->n_passes - 1], pass))
    return TRUE;
  if (!box->paired || box->n_passes == 2)
    return FALSE;
  box->passes[box->n_passes++] = *pass;
  return TRUE;
}

static void add_span(GArray *lane, const Span *s, double gap_s)
{
  Box *last = lane->len > 0 ? &g_array_index(lane, Box, lane->len - 1) : NULL;
  BoxPass pass = { s->pass, s->chunk, s->micro };

  if (last && continues(last, s, &pass, gap_s)) {
    last->end = s->end;
  } else {
    Box box = { .start = s->start, .end = s->end, .kind = s->kind, .n_passes = s->kind == TASK_PASS,
                .passes = { pass }, .paired = s->paired };
    g_array_append_val(lane, box);
  }
}

void boxes_init(Boxes *b, const Trace *trace, double gap_s)
{
  *b = (Boxes) { .n_lanes = trace->n_rows * LANE_COUNT };
  b->lanes = g_new(GArray *, b->n_lanes);
  for (int i = 0; i < b->n_lanes; i++)
    b->lanes[i] = g_array_new(FALSE, FALSE, sizeof(Box));
  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *s = &g_array_index(trace->spans, Span, i);
    add_span(b->lanes[s->row * LANE_COUNT + s->lane], s, gap_s);
  }
}

void boxes_clear(Boxes *b)
{
  for (int i = 0; i < b->n_lanes; i++)
    g_array_unref(b->lanes[i]);
  g_clear_pointer(&b->lanes, g_free);
}
