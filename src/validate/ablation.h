/* Leaving one physical effect out of a cluster and a framework. */
#ifndef TDP_VALIDATE_ABLATION_H
#define TDP_VALIDATE_ABLATION_H

#include "plan/framework.h"
#include "hardware/cluster.h"

/* Changes the constants in place; `ablation` as in ablation_name(), -1 = nothing. */
void ablate(int ablation, Cluster *cluster, Framework *framework);

#endif
