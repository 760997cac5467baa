/* Clusters of several types of nodes: the file's `node_types`. Private to this folder. */
#ifndef TDP_HARDWARE_MIXED_H
#define TDP_HARDWARE_MIXED_H

#include "hardware/cluster.h"
#include "hardware/part.h"

/* The cluster of alike nodes that `item` names or holds. */
Cluster *cluster_read(const PartSource *above, const cJSON *item, GError **error);

/* The mixed cluster of a whole document, and a sum of what files say (part.h). */
Cluster *mixed_read(const JsonDoc *doc, GChecksum *digest, GError **error);

#endif
