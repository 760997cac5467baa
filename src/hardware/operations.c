#include "hardware/operations.h"

#include "base/units.h"
#include "hardware/part.h"
#include "hardware/plausible.h"

#include <math.h>

#define SHARES_ADD 0.005 /* rounded ones */
#define KWH 3.6e6
#define FIELD(member) JSON_REAL, G_STRUCT_OFFSET(Operations, member), TRUE
#define OPTIONAL(member) JSON_REAL, G_STRUCT_OFFSET(Operations, member), FALSE
#define SHARE(member) OPTIONAL(member), 0, 10
#define PART_SHARE(part) OPTIONAL(failure_share[part]), 0, 1
#define SPREAD(member) OPTIONAL(member), 0, 0.3

static const JsonField fields[] = {
  {"name", JSON_ANY, .required = TRUE},
  {"failure_gpu_hours", FIELD(failure_device_s), 1, 1e9, HOUR},
  {"failure_gpu_hours_low", FIELD(failure_device_low_s), 1, 1e9, HOUR},
  {"failure_gpu_hours_high", FIELD(failure_device_high_s), 1, 1e9, HOUR},
  {"detect_min", FIELD(detect_s), 0, 1e5, MINUTE},
  {"restart_min", FIELD(restart_s), 0, 1e5, MINUTE},
  {"planned_stops_per_day", FIELD(planned_per_s), 0, 1000, 1 / DAY},
  {"failure_share_gpu", PART_SHARE(FAILURE_GPU)},
  {"failure_share_gpu_memory", PART_SHARE(FAILURE_GPU_MEMORY)},
  {"failure_share_host", PART_SHARE(FAILURE_HOST)},
  {"failure_share_network", PART_SHARE(FAILURE_NETWORK)},
  {"failure_share_software", PART_SHARE(FAILURE_SOFTWARE)},
  {"node_share", OPTIONAL(node_share), 0, 1},
  {"node_repair_hours", OPTIONAL(node_repair_s), 0, 1e5, HOUR},
  {"spares", JSON_INT, G_STRUCT_OFFSET(Operations, spares), FALSE, 0, SPARES_MAX},
  {"neighbour_checkpoints", JSON_BOOL, G_STRUCT_OFFSET(Operations, neighbour_checkpoints)},
  {"checkpoints_kept", JSON_INT, G_STRUCT_OFFSET(Operations, checkpoints_kept), FALSE, 0, 1000000},
  {"storage_gb_per_s_per_gpu", FIELD(storage_bytes_per_s), PLAUSIBLE_GB_PER_S, GB},
  {"slow_share", SHARE(slow_share)},
  {"slow_share_low", SHARE(slow_share_low)},
  {"slow_share_high", SHARE(slow_share_high)},
  {"whole_low", OPTIONAL(whole_low), 0, 1},
  {"whole_high", OPTIONAL(whole_high), 0, 10},
  {"pass_spread", SPREAD(pass_spread)},
  {"link_spread", SPREAD(link_spread)},
  {"training_power_share", FIELD(training_power_share), 0, 1},
  {"exchange_power_share", OPTIONAL(exchange_power_share), 0, 1},
  {"waiting_power_share", FIELD(waiting_power_share), 0, 1},
  {"host_w_per_gpu", FIELD(host_w), 0, 1e5},
  {"grid_kg_co2_per_kwh", OPTIONAL(grid_kg_per_j), 0, 10, 1 / KWH},
  {"pue", FIELD(pue), 1, 10},
};

static gboolean read_operations(const PartSource *source, gpointer out, GError **error)
{
  return part_fields(source, fields, G_N_ELEMENTS(fields), out, NULL, error);
}

/* The key of one that is given. */
static const char *first_share(const Operations *o)
{
  static const char *const keys[FAILURE_COUNT] = {
    [FAILURE_GPU] = "failure_share_gpu", [FAILURE_GPU_MEMORY] = "failure_share_gpu_memory",
    [FAILURE_HOST] = "failure_share_host", [FAILURE_NETWORK] = "failure_share_network",
    [FAILURE_SOFTWARE] = "failure_share_software",
  };
  int part = 0;

  while (part < FAILURE_COUNT - 1 && o->failure_share[part] == 0)
    part++;
  return keys[part];
}

/* Shares of parts add to all of them, and say which take nodes away. */
static gboolean see_parts(const PartSource *source, Operations *o, GError **error)
{
  double sum = 0, nodes = 0;

  for (int part = 0; part < FAILURE_COUNT; part++) {
    sum += o->failure_share[part];
    nodes += part <= FAILURE_HOST ? o->failure_share[part] : 0;
  }
  if (sum == 0)
    return TRUE;
  if (fabs(sum - 1) > SHARES_ADD)
    return json_error(source->doc, json_get(source->object, first_share(o)), error,
                      "failure_share_gpu, failure_share_gpu_memory, failure_share_host, failure_share_network and "
                      "failure_share_software that add to 1, not to %g", sum);
  if (json_get(source->object, "node_share"))
    return json_error(source->doc, json_get(source->object, "node_share"), error,
                      "it to be absent beside failure_share_gpu and the like, which say it");
  for (int part = 0; part < FAILURE_COUNT; part++)
    o->failure_share[part] /= sum;
  o->node_share = nodes / sum;
  return TRUE;
}

static gboolean finish_operations(const PartSource *source, gpointer out, GError **error)
{
  const Operations *o = out;

  if (!see_parts(source, out, error))
    return FALSE;
  if (!(o->slow_share_low <= o->slow_share && o->slow_share <= o->slow_share_high))
    return json_error(source->doc, json_get(source->object, "slow_share"), error,
                      "from slow_share_low to slow_share_high, %g to %g", o->slow_share_low, o->slow_share_high);
  if ((o->whole_low > 0) != (o->whole_high > 0) || (o->whole_high > 0 && o->whole_high < 1))
    return json_error(source->doc, json_get(source->object, "whole_high"), error,
                      "at least 1, and whole_low with it");
  if (o->failure_device_low_s <= o->failure_device_s && o->failure_device_s <= o->failure_device_high_s)
    return TRUE;
  return json_error(source->doc, json_get(source->object, "failure_gpu_hours"), error,
                    "from failure_gpu_hours_low to failure_gpu_hours_high, %.0f to %.0f",
                    o->failure_device_low_s / HOUR, o->failure_device_high_s / HOUR);
}

static const PartKind operations_part = {"operations", "description of operations", read_operations, finish_operations};

gboolean operations_load(const char *name, Operations *out, GError **error)
{
  *out = (Operations){.spares = -1};
  return part_load(&operations_part, name, out, error);
}
