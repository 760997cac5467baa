#include "main.h"

#include "kineto/kineto.h"
#include "report_run.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

/* ---- what every consumer of such files relies on ---- */

typedef struct {
  int pid, tid;
  gint64 from, to; /* ns */
} Slice;

typedef struct {
  const cJSON *events;
  GArray *slices; /* Slice, by process, thread and time; the longer first */
} Rules;

/* An assertion that holds costs a write: these two are asked millions of times. */
static const char *text(const cJSON *event, const char *key)
{
  const cJSON *item = json_get(event, key);
  if (!cJSON_IsString(item))
    ck_abort_msg("%s", key);
  return item->valuestring;
}

static double number(const cJSON *event, const char *key)
{
  const cJSON *item = json_get(event, key);
  if (!cJSON_IsNumber(item))
    ck_abort_msg("%s", key);
  return item->valuedouble;
}

static gint64 ns_of(const cJSON *event, const char *key)
{
  return llround(1e3 * number(event, key));
}

static gboolean is(const cJSON *event, const char *phase)
{
  return g_str_equal(text(event, "ph"), phase);
}

static int in_order(gconstpointer a, gconstpointer b)
{
  const Slice *x = a, *y = b;

  if (x->pid != y->pid || x->tid != y->tid)
    return x->pid != y->pid ? x->pid - y->pid : x->tid - y->tid;
  if (x->from != y->from)
    return x->from < y->from ? -1 : 1;
  return (x->to < y->to) - (x->to > y->to);
}

static void rules_init(Rules *r, const JsonDoc *doc)
{
  const cJSON *event;

  r->events = json_get(json_root(doc), "traceEvents");
  r->slices = g_array_new(FALSE, FALSE, sizeof(Slice));
  cJSON_ArrayForEach(event, r->events) {
    if (!is(event, "X"))
      continue;
    gint64 from = ns_of(event, "ts"), length = ns_of(event, "dur");
    Slice slice = { (int)number(event, "pid"), (int)number(event, "tid"), from, from + length };
    ck_assert(from >= 0 && length > 0);
    g_array_append_val(r->slices, slice);
  }
  g_array_sort(r->slices, in_order);
}

/* Each slice lies within the one before it on its thread, or behind its end. */
static gboolean nested(const Rules *r)
{
  g_autoptr(GArray) open = g_array_new(FALSE, FALSE, sizeof(Slice));

  for (guint i = 0; i < r->slices->len; i++) {
    const Slice *s = &g_array_index(r->slices, Slice, i), *top;
    while (open->len > 0) {
      top = &g_array_index(open, Slice, open->len - 1);
      if (top->pid == s->pid && top->tid == s->tid && top->to > s->from)
        break;
      g_array_set_size(open, open->len - 1);
    }
    if (open->len > 0 && s->to > top->to)
      return FALSE;
    g_array_append_val(open, *s);
  }
  return TRUE;
}

/* Whether some slice of the event's thread is open at its time. */
static gboolean binds(const Rules *r, const cJSON *event)
{
  int pid = (int)number(event, "pid"), tid = (int)number(event, "tid");
  gint64 at = ns_of(event, "ts");

  for (guint i = 0; i < r->slices->len; i++) {
    const Slice *s = &g_array_index(r->slices, Slice, i);
    if (s->pid == pid && s->tid == tid && s->from <= at && at < s->to)
      return TRUE;
  }
  return FALSE;
}

/* Each start has one end, later, of the same id, category and name; returns how many. */
static int check_flows(const Rules *r)
{
  g_autoptr(GHashTable) starts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GHashTable) ends = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  GHashTableIter iter;
  const cJSON *event;
  gpointer key, start;

  cJSON_ArrayForEach(event, r->events) {
    if (!is(event, "s") && !is(event, "f"))
      continue;
    char *name = g_strdup_printf("%g %s %s", number(event, "id"), text(event, "cat"), text(event, "name"));
    ck_assert_msg(g_hash_table_insert(is(event, "s") ? starts : ends, name, (gpointer)event), "%s twice", name);
    ck_assert_msg(binds(r, event), "%s binds to nothing", name);
    if (is(event, "f"))
      ck_assert_str_eq(text(event, "bp"), "e");
  }
  ck_assert_uint_eq(g_hash_table_size(starts), g_hash_table_size(ends));
  g_hash_table_iter_init(&iter, starts);
  while (g_hash_table_iter_next(&iter, &key, &start)) {
    const cJSON *end = g_hash_table_lookup(ends, key);
    ck_assert_msg(end != NULL, "%s has no end", (char *)key);
    ck_assert(ns_of(end, "ts") >= ns_of(start, "ts"));
  }
  return g_hash_table_size(starts);
}

/* A process's counter goes on in time. */
static void check_counters(const Rules *r)
{
  g_autoptr(GHashTable) last = g_hash_table_new(NULL, NULL);
  const cJSON *event;

  cJSON_ArrayForEach(event, r->events) {
    if (!is(event, "C"))
      continue;
    gpointer pid = GINT_TO_POINTER((int)number(event, "pid"));
    gpointer before = g_hash_table_lookup(last, pid);
    ck_assert(!before || ns_of(before, "ts") < ns_of(event, "ts"));
    g_hash_table_insert(last, pid, (gpointer)event);
  }
}

static gboolean has_name(const Rules *r, const char *what, int pid, int tid)
{
  const cJSON *event;

  cJSON_ArrayForEach(event, r->events)
    if (is(event, "M") && g_str_equal(text(event, "name"), what) && number(event, "pid") == pid &&
        number(event, "tid") == tid)
      return TRUE;
  return FALSE;
}

static void check_names(const Rules *r)
{
  const cJSON *event;

  for (guint i = 0; i < r->slices->len; i++) {
    const Slice *s = &g_array_index(r->slices, Slice, i);
    ck_assert(has_name(r, "process_name", s->pid, 0) && has_name(r, "process_sort_index", s->pid, 0));
    ck_assert(has_name(r, "thread_name", s->pid, s->tid) && has_name(r, "thread_sort_index", s->pid, s->tid));
  }
  cJSON_ArrayForEach(event, r->events) {
    if (!is(event, "X") || !g_str_equal(text(event, "cat"), "kernel"))
      continue;
    const cJSON *args = json_get(event, "args");
    ck_assert_double_eq(number(args, "stream"), number(event, "tid"));
    /* by the prefix tools tell communication from computation */
    ck_assert_int_eq(g_str_has_prefix(text(event, "name"), "nccl"), number(event, "tid") != 7);
  }
}

static void check_head(const JsonDoc *doc, int rank, int ranks)
{
  const cJSON *root = json_root(doc), *job = json_get(root, "distributedInfo");

  ck_assert_double_eq(number(root, "schemaVersion"), 1);
  ck_assert_str_eq(text(root, "displayTimeUnit"), "ms");
  ck_assert_str_eq(text(job, "backend"), "nccl");
  ck_assert_double_eq(number(job, "rank"), rank);
  ck_assert_double_eq(number(job, "world_size"), ranks);
  ck_assert_int_eq(cJSON_GetArraySize(json_get(job, "pg_config")), (int)number(job, "pg_count"));
  ck_assert_ptr_nonnull(json_get(cJSON_GetArrayItem(json_get(root, "deviceProperties"), 0), "name"));
}

/* All of it; returns the number of arrows. */
static int check_rules(const JsonDoc *doc)
{
  Rules r;
  int flows;

  rules_init(&r, doc);
  ck_assert(nested(&r));
  check_counters(&r);
  check_names(&r);
  flows = check_flows(&r);
  g_array_unref(r.slices);
  return flows;
}

static JsonDoc *merged(const TraceView *views, int n)
{
  g_autofree char *folder = test_directory(), *path = g_build_filename(folder, "merged.json", NULL);
  GError *error = NULL;

  ck_assert_msg(report_trace_merged(views, n, path, &error), "%s", error ? error->message : "");
  JsonDoc *doc = json_load(path, &error);
  ck_assert_msg(doc != NULL, "%s", error ? error->message : "");
  ck_assert_int_eq(g_remove(path), 0);
  ck_assert_int_eq(g_rmdir(folder), 0);
  return doc;
}

/* ---- tests ---- */

static const Shape shapes[] = {
  { 1, 1, 1, 1, 2, TRUE },  { 2, 1, 1, 4, 3, TRUE },  { 1, 4, 1, 1, 8, TRUE }, { 2, 4, 1, 2, 8, TRUE },
  { 2, 4, 2, 2, 8, TRUE },  { 1, 2, 4, 1, 4, TRUE },  { 1, 4, 1, 1, 8, FALSE },
};

START_TEST(merged_keeps_the_rules)
{
  Run r = run_new(shapes[_i]);
  TraceView view = { &r.result, r.trace, "", TRUE, 0 };
  g_autoptr(JsonDoc) doc = merged(&view, 1);
  const Shape *s = &shapes[_i];
  int transfers = s->real ? 2 * s->micro * (s->pp * s->vpp - 1) : 0; /* free ones take no time */

  check_head(doc, 0, s->tp * s->pp * s->dp);
  ck_assert_int_eq(check_rules(doc), 2 * transfers); /* to the receive, and on to the pass */
  run_clear(&r);
}
END_TEST

START_TEST(every_rank_keeps_the_rules)
{
  Run r = run_new(shapes[_i]);
  TraceView view = { &r.result, r.trace, "", TRUE, 0 };
  g_autofree char *directory = test_directory(), *folder = g_build_filename(directory, "traces", NULL);
  int ranks = r.plan.gpus, received = 0;
  GError *error = NULL;

  ck_assert_msg(report_trace_ranks(&view, folder, &error), "%s", error ? error->message : "");
  for (int rank = 0; rank < ranks; rank++) {
    g_autofree char *name = g_strdup_printf("rank%d.json", rank), *path = g_build_filename(folder, name, NULL);
    g_autoptr(JsonDoc) doc = json_load(path, &error);
    ck_assert_msg(doc != NULL, "%s", error ? error->message : "");
    check_head(doc, rank, ranks);
    ck_assert_str_eq(text(json_root(doc), "traceName"), name);
    received += check_rules(doc);
    ck_assert_int_eq(g_remove(path), 0);
  }
  if (shapes[_i].real)
    ck_assert_int_eq(received, ranks / r.plan.pp * 2 * shapes[_i].micro * (r.plan.pp * r.plan.vpp - 1));
  ck_assert_int_eq(g_rmdir(folder), 0);
  g_rmdir(directory);
  run_clear(&r);
}
END_TEST

static int count_sends(const Trace *t)
{
  int n = 0;

  for (guint i = 0; i < t->spans->len; i++)
    n += g_array_index(t->spans, Span, i).kind == TASK_SEND;
  return n;
}

/* Every send is received, and feeds a pass. */
START_TEST(every_schedule_keeps_the_rules)
{
  for (int i = 0; schedules[i]; i++) {
    const Schedule *s = schedules[i];
    Shape shape = { 2, 4, MAX(s->min_chunks, 1), 2, 8, TRUE, s->name };
    Run r = run_new(shape);
    TraceView view = { &r.result, r.trace, "", TRUE, 0 };
    g_autoptr(JsonDoc) doc = merged(&view, 1);
    ck_assert_msg(check_rules(doc) == 2 * count_sends(r.trace), "%s", s->name);
    ck_assert_int_gt(count_sends(r.trace), 0);
    run_clear(&r);
  }
}
END_TEST

/* Kernels' time by stream is the trace's; the counter's most is the peak. */
START_TEST(times_and_bytes_are_the_traces)
{
  Run r = run_new((Shape) { 2, 4, 1, 2, 8, TRUE });
  TraceView view = { &r.result, r.trace, "", TRUE, 0 };
  g_autoptr(JsonDoc) doc = merged(&view, 1);
  double compute[16] = { 0 }, tensor[16] = { 0 }, most[16] = { 0 };
  const cJSON *event, *part;

  cJSON_ArrayForEach(event, json_get(json_root(doc), "traceEvents")) {
    int pid = (int)number(event, "pid");
    double bytes = 0;
    if (is(event, "X") && number(event, "tid") == 7 && !g_str_equal(text(event, "name"), "optimizer"))
      compute[pid] += number(event, "dur") / 1e6;
    if (is(event, "X") && number(event, "tid") == 20)
      tensor[pid] += number(event, "dur") / 1e6;
    if (is(event, "C"))
      cJSON_ArrayForEach(part, json_get(event, "args"))
        bytes += part->valuedouble;
    most[pid] = MAX(most[pid], bytes);
  }
  g_autofree double *computes = trace_computes(r.trace);
  for (int row = 0; row < 4; row++) {
    double bytes[PART_COUNT];
    int pid = 4 * row; /* of the row's first rank */
    ck_assert_double_gt(tensor[pid], 0);
    ck_assert_double_eq_tol(compute[pid], computes[row], 16 * 1e-9);
    ck_assert_double_eq_tol(most[pid], trace_row_peak(r.trace, row, bytes), PART_COUNT);
  }
  ck_assert_double_eq_tol(tensor[4 * r.result.metrics.critical_row], r.result.metrics.tensor_comm_s, 16 * 1e-9);
  run_clear(&r);
}
END_TEST

START_TEST(two_traces_share_a_file)
{
  Run r = run_new((Shape) { 1, 4, 1, 1, 8, TRUE });
  TraceView views[] = { { &r.result, r.trace, "predicted ", TRUE, 0 }, { &r.result, r.trace, "measured ", FALSE, 4 } };
  g_autoptr(JsonDoc) doc = merged(views, 2);
  const cJSON *event;

  ck_assert_int_eq(check_rules(doc), 2 * 2 * 2 * 8 * 3);
  cJSON_ArrayForEach(event, json_get(json_root(doc), "traceEvents")) {
    gboolean second = number(event, "pid") >= 4;
    if (g_str_equal(text(event, "name"), "process_name"))
      ck_assert(g_str_has_prefix(text(json_get(event, "args"), "name"), second ? "measured rank " : "predicted rank "));
    if (is(event, "X") && g_str_equal(text(event, "cat"), "kernel"))
      ck_assert_int_eq(cJSON_IsTrue(json_get(json_get(event, "args"), "predicted")), !second);
  }
  run_clear(&r);
}
END_TEST

/* Cores of a CPU are joined by MPI, GPUs by NCCL, as the head, the groups and each kernel say: by MPI's names of
 * operations, not of the calls that a program may make for them. */
START_TEST(collectives_are_of_the_library_that_runs)
{
  static const struct {
    int sms;
    const char *backend, *config, *starts, *sends;
  } all[] = { { 108, "nccl", "cuda:nccl", "ncclDevKernel_", "ncclDevKernel_SendRecv(" },
              { 1, "mpi", "cpu:mpi", "MPI_", "MPI_Send(" } };
  Run r = run_new((Shape) { 2, 4, 1, 2, 8, TRUE });
  TraceView view = { &r.result, r.trace, "", TRUE, 0 };

  for (gsize i = 0; i < G_N_ELEMENTS(all); i++) {
    r.cluster->device.sms = all[i].sms;
    g_autoptr(JsonDoc) doc = merged(&view, 1);
    const cJSON *job = json_get(json_root(doc), "distributedInfo"), *item;
    int sends = 0, sums = 0;
    ck_assert_str_eq(text(job, "backend"), all[i].backend);
    cJSON_ArrayForEach(item, json_get(job, "pg_config"))
      ck_assert_str_eq(text(item, "backend_config"), all[i].config);
    cJSON_ArrayForEach(item, json_get(json_root(doc), "traceEvents")) {
      if (!is(item, "X") || !json_get(json_get(item, "args"), "Collective name"))
        continue;
      ck_assert_msg(g_str_has_prefix(text(item, "name"), all[i].starts), "%s", text(item, "name"));
      sends += g_str_has_prefix(text(item, "name"), all[i].sends);
      ck_assert_msg(!g_str_has_prefix(text(item, "name"), "MPI_I"), "%s", text(item, "name"));
      ck_assert_msg(!strstr(text(item, "name"), "_block"), "%s", text(item, "name"));
      sums += strstr(text(item, "name"), "educe") != NULL;
    }
    ck_assert_int_gt(sends, 0);
    ck_assert_int_gt(sums, 0);
  }
  run_clear(&r);
}
END_TEST

/* The checker is worth something only if it sees what is wrong. */
START_TEST(overlap_is_seen)
{
  static const char bad[] =
      "{\"traceEvents\":[{\"ph\":\"X\",\"pid\":1,\"tid\":7,\"ts\":0,\"dur\":2},{\"ph\":\"X\",\"pid\":1,\"tid\":7,\"ts\":1,\"dur\":2}]}";
  GError *error = NULL;
  g_autoptr(JsonDoc) doc = json_parse(bad, strlen(bad), "bad", &error);
  Rules r;

  rules_init(&r, doc);
  ck_assert(!nested(&r));
  g_array_unref(r.slices);
}
END_TEST

START_TEST(groups_are_the_meshs)
{
  Run r = run_new((Shape) { 2, 2, 1, 4, 8, TRUE });
  TraceView view = { &r.result, r.trace, "", TRUE, 0 };
  g_autofree char *folder = test_directory(), *path = g_build_filename(folder, "rank13.json", NULL);
  static const char *const ranks[] = { "[]", "[12,13]", "[9,11,13,15]", "[5,13]", "[5,13]" };
  GError *error = NULL;

  ck_assert(report_trace_ranks(&view, folder, &error));
  g_autoptr(JsonDoc) doc = json_load(path, &error);
  const cJSON *groups = json_get(json_get(json_root(doc), "distributedInfo"), "pg_config");
  ck_assert_int_eq(cJSON_GetArraySize(groups), G_N_ELEMENTS(ranks));
  for (guint i = 0; i < G_N_ELEMENTS(ranks); i++) {
    char *found = cJSON_PrintUnformatted(json_get(cJSON_GetArrayItem(groups, i), "ranks"));
    ck_assert_str_eq(found, ranks[i]);
    cJSON_free(found);
  }
  for (int rank = 0; rank < r.plan.gpus; rank++) {
    g_autofree char *name = g_strdup_printf("%s/rank%d.json", folder, rank);
    ck_assert_int_eq(g_remove(name), 0);
  }
  g_rmdir(folder);
  run_clear(&r);
}
END_TEST

START_TEST(folder_that_cannot_be_made)
{
  Run r = run_new((Shape) { 1, 1, 1, 1, 1, FALSE });
  TraceView view = { &r.result, r.trace, "", TRUE, 0 };
  GError *error = NULL;

  ck_assert(!report_trace_ranks(&view, "/dev/null/traces", &error));
  test_error(&error, 1, "/dev/null/traces: cannot make this folder: Not a directory");
  run_clear(&r);
}
END_TEST

#define SHAPES G_N_ELEMENTS(shapes)
TEST_LOOPS("kineto", { merged_keeps_the_rules, SHAPES }, { every_rank_keeps_the_rules, SHAPES },
           { every_schedule_keeps_the_rules }, { times_and_bytes_are_the_traces }, { two_traces_share_a_file },
           { collectives_are_of_the_library_that_runs }, { overlap_is_seen }, { groups_are_the_meshs },
           { folder_that_cannot_be_made })
