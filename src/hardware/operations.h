/*
 * What a cluster goes through in weeks of training: how often a job is stopped,
 * how long it stands still, where checkpoints go, what else draws power. A file
 * of hardware/operations/, or one with the same keys; each figure with its source.
 */
#ifndef TDP_HARDWARE_OPERATIONS_H
#define TDP_HARDWARE_OPERATIONS_H

#include <glib.h>

#define OPERATIONS_USUAL "usual"

#define SPARES_MAX 1000

/* What failures are of; of the first three they take the node away. */
typedef enum {
  FAILURE_GPU, FAILURE_GPU_MEMORY, FAILURE_HOST, FAILURE_NETWORK, FAILURE_SOFTWARE, FAILURE_COUNT
} FailurePart;

typedef struct {
  double failure_device_s;           /* of one device between failures that stop the job it is part of */
  double failure_device_low_s, failure_device_high_s; /* what eight of ten clusters have */
  double detect_s;                   /* from a failure until it is noticed */
  double restart_s;                  /* from then until steps run again, the checkpoint loaded */
  double planned_per_s;              /* stops for upkeep; each takes a restart */
  double failure_share[FAILURE_COUNT]; /* of failures, by part; all 0 = not known */
  double node_share;                 /* of failures that take the node away */
  double node_repair_s;              /* until it is back, or another in its place */
  int spares;                        /* nodes that stand by for the job; -1 = as many as are needed */
  gboolean neighbour_checkpoints;    /* they are safe in the memory of another node, sent over the network */
  int checkpoints_kept;              /* at once; 0 = all that are written */
  double storage_bytes_per_s;        /* of each device to storage that survives it, all at once */
  double slow_share;                 /* that steps last longer because of slow devices and links, of the quiet step */
  double slow_share_low, slow_share_high; /* what eight of ten trainings have */
  double whole_low, whole_high;      /* what eight of ten trainings take of what steps and stops come to; 0 = not known */
  double pass_spread;                /* standard deviation of a pass's computation, one pass and device to the next */
  double link_spread;                /* and of a device's transfers, one step to the next */
  double training_power_share;       /* of a device's power limit, while it computes in a step */
  double exchange_power_share;       /* of its own power, while it waits in a step for others or for transfers; 0 = as
                                        it computes */
  double waiting_power_share;        /* of its own power, while the job stands still */
  double host_w;                     /* of hosts, network and fans for each device */
  double grid_kg_per_j;              /* CO2 of the electricity; 0 = not known */
  double pue;                        /* of the building: all power over that of the machines */
} Operations;

/* By a bare name or a path. TDP_ERROR_INPUT. */
gboolean operations_load(const char *name, Operations *out, GError **error);

#endif
