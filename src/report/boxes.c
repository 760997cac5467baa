#include "report/boxes.h"

static gboolean continues(const Span *before, const Span *s, double gap_s)
{
  return before->kind == TASK_PASS && s->kind == TASK_PASS && before->pass == s->pass && before->chunk == s->chunk &&
         before->micro == s->micro && s->start - before->end <= gap_s;
}

static void add_span(GArray *lane, const Span *s, double gap_s)
{
  Span *last = lane->len > 0 ? &g_array_index(lane, Span, lane->len - 1) : NULL;

  if (last && continues(last, s, gap_s)) {
    last->end = s->end;
    last->exposed_tensor_s += s->exposed_tensor_s;
  } else {
    g_array_append_val(lane, *s);
  }
}

void boxes_init(Boxes *b, const Trace *trace, double gap_s)
{
  *b = (Boxes) { .n_lanes = trace->n_rows * LANE_COUNT };
  b->lanes = g_new(GArray *, b->n_lanes);
  for (int i = 0; i < b->n_lanes; i++)
    b->lanes[i] = g_array_new(FALSE, FALSE, sizeof(Span));
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
