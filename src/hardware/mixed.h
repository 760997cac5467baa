/* Clusters of several types of nodes: the file's `node_types`. Private to this folder. */
#ifndef TDP_HARDWARE_MIXED_H
#define TDP_HARDWARE_MIXED_H

#include "hardware/cluster.h"
#include "hardware/part.h"

/* The cluster of alike nodes that `item` names or holds. */
Cluster *cluster_read(const PartSource *above, const cJSON *item, GError **error);

/* The mixed cluster of a whole document. */
Cluster *mixed_read(const JsonDoc *doc, GError **error);

#endif
