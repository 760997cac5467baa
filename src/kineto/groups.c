#include "kineto/groups.h"

#define RANKS_NAMED 30 /* in an event; of more, torch names the first and the last */

static const struct {
  const char *name, *description;
  Axis axis;
} groups[GROUP_COUNT] = {
  [GROUP_WORLD] = { "0", "default_pg", AXIS_COUNT },
  [GROUP_TENSOR] = { "1", "TENSOR_MODEL_PARALLEL_GROUP", AXIS_TENSOR },
  [GROUP_DATA] = { "2", "DATA_PARALLEL_GROUP", AXIS_DATA },
  [GROUP_PIPELINE] = { "3", "PIPELINE_MODEL_PARALLEL_GROUP", AXIS_PIPELINE },
  [GROUP_EMBEDDING] = { "4", "EMBEDDING_GROUP", AXIS_PIPELINE },
  [GROUP_CONTEXT] = { "6", "CONTEXT_PARALLEL_GROUP", AXIS_CONTEXT },
  [GROUP_SHARDS] = { "7", "INTRA_PARTIAL_DATA_PARALLEL_GROUP", AXIS_DATA },
  [GROUP_SHARD_COPIES] = { "8", "INTER_PARTIAL_DATA_PARALLEL_GROUP", AXIS_DATA },
  [GROUP_COPIES] = { "5", "MODEL_COPIES_GROUP", AXIS_PIPELINE },
};

static const ProcessGroup kinds[TASK_KIND_COUNT] = {
  [TASK_PASS] = GROUP_TENSOR, [TASK_SEND] = GROUP_PIPELINE,  [TASK_GATHER] = GROUP_DATA,
  [TASK_REDUCE] = GROUP_DATA, [TASK_TIED] = GROUP_EMBEDDING, [TASK_NORM] = GROUP_WORLD,
  [TASK_OUTPUTS] = GROUP_DATA, [TASK_COPIES] = GROUP_COPIES, [TASK_VOCAB] = GROUP_PIPELINE,
};

ProcessGroup group_of_segment(const Layout *layout, const Segment *segment)
{
  ProcessGroup group = kinds[segment->kind];

  if (group != GROUP_DATA || layout->states[0].copies == 1 ||
      (segment->kind == TASK_REDUCE && layout->states[0].sums_at_once))
    return group;
  return segment->across ? GROUP_SHARD_COPIES : GROUP_SHARDS;
}

static int group_size(const Layout *layout, ProcessGroup group)
{
  switch (group) {
  case GROUP_WORLD:
    return layout->mesh.ranks;
  case GROUP_DATA:
    return layout->states[0].replicas;
  case GROUP_SHARDS: /* of one rank where it is the data group */
    return layout->states[0].copies > 1 ? layout->states[0].shards : 1;
  case GROUP_SHARD_COPIES:
    return layout->states[0].copies;
  case GROUP_EMBEDDING:
    return MIN(layout->pipeline.shape.ranks, 2);
  case GROUP_COPIES:
    return schedule_copies(layout->pipeline.schedule);
  default:
    return layout->mesh.dense[groups[group].axis].size;
  }
}

/* Coordinate of a member along the group's axis. */
static int coordinate(const Layout *layout, ProcessGroup group, int own, int i)
{
  int last = layout->pipeline.shape.ranks - 1;

  if (group == GROUP_EMBEDDING)
    return i * last;
  if (group == GROUP_COPIES)
    return i ? MAX(own, last - own) : MIN(own, last - own);
  return i;
}

static int member(const Layout *layout, ProcessGroup group, int rank, int i)
{
  int at[AXIS_COUNT], axis = groups[group].axis;

  if (group == GROUP_WORLD)
    return i;
  mesh_coordinates(&layout->mesh, rank, at);
  if (group == GROUP_DATA || group == GROUP_SHARDS || group == GROUP_SHARD_COPIES) {
    int cp = layout->passes.cp, own = at[AXIS_DATA] * cp + at[AXIS_CONTEXT], shards = layout->states[0].shards;
    int index = group == GROUP_DATA ? i : group == GROUP_SHARDS ? own / shards * shards + i : own % shards + i * shards;
    at[AXIS_CONTEXT] = index % cp;
    at[AXIS_DATA] = index / cp;
    return mesh_rank(&layout->mesh, at);
  }
  at[axis] = coordinate(layout, group, at[axis], i);
  return mesh_rank(&layout->mesh, at);
}

void group_put_args(JsonWriter *w, const Layout *layout, ProcessGroup group, int rank)
{
  int size = group_size(layout, group);
  g_autoptr(GString) ranks = g_string_new("[");

  for (int i = 0; i < size; i++) {
    if (i == RANKS_NAMED - 1 && size > RANKS_NAMED) {
      g_string_append(ranks, "..., ");
      i = size - 1;
    }
    g_string_append_printf(ranks, "%d%s", member(layout, group, rank, i), i < size - 1 ? ", " : "");
  }
  g_string_append_c(ranks, ']');
  json_put_int(w, "Group size", size);
  json_put_string(w, "Process Group Name", groups[group].name);
  json_put_string(w, "Process Group Description", groups[group].description);
  json_put_string(w, "Process Group Ranks", ranks->str);
}

/* torch leaves the ranks of the group of all ranks away. */
static void put_group(JsonWriter *w, const Layout *layout, ProcessGroup group, const char *backend, int rank)
{
  int size = group_size(layout, group);

  json_open_line(w, NULL, '{');
  json_put_string(w, "pg_name", groups[group].name);
  json_put_string(w, "pg_desc", groups[group].description);
  json_put_string(w, "backend_config", backend);
  json_put_int(w, "pg_size", size);
  json_open(w, "ranks", '[');
  for (int i = 0; i < size && group != GROUP_WORLD; i++)
    json_put_int(w, NULL, member(layout, group, rank, i));
  json_close(w, ']');
  json_close_line(w, '}');
}

gboolean group_is_there(const Layout *layout, ProcessGroup group)
{
  return group == GROUP_WORLD || group_size(layout, group) > 1;
}

void group_put_all(JsonWriter *w, const Layout *layout, const char *backend, int rank)
{
  for (int group = 0; group < GROUP_COUNT; group++)
    if (group_is_there(layout, group))
      put_group(w, layout, group, backend, rank);
}
