#include "main.h"
#include "traced.h"

#include "base/json.h"
#include "report/measured.h"

/* A trace by hand: two rows, spans as given. */
typedef struct {
  int row, lane, kind;
  double start, end;
  int cause;
  double exposed;
} Given;

static Trace *make(const Given *spans, int n, double step_s)
{
  Trace *t = traced(2, &(Segment) { .hardware_flops = 6 });

  for (int i = 0; i < n; i++) {
    Span s = { .start = spans[i].start, .end = spans[i].end, .row = spans[i].row, .lane = spans[i].lane,
               .kind = spans[i].kind, .cause = spans[i].cause, .exposed_tensor_s = spans[i].exposed };
    g_array_append_val(t->spans, s);
    t->end_s = MAX(t->end_s, s.end);
  }
  t->step_s = step_s;
  t->end_s += step_s;
  return t;
}

/* Row 0 computes 0-4 (1 s exposed) and 6-8, waits 4-5 for nothing, 5-6 for a
 * send; its reduction runs 7-10, the optimizer 10-11; 0.5 s are fixed. */
static const Given spans[] = {
  { 0, LANE_COMPUTE, TASK_PASS, 0, 4, -1, 1 },
  { 1, LANE_COMPUTE, TASK_PASS, 0, 5, -1, 0 },
  { 1, LANE_PIPELINE, TASK_SEND, 5, 6, 1, 0 },
  { 0, LANE_COMPUTE, TASK_PASS, 6, 8, 2, 0 },
  { 0, LANE_DATA, TASK_REDUCE, 7, 10, 3, 0 },
  { 0, LANE_COMPUTE, TASK_OPTIMIZER, 10, 11, 4, 0 },
};

START_TEST(breakdown_by_hand)
{
  g_autoptr(Trace) t = make(spans, G_N_ELEMENTS(spans), 0.5);
  Metrics m;

  trace_metrics(t, &m);
  ck_assert_int_eq(m.critical_row, 0);
  ck_assert_double_eq(m.iteration_s, 11.5);
  ck_assert_double_eq(m.compute_s, 5);
  ck_assert_double_eq(m.tensor_comm_s, 1);
  ck_assert_double_eq(m.pipeline_comm_s, 1);
  ck_assert_double_eq(m.idle_s, 1);
  ck_assert_double_eq(m.data_comm_s, 2);
  ck_assert_double_eq(m.optimizer_s, 1.5);
  g_autofree double *bubbles = trace_bubbles(t), *computes = trace_computes(t);
  /* the pipeline ends at 8: row 0 idles 2 of it, row 1 idles 3 */
  ck_assert_double_eq(m.bubble_fraction, 5.0 / 16);
  ck_assert_double_eq(bubbles[1], 3.0 / 8);
  ck_assert_double_eq(computes[0], 5);
  ck_assert_double_eq(computes[1], 5);
  ck_assert_double_eq(m.hardware_flops, 9);
}
END_TEST

/* Data-parallel communication beside a wait for a send is not what was waited for. */
START_TEST(a_send_is_not_charged_to_data)
{
  Given waits[] = {
    { 0, LANE_COMPUTE, TASK_PASS, 0, 4, -1, 0 },
    { 1, LANE_PIPELINE, TASK_SEND, 4, 6, -1, 0 },
    { 0, LANE_DATA, TASK_REDUCE, 4, 6, 0, 0 },
    { 0, LANE_COMPUTE, TASK_PASS, 6, 8, 1, 0 },
  };
  g_autoptr(Trace) t = make(waits, G_N_ELEMENTS(waits), 0);
  Metrics m;

  trace_metrics(t, &m);
  ck_assert_double_eq(m.pipeline_comm_s, 2);
  ck_assert_double_eq(m.data_comm_s, 0);
}
END_TEST

/* A stage waits for the norm, which stands on another's lane, wherever in the trace that is. */
START_TEST(all_wait_for_the_norm)
{
  static const Given norm = { 0, LANE_DATA, TASK_NORM, 8, 10, -1, 0 };
  static const Given others[] = {
    { 0, LANE_COMPUTE, TASK_PASS, 0, 4, -1, 0 },      { 1, LANE_COMPUTE, TASK_PASS, 0, 5, -1, 0 },
    { 1, LANE_DATA, TASK_REDUCE, 6, 7, -1, 0 },       { 0, LANE_COMPUTE, TASK_OPTIMIZER, 10, 11, -1, 0 },
    { 1, LANE_COMPUTE, TASK_OPTIMIZER, 10, 11, -1, 0 }, { 1, LANE_DATA, TASK_GATHER, 11, 12, -1, 0 },
  };
  enum { N = G_N_ELEMENTS(others) };

  for (int at = 0; at <= N; at++) {
    Given all[N + 1];
    for (int i = 0; i <= N; i++)
      all[i] = i == at ? norm : others[i - (i > at)];
    g_autoptr(Trace) t = make(all, N + 1, 0);
    Metrics m;

    trace_metrics(t, &m);
    ck_assert_int_eq(m.critical_row, 1);
    ck_assert_double_eq(m.data_comm_s, 1 + 2 + 1);
    ck_assert_double_eq(m.idle_s, 2);
    ck_assert_double_eq(m.compute_s + m.data_comm_s + m.idle_s + m.optimizer_s, m.iteration_s);
  }
}
END_TEST

START_TEST(peak_with_its_parts)
{
  g_autoptr(Trace) t = make(spans, G_N_ELEMENTS(spans), 0);
  const MemoryPoint points[] = { { 0, 10, 5 }, { 1, 30, 0 }, { 2, 20, 15 }, { 3, 0, 0 } };
  Metrics m;

  g_array_append_vals(t->rows[1].points, points, 4);
  t->rows[1].static_bytes[PART_WEIGHTS] = 100;
  t->rows[1].static_bytes[PART_OVERHEAD] = 7;
  t->rows[1].cached_bytes = 3;
  t->fragmentation = 0.1;
  trace_metrics(t, &m);
  ck_assert_int_eq(m.peak_row, 1);
  ck_assert_double_eq(m.memory[PART_WEIGHTS], 100);
  ck_assert_double_eq(m.memory[PART_ACTIVATIONS], 20);
  ck_assert_double_eq(m.memory[PART_BUFFERS], 15);
  ck_assert_double_eq(m.memory[PART_OVERHEAD], 13.5);
  ck_assert_double_eq(m.peak_memory_bytes, 148.5);
}
END_TEST

/* As measured, it may run beside a row's own reduction: no second is charged twice. */
START_TEST(what_ran_together_counts_once)
{
  static const Given all[] = {
    { 0, LANE_COMPUTE, TASK_PASS, 0, 4, -1, 0 },  { 1, LANE_COMPUTE, TASK_PASS, 0, 5, -1, 0 },
    { 1, LANE_DATA, TASK_REDUCE, 6, 9, -1, 0 },   { 0, LANE_DATA, TASK_NORM, 8, 10, -1, 0 },
    { 0, LANE_COMPUTE, TASK_OPTIMIZER, 10, 11, -1, 0 }, { 1, LANE_COMPUTE, TASK_OPTIMIZER, 10, 11, -1, 0 },
  };
  g_autoptr(Trace) t = make(all, G_N_ELEMENTS(all), 0);
  Metrics m;

  trace_metrics(t, &m);
  ck_assert_int_eq(m.critical_row, 1);
  ck_assert_double_eq(m.data_comm_s, 4);
  ck_assert_double_eq(m.idle_s, 1);
  ck_assert_double_eq(m.compute_s + m.data_comm_s + m.idle_s + m.optimizer_s, m.iteration_s);
}
END_TEST

/* The last to end of those that each span waited for: task 3 for 0 and 1, task 4 for 1 and 2, which end together. */
START_TEST(what_ends_last_is_the_cause)
{
  static const Given ran[] = { { 0, 0, TASK_PASS, 0, 3, -1, 0 }, { 1, 0, TASK_PASS, 0, 2, -1, 0 },
                               { 1, 0, TASK_PASS, 1, 2, -1, 0 }, { 0, 0, TASK_PASS, 3, 4, -1, 0 },
                               { 1, 0, TASK_PASS, 2, 4, -1, 0 } };
  static const int causes[] = { -1, -1, -1, 0, 2 };
  int deps[] = { 0, 1, 1, 2 };
  Task tasks[] = { { 0 }, { 0 }, { 0 }, { .first_dep = 0, .n_deps = 2 }, { .first_dep = 2, .n_deps = 2 } };
  g_autoptr(Trace) t = make(ran, G_N_ELEMENTS(ran), 0);
  g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(Task));
  const Program p = { .tasks = g_array_append_vals(all, tasks, G_N_ELEMENTS(tasks)), .deps = deps };

  trace_find_causes(t, &p);
  for (gsize i = 0; i < G_N_ELEMENTS(causes); i++)
    ck_assert_int_eq(g_array_index(t->spans, Span, i).cause, causes[i]);
}
END_TEST

/* The price of the optimizer's step holds the reading of all gradients that the norm's task does. */
START_TEST(the_norm_is_the_optimizers)
{
  const Span priced[] = { { .end = 0, .kind = TASK_NORM }, { .end = 6, .kind = TASK_OPTIMIZER } };
  const Span timed[] = { { .end = 2, .kind = TASK_NORM }, { .start = 2, .end = 5, .kind = TASK_OPTIMIZER } };
  Trace sides[2] = { { .n_rows = 1 }, { .n_rows = 1 } };
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter writer;

  for (int i = 0; i < 2; i++)
    sides[i].spans = g_array_append_vals(g_array_new(FALSE, FALSE, sizeof(Span)), i ? timed : priced, 2);
  json_writer_init(&writer, text);
  json_open(&writer, NULL, '{');
  measured_write_operations(&(Side) { .trace = &sides[0] }, &(Side) { .trace = &sides[1] }, &writer);
  json_close(&writer, '}');
  g_autoptr(JsonDoc) doc = json_parse(text->str, text->len, "operations", NULL);
  const cJSON *all = json_get(json_root(doc), "operations"), *one = all->child;
  ck_assert_int_eq(cJSON_GetArraySize(all), 1);
  ck_assert_str_eq(json_get(one, "kind")->valuestring, "optimizer");
  ck_assert_double_eq(json_get(one, "count")->valuedouble, 1);
  ck_assert_double_eq(json_get(one, "predicted_s")->valuedouble, 6);
  ck_assert_double_eq(json_get(one, "measured_s")->valuedouble, 5);
  for (int i = 0; i < 2; i++)
    g_array_unref(sides[i].spans);
}
END_TEST

TEST_MAIN("trace", breakdown_by_hand, a_send_is_not_charged_to_data, all_wait_for_the_norm,
          what_ran_together_counts_once, peak_with_its_parts,
          what_ends_last_is_the_cause, the_norm_is_the_optimizers)
