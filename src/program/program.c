#include "program/program.h"

#include "program/build.h"

#include <math.h>
#include <string.h>

const char *const lane_names[] = { "compute", "pipeline", "data", "fetch", "store", NULL };
const char *const task_kind_names[] = { "pass", "send", "gather", "reduce", "fetch", "store", "outputs",
                                        "tied embedding", "weight copies", "vocabulary", "gradient norm", "optimizer",
                                        NULL };
const char *const memory_part_names[] = { "weights", "gradients", "optimizer", "activations",
                                          "buffers", "overhead", NULL };

int program_add_segment(ProgramBuild *b, Segment segment)
{
  g_array_append_val(b->program->segments, segment);
  b->program->crowds |= segment.crowded_s > 0;
  return b->program->segments->len - 1;
}

int program_add_task(ProgramBuild *b, int row, Lane lane, int segment, int chunk, int micro)
{
  const Segment *s = &g_array_index(b->program->segments, Segment, segment);
  GArray *tasks = b->program->tasks;
  int index = tasks->len;
  Task task = { .segment = segment, .micro = micro, .row = row, .chunk = chunk, .lane = lane, .kind = s->kind,
                .pass = s->pass };

  if (index == b->tasks_room) {
    b->tasks_room = MAX(1024, 2 * b->tasks_room);
    g_array_set_size(tasks, b->tasks_room);
  }
  ((Task *)tasks->data)[index] = task;
  tasks->len = index + 1;
  if (lane == LANE_DATA)
    b->last_data[row] = index;
  if (lane == LANE_STORE)
    b->last_store[row] = index;
  return index;
}

void program_add_edge(ProgramBuild *b, int task, int waits_for)
{
  if (b->n_edges == b->edges_room) {
    b->edges_room = MAX(1024, 2 * b->edges_room);
    b->edges = g_renew(Edge, b->edges, b->edges_room);
  }
  b->edges[b->n_edges++] = (Edge) { task, waits_for };
}

/* Passes wait for what brings their input. */
static void connect_stages(ProgramBuild *b)
{
  gsize n = 2 * (gsize)b->stages * b->shape.micro;

  for (gsize i = 0; i < n; i++)
    if (b->arrival[i] >= 0 && b->entry[i] >= 0)
      program_add_edge(b, b->entry[i], b->arrival[i]);
}

/* Edges by task: counts, then places. */
static void store_edges(ProgramBuild *b)
{
  Program *p = b->program;
  Task *tasks = (Task *)p->tasks->data;
  int first = 0;

  p->deps = g_new(int, MAX(b->n_edges, 1));
  for (gsize i = 0; i < b->n_edges; i++)
    tasks[b->edges[i].task].n_deps++;
  for (guint i = 0; i < p->tasks->len; i++) {
    tasks[i].first_dep = first;
    first += tasks[i].n_deps;
    tasks[i].n_deps = 0;
  }
  for (gsize i = 0; i < b->n_edges; i++) {
    Task *t = &tasks[b->edges[i].task];
    p->deps[t->first_dep + t->n_deps++] = b->edges[i].waits_for;
  }
}

/* Tasks by lane, each lane in the order in which they were added. */
static void store_lanes(Program *p)
{
  const Task *tasks = (const Task *)p->tasks->data;
  int n_lanes = p->n_rows * LANE_COUNT;
  g_autofree int *next = g_new(int, n_lanes);

  p->lane_first = g_new0(int, n_lanes + 1);
  p->lane_tasks = g_new(int, p->tasks->len);
  for (guint i = 0; i < p->tasks->len; i++)
    p->lane_first[tasks[i].row * LANE_COUNT + tasks[i].lane + 1]++;
  for (int lane = 0; lane < n_lanes; lane++)
    p->lane_first[lane + 1] += p->lane_first[lane];
  memcpy(next, p->lane_first, n_lanes * sizeof(int));
  for (guint i = 0; i < p->tasks->len; i++)
    p->lane_tasks[next[tasks[i].row * LANE_COUNT + tasks[i].lane]++] = i;
}

/* Type of the nodes on which the first copy of a layer's stage lies. */
static int type_of_layer(const ProgramBuild *b, int layer)
{
  int stage = 0;

  if (b->cluster->n_types == 0)
    return 0;
  while (layer >= stage_first_layer(&b->layout->pipeline.cut, b->model, stage + 1))
    stage++;
  return b->sites[pipeline_rank(&b->layout->pipeline, stage, 0)].type;
}

/* What schedules that place passes by their length go by: means over the ranks
 * in hundredths of a forward. */
static void time_shape(ProgramBuild *b)
{
  double seconds[PASS_COUNT] = { 0 };
  GroupShape pair;
  const Cluster *between = mesh_pair_site(&b->layout->mesh, b->cluster, 0, MIN(1, b->shape.ranks - 1), &pair);
  double bytes = op_boundary_bytes(b->model, &b->layout->passes);
  double send = collective_cost(between, COLLECTIVE_SEND, bytes, &pair).seconds;

  for (int i = 0; i < b->model->n_layers; i++) {
    const LayerPrice *price = price_of_layer(b->prices, b->model, type_of_layer(b, i), i);
    for (int pass = 0; pass < PASS_COUNT; pass++)
      seconds[pass] += price->pass[pass].seconds / b->shape.ranks;
  }
  if (seconds[PASS_FORWARD] <= 0 || seconds[PASS_INPUT] <= 0 || seconds[PASS_WEIGHT] <= 0)
    return;
  b->shape.forward = 1;
  b->shape.input = round(100 * seconds[PASS_INPUT] / seconds[PASS_FORWARD]) / 100;
  b->shape.weight = round(100 * seconds[PASS_WEIGHT] / seconds[PASS_FORWARD]) / 100;
  b->shape.transfer = round(100 * send / seconds[PASS_FORWARD]) / 100;
}

static gboolean has_pass(const ScheduleOrder *order, Pass pass)
{
  for (int i = 0; i < order->first[order->ranks]; i++)
    if (order->slots[i].pass == pass)
      return TRUE;
  return FALSE;
}

int *indices_new(gsize n)
{
  int *indices = g_new(int, n);

  for (gsize i = 0; i < n; i++)
    indices[i] = -1;
  return indices;
}

static void build_init(ProgramBuild *b, Program *program)
{
  gsize n_slots = 2 * (gsize)b->stages * b->shape.micro;

  b->program = program;
  b->arrival = indices_new(n_slots);
  b->entry = indices_new(n_slots);
  b->last_task = indices_new(program->n_rows);
  b->last_data = indices_new(program->n_rows);
  b->last_store = indices_new(program->n_rows);
  b->pairs = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
  vocabulary_init(b);
}

static void build_clear(ProgramBuild *b)
{
  strategies_clear(b);
  g_free(b->edges);
  g_free(b->arrival);
  g_free(b->entry);
  g_free(b->last_task);
  g_free(b->last_data);
  g_free(b->last_store);
  g_hash_table_unref(b->pairs);
  vocabulary_clear(b);
  prices_clear(b);
}

Program *program_new(const Model *model, const Layout *layout, const Cluster *cluster, const PriceTable *prices)
{
  Program *p = g_new0(Program, 1);
  const PipelineLayout *pipeline = &layout->pipeline;
  ProgramBuild b = { .model = model, .layout = layout, .cluster = cluster, .prices = prices,
                     .shape = pipeline->shape, .stages = pipeline->cut.stages };
  int ranks = layout->mesh.ranks;

  strategies_init(&b);
  time_shape(&b);
  p->schedule = pipeline->schedule;
  p->shape = b.shape;
  p->opportunistic = pipeline->schedule->opportunistic;
  p->n_rows = pipeline->shape.ranks;
  p->rows = g_new0(ProgramRow, p->n_rows);
  p->segments = g_array_new(FALSE, FALSE, sizeof(Segment));
  g_array_set_clear_func(p->segments, segment_clear);
  p->tasks = g_array_new(FALSE, FALSE, sizeof(Task));
  p->row_ranks = layout->mesh.places;
  p->nodes = (ranks + cluster->devices_per_node - 1) / cluster->devices_per_node;
  p->node_devices = cluster->devices_per_node;
  p->node_processors = cluster->processors;
  p->crowds = ranks > (gint64)p->nodes * p->node_processors;
  p->fragmentation = layout->passes.framework->fragmentation;
  p->step_s = layout->passes.framework->step_s;
  g_autoptr(ScheduleOrder) order = schedule_order_new(pipeline->schedule, &b.shape);
  g_autofree guint8 *alone = layout->passes.overlap_exchange ? schedule_order_alone(order) : NULL;
  build_init(&b, p);
  p->remakes = has_pass(order, PASS_RECOMPUTE);
  prices_init(&b);
  for (int rank = 0; rank < p->n_rows; rank++) {
    row_memory(&b, rank, &p->rows[rank]);
    rank_tasks(&b, order, alone, rank);
  }
  connect_stages(&b);
  vocabulary_connect(&b);
  step_end_tasks(&b);
  store_edges(&b);
  store_lanes(p);
  program_beyond(&b);
  program_meet(&b);
  beside_issue(&b);
  build_clear(&b);
  return p;
}

void program_free(Program *p)
{
  if (!p)
    return;
  g_array_unref(p->segments);
  g_array_unref(p->tasks);
  g_free(p->rows);
  g_free(p->deps);
  g_free(p->lane_first);
  g_free(p->lane_tasks);
  g_free(p);
}
