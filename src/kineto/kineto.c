#include "kineto/kineto.h"

#include "base/files.h"
#include "kineto/events.h"
#include "kineto/groups.h"
#include "report/plots.h"

static void put_device(JsonWriter *w, const Result *r, int device)
{
  json_open(w, "deviceProperties", '[');
  json_open(w, NULL, '{');
  json_put_int(w, "id", device);
  json_put_string(w, "name", r->cluster->device.name);
  json_put_int(w, "totalGlobalMem", (gint64)cluster_whole_bytes(r->cluster, r->cluster->device.memory_bytes));
  json_close(w, '}');
  json_close(w, ']');
}

static void put_distributed(JsonWriter *w, const Result *r, int rank)
{
  const Layout *layout = &r->layout;
  gboolean mpi = device_is_core(&r->cluster->device);
  const char *backend = mpi ? "mpi" : "nccl";
  int count = 0;

  for (int group = 0; group < GROUP_COUNT; group++)
    count += group_is_there(layout, group);
  json_open(w, "distributedInfo", '{');
  json_put_string(w, "backend", backend);
  json_put_int(w, "rank", rank);
  json_put_int(w, "world_size", layout->mesh.ranks);
  json_put_int(w, "pg_count", count);
  json_open(w, "pg_config", '[');
  group_put_all(w, layout, mpi ? "cpu:mpi" : "cuda:nccl", rank);
  json_close(w, ']');
  json_close(w, '}');
}

/* The file's head, up to its open list of events. */
static void open_file(JsonWriter *w, const Result *r, int rank, int device, const char *name)
{
  json_open(w, NULL, '{');
  json_put_int(w, "schemaVersion", 1);
  put_device(w, r, device);
  put_distributed(w, r, rank);
  json_put_string(w, "displayTimeUnit", "ms");
  json_put_int(w, "baseTimeNanoseconds", 0);
  json_put_string(w, "traceName", name);
  json_open(w, "traceEvents", '[');
}

static void put_name(JsonWriter *w, const char *what, int pid, const char *name)
{
  json_open_line(w, NULL, '{');
  json_put_string(w, "ph", "M");
  json_put_string(w, "name", what);
  json_put_int(w, "pid", pid);
  json_put_int(w, "tid", 0);
  json_open(w, "args", '{');
  if (name)
    json_put_string(w, "name", name);
  else
    json_put_int(w, "sort_index", pid);
  json_close(w, '}');
  json_close_line(w, '}');
}

/* "rank 3, stage 0", "ranks 0-15, stage 0". */
static char *process_name(const TraceIndex *index, int row, int first, int n)
{
  int stage = row / index->rows_of_stage;

  if (n > 1 && index->layout->mesh.inner) {
    g_autofree char *ranks = mesh_stage_text(&index->layout->mesh, stage);
    return g_strdup_printf("%sranks %s, stage %d", index->view->prefix, ranks, stage);
  }
  if (n > 1)
    return g_strdup_printf("%sranks %d-%d, stage %d", index->view->prefix, first, first + n - 1, stage);
  return g_strdup_printf("%srank %d, stage %d", index->view->prefix, first, stage);
}

static void put_row(const TraceIndex *index, int row, int ranks, EventSink *sink)
{
  g_autofree char *name = process_name(index, row, sink->rank, ranks);

  put_name(sink->w, "process_name", sink->pid, name);
  put_name(sink->w, "process_sort_index", sink->pid, NULL);
  row_events(index, row, sink);
}

static gboolean close_file(JsonWriter *w, const char *path, GError **error)
{
  json_close(w, ']');
  json_close(w, '}');
  return files_write(path, w->text->str, w->text->len, error);
}

gboolean report_trace_merged(const TraceView *views, int n, const char *path, GError **error)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;
  EventSink sink = { .w = &w, .merged = TRUE };

  json_writer_init(&w, text);
  open_file(&w, views[0].result, 0, views[0].first_pid, "tdp");
  for (int i = 0; i < n; i++) {
    TraceIndex index;
    trace_index_init(&index, &views[i]);
    for (int row = 0; row < views[i].trace->n_rows; row++) {
      sink.rank = mesh_rank_at(&index.layout->mesh, row, 0);
      sink.pid = views[i].first_pid + sink.rank;
      put_row(&index, row, index.ranks_of_row, &sink);
    }
    sink.first_flow += 2 * views[i].trace->spans->len;
    trace_index_clear(&index);
  }
  return close_file(&w, path, error);
}

static gboolean write_rank(const TraceIndex *index, int rank, const char *folder, GError **error)
{
  const Result *r = index->view->result;
  g_autoptr(GString) text = g_string_new(NULL);
  g_autofree char *name = g_strdup_printf("rank%d.json", rank), *path = g_build_filename(folder, name, NULL);
  JsonWriter w;
  EventSink sink = { .w = &w, .rank = rank, .pid = rank % r->cluster->devices_per_node };
  int at[AXIS_COUNT];

  mesh_coordinates(&index->layout->mesh, rank, at);
  json_writer_init(&w, text);
  open_file(&w, r, rank, sink.pid, name);
  put_row(index, at[AXIS_PIPELINE], 1, &sink);
  return close_file(&w, path, error);
}

gboolean report_trace_ranks(const TraceView *view, const char *folder, GError **error)
{
  TraceIndex index;
  gboolean ok = TRUE;

  if (!plot_folder(folder, error))
    return FALSE;
  trace_index_init(&index, view);
  for (int rank = 0; ok && rank < view->result->layout.mesh.ranks; rank++)
    ok = write_rank(&index, rank, folder, error);
  trace_index_clear(&index);
  return ok;
}
