#include "main.h"

#include "base/csv.h"
#include "base/error.h"
#include "base/files.h"
#include "report/page.h"
#include "report/schedule_trace.h"
#include "report_run.h"

#include <glib/gstdio.h>
#include <math.h>

#define HOSTILE "</script><script>alert(1)</script> & <b>|`* \"x\"\n```\n"

/* What a page writes under a name that ends so. */
static char *written(const Page *page, const char *name, gsize *length)
{
  g_autofree char *folder = g_dir_make_tmp("tdp-XXXXXX", NULL), *path = g_build_filename(folder, name, NULL);
  GError *error = NULL;

  ck_assert_msg(page_check(path, &error) && page_write(page, path, &error), "%s", error ? error->message : "");
  char *text = files_read(path, length, &error);
  g_remove(path);
  g_rmdir(folder);
  ck_assert_ptr_nonnull(text);
  return text;
}

/* The document that the page's script reads. */
static JsonDoc *data_of(const char *html)
{
  static const char open[] = "<script type=\"application/json\" id=\"data\">";
  const char *from = strstr(html, open), *to = from ? strstr(from, "</script>") : NULL;
  GError *error = NULL;

  ck_assert_ptr_nonnull(to);
  from += strlen(open);
  JsonDoc *doc = json_parse(from, to - from, "page", &error);
  ck_assert_msg(doc != NULL, "%s", error ? error->message : "");
  return doc;
}

static int count(const char *text, const char *part)
{
  int n = 0;

  for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
    n++;
  return n;
}

static Page *page_of(const Run *r)
{
  Page *page = page_new("a step", "a plan");

  page_answer(page, &r->result);
  page_step(page, &r->result, r->trace);
  page_inputs(page, &r->result);
  return page;
}

/* Texts end no element, break no table and no fence, and come back from the data as they were. */
START_TEST(hostile_texts_stay_texts)
{
  g_autoptr(Page) page = page_new(HOSTILE, HOSTILE);
  g_autoptr(Table) table = table_new("<name|value");
  gsize length;

  table_add(table, "%s", HOSTILE);
  table_take(table, g_strdup("a|b"));
  page_table(page, "table", HOSTILE, table);
  page_text(page, "text", HOSTILE);
  g_autofree char *html = written(page, "a.html", &length), *markdown = written(page, "a.md", &length);
  ck_assert_int_eq(count(html, "<script"), 2);
  ck_assert_ptr_null(strstr(html, "<b>"));
  g_autoptr(JsonDoc) doc = data_of(html);
  ck_assert_str_eq(json_get(json_root(doc), "title")->valuestring, HOSTILE);
  const cJSON *sections = json_get(json_root(doc), "sections"), *rows = json_get(sections->child, "rows");
  ck_assert_str_eq(rows->child->next->child->valuestring, HOSTILE);
  ck_assert_str_eq(json_get(sections->child->next, "text")->valuestring, HOSTILE);
  ck_assert_ptr_nonnull(strstr(markdown, "a\\|b |"));
  for (const char *c = markdown; c < strstr(markdown, "## text"); c++)
    ck_assert_msg(*c != '<' || c[-1] == '\\', "%s", c);
  ck_assert_ptr_nonnull(strstr(markdown, "\n````\n"));
}
END_TEST

/* Nothing is loaded from anywhere. */
START_TEST(page_stands_alone)
{
  Run r = run_new((Shape) { 2, 4, 1, 2, 8, TRUE });
  g_autoptr(Page) page = page_of(&r);
  gsize length;
  g_autofree char *html = written(page, "a.html", &length);

  ck_assert_int_eq(count(html, "://"), 1); /* the name of SVG's elements */
  ck_assert_ptr_nonnull(strstr(html, "\"http://www.w3.org/2000/svg\""));
  ck_assert_ptr_null(strstr(html, " src="));
  ck_assert_ptr_null(strstr(html, "@import"));
  ck_assert_ptr_null(strstr(html, "url("));
  run_clear(&r);
}
END_TEST

static double real(const cJSON *object, const char *key)
{
  const cJSON *item = json_get(object, key);

  ck_assert_msg(cJSON_IsNumber(item), "%s", key);
  return item->valuedouble;
}

static const cJSON *section_of(const JsonDoc *doc, const char *kind)
{
  for (const cJSON *s = json_get(json_root(doc), "sections")->child; s; s = s->next)
    if (g_str_equal(json_get(s, "kind")->valuestring, kind))
      return s;
  ck_abort_msg("no %s", kind);
}

/* Rows are points of their series, those without a number are none; a single row, or one that draws nothing, has no
 * picture. Markdown has the table alone. */
START_TEST(answers_are_drawn)
{
  static const AnswerColumn columns[] = { { "kind", "<kind", CELL_TEXT }, { "gpus", "GPUs", CELL_INT },
                                          { "s", "step", CELL_SECONDS }, { "plan", "<plan", CELL_TEXT } };
  const double steps[] = { 8, 4, NAN, 8, 9 };
  g_autoptr(Answer) a = answer_new(columns, G_N_ELEMENTS(columns));
  g_autoptr(Page) page = page_new("asked", HOSTILE), none = page_new("asked", "");
  gsize length;

  for (int i = 0; i < 5; i++) {
    answer_add_text(a, i < 3 ? "strong" : "weak");
    answer_add(a, 1 << i);
    answer_add(a, steps[i]);
    answer_add_text(a, HOSTILE);
  }
  page_asked(none, a);
  answer_draw(a, 0, 1, 2);
  page_asked(page, a);
  g_autofree char *html = written(page, "a.html", &length), *plain = written(none, "a.html", &length);
  g_autofree char *markdown = written(page, "a.md", &length);
  g_autoptr(JsonDoc) doc = data_of(html);
  const cJSON *curve = json_get(section_of(doc, "table"), "curve"), *series = json_get(curve, "series")->child;
  ck_assert_ptr_null(strstr(plain, "\"curve\""));
  ck_assert_ptr_null(strstr(markdown, "curve"));
  ck_assert_str_eq(json_get(json_get(curve, "y"), "unit")->valuestring, "seconds");
  ck_assert_str_eq(json_get(json_get(curve, "x"), "title")->valuestring, "GPUs");
  ck_assert_str_eq(json_get(series, "name")->valuestring, "strong");
  const cJSON *points = json_get(series, "points");
  ck_assert_int_eq(cJSON_GetArraySize(points), 6);
  ck_assert(cJSON_GetArrayItem(points, 3)->valuedouble == 2 && cJSON_GetArrayItem(points, 4)->valuedouble == 4);
  ck_assert_str_eq(cJSON_GetArrayItem(points, 5)->valuestring, HOSTILE);
  ck_assert_int_eq(cJSON_GetArraySize(json_get(series->next, "points")), 6);
  ck_assert_ptr_null(series->next->next);
}
END_TEST

/* Parts of a line stand behind spaces, which Markdown keeps as entities and the page as they are. */
START_TEST(parts_are_indented)
{
  g_autoptr(Page) page = page_new("table", "");
  g_autoptr(Table) table = table_new("<|");
  gsize length;

  table_add(table, "whole");
  table_add(table, "2");
  table_add(table, "  part");
  table_add(table, "1");
  page_table(page, "Parts", NULL, table);
  g_autofree char *html = written(page, "a.html", &length), *markdown = written(page, "a.md", &length);
  ck_assert_ptr_nonnull(strstr(markdown, "|whole |2 |\n|&nbsp;&nbsp;part |1 |\n"));
  ck_assert_ptr_nonnull(strstr(html, "\"  part\""));
}
END_TEST

/* Every span of the trace stands in its lane, when it ran, with its micro-batch. */
START_TEST(timeline_has_every_span)
{
  Run r = run_new((Shape) { 2, 4, 2, 2, 8, TRUE });
  g_autoptr(Page) page = page_of(&r);
  gsize length;
  g_autofree char *html = written(page, "a.html", &length);
  g_autoptr(JsonDoc) doc = data_of(html);
  const cJSON *timeline = section_of(doc, "timeline"), *rows = json_get(timeline, "rows");
  double tick_s = real(timeline, "tick_s"), at[4][LANE_COUNT] = { { 0 } };
  const cJSON *next[4][LANE_COUNT];

  ck_assert_int_eq(cJSON_GetArraySize(rows), 4);
  ck_assert_double_eq(real(timeline, "end_s"), r.trace->end_s);
  for (int row = 0; row < 4; row++)
    for (int lane = 0; lane < LANE_COUNT; lane++)
      next[row][lane] = cJSON_GetArrayItem(json_get(cJSON_GetArrayItem(rows, row), "lanes"), lane)->child;
  for (guint i = 0; i < r.trace->spans->len; i++) {
    const Span *s = &g_array_index(r.trace->spans, Span, i);
    const cJSON **item = &next[s->row][s->lane];
    double *now = &at[s->row][s->lane];
    ck_assert_ptr_nonnull(*item);
    *now += (*item)->valuedouble;
    ck_assert_double_eq_tol(*now * tick_s, s->start, tick_s);
    *now += (*item)->next->valuedouble;
    ck_assert_double_eq_tol(*now * tick_s, s->end, tick_s);
    ck_assert_int_eq((*item)->next->next->next->valueint, s->micro);
    *item = (*item)->next->next->next->next;
  }
  for (int row = 0; row < 4; row++)
    for (int lane = 0; lane < LANE_COUNT; lane++)
      ck_assert_ptr_null(next[row][lane]);
  run_clear(&r);
}
END_TEST

/* A step of very many passes is shown from its beginning, and the page says so. */
START_TEST(long_steps_are_cut)
{
  Run r = run_new((Shape) { 1, 4, 1, 1, 20000, TRUE });
  g_autoptr(Page) page = page_of(&r);
  gsize length;
  g_autofree char *html = written(page, "a.html", &length);
  g_autoptr(JsonDoc) doc = data_of(html);
  const cJSON *timeline = section_of(doc, "timeline");

  ck_assert_uint_lt(length, 3 << 20);
  ck_assert_double_lt(real(timeline, "end_s"), real(timeline, "step_s"));
  ck_assert_double_gt(real(timeline, "end_s"), 0.1 * real(timeline, "step_s"));
  run_clear(&r);
}
END_TEST

/* Memory never exceeds the peak, which some point has. */
START_TEST(memory_reaches_its_peak)
{
  Run r = run_new((Shape) { 2, 4, 1, 2, 8, TRUE });
  g_autoptr(Page) page = page_of(&r);
  gsize length;
  g_autofree char *html = written(page, "a.html", &length);
  g_autoptr(JsonDoc) doc = data_of(html);
  const cJSON *rows = json_get(section_of(doc, "memory"), "rows");

  ck_assert_int_eq(cJSON_GetArraySize(rows), 4);
  for (const cJSON *row = rows->child; row; row = row->next) {
    const cJSON *parts = json_get(row, "parts"), *points = json_get(row, "points");
    double still = 0, most = 0;
    for (int i = 0; i < 4; i++)
      still += cJSON_GetArrayItem(parts, i)->valuedouble;
    for (const cJSON *p = points->child; p; p = p->next->next->next)
      most = MAX(most, still + p->next->valuedouble + p->next->next->valuedouble);
    ck_assert_double_eq_tol(most / real(row, "peak_bytes"), 1, 1e-6);
  }
  run_clear(&r);
}
END_TEST

START_TEST(other_endings_are_refused)
{
  GError *error = NULL;

  ck_assert(!page_check("report.pdf", &error));
  ck_assert_str_eq(error->message, "--report: report.pdf: expected a name that ends in .html or .md");
  ck_assert_int_eq(error->code, TDP_ERROR_INPUT);
  g_clear_error(&error);
  ck_assert(!page_check("no/such/folder/report.html", &error));
  ck_assert_int_eq(error->code, TDP_ERROR_RUNTIME);
  g_clear_error(&error);
}
END_TEST

/* A schedule's trace has each of its passes once, busy as long as the replay says, and no two at once. */
START_TEST(schedules_become_traces)
{
  const Schedule *s = schedules[_i];
  ScheduleShape shape = { .ranks = 4, .micro = 8, .chunks = MAX(s->min_chunks, 1) };
  double times[PASS_COUNT], busiest = 0;

  ck_assert(schedule_check(s, &shape, NULL));
  shape_times(&shape, times);
  times[PASS_LOGITS] = times[PASS_VOCAB] = 0.5;
  g_autoptr(Replay) replay = schedule_replay(s, &shape, times, 1);
  g_autoptr(Trace) t = schedule_trace(replay);
  ck_assert_uint_eq(t->spans->len, replay->order->first[4]);
  ck_assert_double_eq_tol(t->end_s, replay->makespan, 1e-9);
  g_autofree double *bubbles = trace_bubbles(t);
  for (int row = 0; row < 4; row++) {
    ck_assert_double_ge(bubbles[row], -1e-9);
    busiest = MAX(busiest, (1 - bubbles[row]) * t->end_s);
  }
  ck_assert_double_eq_tol(busiest, replay->busy, 1e-9);
  for (guint i = 1; i < t->spans->len; i++) {
    const Span *a = &g_array_index(t->spans, Span, i - 1), *b = a + 1;
    ck_assert(a->row != b->row || a->end <= b->start + 1e-9);
  }
}
END_TEST

#define SCHEDULES 21

START_TEST(all_schedules_are_tried)
{
  ck_assert_ptr_nonnull(schedules[SCHEDULES - 1]);
  ck_assert_ptr_null(schedules[SCHEDULES]);
}
END_TEST

TEST_LOOPS("page",
           { hostile_texts_stay_texts },
           { page_stands_alone },
           { timeline_has_every_span },
           { long_steps_are_cut },
           { answers_are_drawn },
           { parts_are_indented },
           { memory_reaches_its_peak },
           { other_endings_are_refused },
           { all_schedules_are_tried },
           { schedules_become_traces, SCHEDULES })
