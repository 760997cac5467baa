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

ProcessGroup group_of_segment(const Plan *plan, const Segment *segment)
{
  ProcessGroup group = kinds[segment->kind];

  if (group != GROUP_DATA || plan_shards(plan) == plan_replicas(plan))
    return group;
  return segment->collective == COLLECTIVE_ALL_REDUCE ? GROUP_SHARD_COPIES : GROUP_SHARDS;
}

int group_size(const Plan *plan, ProcessGroup group)
{
  switch (group) {
  case GROUP_WORLD:
    return plan->gpus;
  case GROUP_DATA:
    return plan_replicas(plan);
  case GROUP_SHARDS: /* of one rank where it is the data group */
    return plan_shards(plan) < plan_replicas(plan) ? plan_shards(plan) : 1;
  case GROUP_SHARD_COPIES:
    return plan_replicas(plan) / plan_shards(plan);
  case GROUP_EMBEDDING:
    return MIN(plan->pp, 2);
  case GROUP_COPIES:
    return schedule_copies(plan->schedule);
  default:
    return mesh_size(plan, groups[group].axis);
  }
}

/* Coordinate of a member along the group's axis. */
static int coordinate(const Plan *plan, ProcessGroup group, int own, int i)
{
  if (group == GROUP_EMBEDDING)
    return i * (plan->pp - 1);
  if (group == GROUP_COPIES)
    return i ? MAX(own, plan->pp - 1 - own) : MIN(own, plan->pp - 1 - own);
  return i;
}

static int member(const Plan *plan, ProcessGroup group, int rank, int i)
{
  int at[AXIS_COUNT], axis = groups[group].axis;

  if (group == GROUP_WORLD)
    return i;
  mesh_coordinates(plan, rank, at);
  if (group == GROUP_DATA || group == GROUP_SHARDS || group == GROUP_SHARD_COPIES) {
    int own = at[AXIS_DATA] * plan->cp + at[AXIS_CONTEXT], shards = plan_shards(plan);
    int index = group == GROUP_DATA ? i : group == GROUP_SHARDS ? own / shards * shards + i : own % shards + i * shards;
    at[AXIS_CONTEXT] = index % plan->cp;
    at[AXIS_DATA] = index / plan->cp;
    return mesh_rank(plan, at);
  }
  at[axis] = coordinate(plan, group, at[axis], i);
  return mesh_rank(plan, at);
}

void group_put_args(JsonWriter *w, const Plan *plan, ProcessGroup group, int rank)
{
  int size = group_size(plan, group);
  g_autoptr(GString) ranks = g_string_new("[");

  for (int i = 0; i < size; i++) {
    if (i == RANKS_NAMED - 1 && size > RANKS_NAMED) {
      g_string_append(ranks, "..., ");
      i = size - 1;
    }
    g_string_append_printf(ranks, "%d%s", member(plan, group, rank, i), i < size - 1 ? ", " : "");
  }
  g_string_append_c(ranks, ']');
  json_put_int(w, "Group size", size);
  json_put_string(w, "Process Group Name", groups[group].name);
  json_put_string(w, "Process Group Description", groups[group].description);
  json_put_string(w, "Process Group Ranks", ranks->str);
}

/* torch leaves the ranks of the group of all ranks away. */
static void put_group(JsonWriter *w, const Plan *plan, ProcessGroup group, int rank)
{
  int size = group_size(plan, group);

  json_open_line(w, NULL, '{');
  json_put_string(w, "pg_name", groups[group].name);
  json_put_string(w, "pg_desc", groups[group].description);
  json_put_string(w, "backend_config", "cuda:nccl");
  json_put_int(w, "pg_size", size);
  json_open(w, "ranks", '[');
  for (int i = 0; i < size && group != GROUP_WORLD; i++)
    json_put_int(w, NULL, member(plan, group, rank, i));
  json_close(w, ']');
  json_close_line(w, '}');
}

void group_put_all(JsonWriter *w, const Plan *plan, int rank)
{
  for (int group = 0; group < GROUP_COUNT; group++)
    if (group == GROUP_WORLD || group_size(plan, group) > 1)
      put_group(w, plan, group, rank);
}
