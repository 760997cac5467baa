/* A trace as a section of a page: what ran as few kinds of bars, and each lane as numbers that refer to them. */
#include "report/page_sections.h"

#include "base/sort.h"
#include "report/timeline_panel.h"

#define SPANS_MAX 60000   /* of a page */
#define TICKS 1e8         /* of the time axis */
#define TEXT_COLUMNS 100  /* in Markdown */

typedef struct {
  Page *page;
  const Trace *trace;
  TimelineColors colors;
  double tick_s, end_s; /* end_s: of what is shown */
  GHashTable *bars;     /* by segment and chunk: index + 1 */
  GHashTable *sets;     /* by what a layer's pass runs: index + 1 */
  GPtrArray *bar_list;  /* Span: the first of alike ones, which differ in when they ran, for what and how long */
  GPtrArray *set_list;  /* GArray of PassOp */
} Timeline;

enum { OP_CLASS_COMPUTE, OP_CLASS_MEMORY, OP_CLASS_TENSOR, OP_CLASS_CONTEXT, OP_CLASS_EXPERT, OP_CLASS_DATA };

static int op_class(const Op *op)
{
  if (op->kind != OP_COLLECTIVE)
    return op->kind == OP_MEMORY ? OP_CLASS_MEMORY : OP_CLASS_COMPUTE;
  switch (op->collective.axis) {
  case AXIS_TENSOR: return OP_CLASS_TENSOR;
  case AXIS_CONTEXT: return OP_CLASS_CONTEXT;
  case AXIS_EXPERT: return OP_CLASS_EXPERT;
  default: return OP_CLASS_DATA;
  }
}

static gint64 ticks(const Timeline *t, double seconds)
{
  return (gint64)(seconds / t->tick_s + 0.5);
}

/* ---- bars ---- */

/* The index of a key's item in a list, where it stands from the first time on. */
static int index_of(GHashTable *known, gpointer key, GPtrArray *list, gconstpointer item)
{
  int index = GPOINTER_TO_INT(g_hash_table_lookup(known, key)) - 1;

  if (index >= 0)
    return index;
  g_ptr_array_add(list, (gpointer)item);
  g_hash_table_insert(known, key, GINT_TO_POINTER(list->len));
  return list->len - 1;
}

static int bar_of(Timeline *t, const Span *s)
{
  return index_of(t->bars, GSIZE_TO_POINTER((gsize)s->segment << 16 | s->chunk), t->bar_list, s);
}

static int set_of(Timeline *t, GArray *ops)
{
  return index_of(t->sets, ops, t->set_list, ops);
}

/* Its layers' passes in order, each the index of a set and its seconds; runs of alike ones with their number. */
static void put_inside(Timeline *t, const GArray *passes)
{
  JsonWriter *w = &t->page->writer;
  guint next;

  json_open(w, "inside", '[');
  for (guint i = 0; i < passes->len; i = next) {
    const LayerPass *pass = &g_array_index(passes, LayerPass, i);
    for (next = i + 1; next < passes->len && g_array_index(passes, LayerPass, next).ops == pass->ops;)
      next++;
    json_put_int(w, NULL, set_of(t, pass->ops));
    json_put_real(w, NULL, pass->seconds);
    json_put_int(w, NULL, next - i);
  }
  json_close(w, ']');
}

static void put_bar(Timeline *t, const Span *s)
{
  const Segment *segment = &g_array_index(t->trace->segments, Segment, s->segment);
  const BoxPass pass = { s->pass, s->chunk, s->micro };
  guint32 rgb = s->kind == TASK_PASS ? timeline_pass_color(&t->colors, &pass) : timeline_kind_color(s->kind);
  JsonWriter *w = &t->page->writer;

  json_open(w, NULL, '{');
  json_put_string(w, "name", s->kind == TASK_PASS ? timeline_pass_title(s->pass) : timeline_kind_title(s->kind));
  if (s->kind == TASK_PASS)
    json_put_int(w, "chunk", s->chunk);
  page_put_color(t->page, "color", rgb);
  page_put_color(t->page, "ink", timeline_ink(rgb));
  json_put_real(w, "layers", segment->n_layers);
  json_put_real(w, "first_layer", segment->first_layer);
  if (segment->comm_bytes > 0)
    json_put_real(w, "bytes", segment->comm_bytes);
  if (segment->comm_bytes > 0 && segment->group.size > 0)
    json_put_int(w, "ranks", segment->group.size);
  if (s->kind == TASK_PASS && segment->passes)
    put_inside(t, segment->passes);
  json_close(w, '}');
}

/* What the sets hold: name, class and seconds of each operator. */
static void put_sets(Timeline *t)
{
  JsonWriter *w = &t->page->writer;

  json_open(w, "sets", '[');
  for (guint i = 0; i < t->set_list->len; i++) {
    const GArray *ops = g_ptr_array_index(t->set_list, i);
    json_open(w, NULL, '[');
    for (guint op = 0; op < ops->len; op++) {
      const PassOp *described = &g_array_index(ops, PassOp, op);
      json_put_string(w, NULL, described->op.name);
      json_put_int(w, NULL, op_class(&described->op));
      json_put_real(w, NULL, described->seconds);
    }
    json_close(w, ']');
  }
  json_close(w, ']');
}

/* ---- rows ---- */

/* Spans of a row's lanes: each the gap behind the one before, how long, bar and micro-batch. */
static void put_row(Timeline *t, int row)
{
  GString *lanes[LANE_COUNT];
  gint64 end[LANE_COUNT] = { 0 };

  for (int lane = 0; lane < LANE_COUNT; lane++)
    lanes[lane] = g_string_new(NULL);
  for (guint i = 0; i < t->trace->spans->len; i++) {
    const Span *s = &g_array_index(t->trace->spans, Span, i);
    if (s->row != row || s->start >= t->end_s)
      continue;
    gint64 from = ticks(t, s->start), to = ticks(t, MIN(s->end, t->end_s));
    g_string_append_printf(lanes[s->lane], "%s%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%d,%u",
                           lanes[s->lane]->len ? "," : "", from - end[s->lane], to - from, bar_of(t, s), s->micro);
    end[s->lane] = to;
  }
  JsonWriter *w = &t->page->writer;
  g_autofree char *name = g_strdup_printf("stage %d", row);
  json_open(w, NULL, '{');
  json_put_string(w, "name", name);
  json_open(w, "lanes", '[');
  for (int lane = 0; lane < LANE_COUNT; lane++) {
    json_open(w, NULL, '[');
    g_string_append_len(w->text, lanes[lane]->str, lanes[lane]->len);
    json_close(w, ']');
    g_string_free(lanes[lane], TRUE);
  }
  json_close(w, ']');
  json_close(w, '}');
}

/* Up to when so few tasks of the rows start that a page holds them. */
static double shown_s(const Trace *trace, const int *rows, int n)
{
  g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(double));
  g_autofree gboolean *shown = g_new0(gboolean, trace->n_rows);

  for (int i = 0; i < n; i++)
    shown[rows[i]] = TRUE;
  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *s = &g_array_index(trace->spans, Span, i);
    if (shown[s->row])
      g_array_append_val(starts, s->start);
  }
  if (starts->len <= SPANS_MAX)
    return trace->end_s;
  g_array_sort(starts, sort_reals);
  return g_array_index(starts, double, SPANS_MAX);
}

/* So many rows that their spans are not too many, at least two. */
static int rows_that_fit(const Trace *trace)
{
  return CLAMP((int)(SPANS_MAX / MAX(trace->spans->len / (double)trace->n_rows, 1)), 2, TIMELINE_ROWS_MAX);
}

static void put_lists(Timeline *t)
{
  JsonWriter *w = &t->page->writer;

  json_open(w, "bars", '[');
  for (guint i = 0; i < t->bar_list->len; i++)
    put_bar(t, g_ptr_array_index(t->bar_list, i));
  json_close(w, ']');
  put_sets(t);
  json_put_strings(w, "lane_names", lane_names, LANE_COUNT);
}

static void put_timeline(Timeline *t, const int *rows, int n)
{
  JsonWriter *w = &t->page->writer;

  json_put_real(w, "tick_s", t->tick_s);
  json_put_real(w, "end_s", t->end_s);
  json_put_real(w, "step_s", t->trace->end_s);
  json_put_real(w, "fixed_s", t->trace->step_s);
  json_put_bool(w, "unitless", t->trace->unitless);
  json_put_int(w, "stages", t->trace->n_rows);
  json_open(w, "rows", '[');
  for (int i = 0; i < n; i++)
    put_row(t, rows[i]);
  json_close(w, ']');
  put_lists(t);
}

void page_timeline(Page *page, const char *heading, const Trace *trace, int fullest)
{
  Timeline t = { .page = page, .trace = trace, .tick_s = MAX(trace->end_s / TICKS, 1e-9) };
  g_autofree char *text = report_timeline(trace, TEXT_COLUMNS, FALSE);
  int n;
  g_autofree int *rows = panel_rows(trace, fullest, rows_that_fit(trace), &n);

  page_begin(page, "timeline", heading);
  t.end_s = shown_s(trace, rows, n);
  t.bars = g_hash_table_new(NULL, NULL);
  t.sets = g_hash_table_new(NULL, NULL);
  t.bar_list = g_ptr_array_new();
  t.set_list = g_ptr_array_new();
  timeline_colors_init(&t.colors, trace);
  put_timeline(&t, rows, n);
  page_fenced(page, text);
  page_end(page);
  g_hash_table_unref(t.bars);
  g_hash_table_unref(t.sets);
  g_ptr_array_unref(t.bar_list);
  g_ptr_array_unref(t.set_list);
}
