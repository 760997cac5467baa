/*
 * Splits of the layers over the stages by what the layers take and hold:
 * plan/split.h finds them, this prices them.
 */
#ifndef TDP_PROGRAM_BALANCE_H
#define TDP_PROGRAM_BALANCE_H

#include "program/program.h"

/* The split into so many stages whose slowest one, forward and backward of a micro-batch, is fastest, of those that
 * the framework can run; of the layout its passes are enough. FALSE if there is none. */
gboolean balance_by_time(const Model *model, const PassLayout *passes, int stages, const PriceTable *prices,
                         LayerSplit *out);

/* The same of those splits where each stage fits into its device; of all if none does. A stage holds its states and
 * as many activations as the schedule has in flight there; with several chunks a rank, a stage must fit into its part
 * of what the rank has. Stages of a mixed cluster take the time of their devices, and of the sends that hold them up;
 * there the split is best for the whole pipeline phase, not its slowest stage alone (split.h). */
gboolean balance_by_room(const Model *model, const Cluster *cluster, const Layout *layout, const PriceTable *prices,
                         LayerSplit *out);

/* The two that this tries: FALSE if none fits; whatever stages take. And whether those of a split take no more than
 * there is: a best split that fits is the one that balance_by_room() finds. */
gboolean balance_within(const Model *model, const Cluster *cluster, const Layout *layout, const PriceTable *prices,
                        LayerSplit *out);
gboolean balance_freely(const Model *model, const Cluster *cluster, const Layout *layout, const PriceTable *prices,
                        LayerSplit *out);
gboolean balance_fits(const Model *model, const Cluster *cluster, const Layout *layout, const PriceTable *prices,
                      const LayerSplit *split);

#endif
