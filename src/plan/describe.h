/*
 * A plan for code that names, writes or checks it without looking into it; what a plan means is read from its layout
 * (layout/layout.h).
 */
#ifndef TDP_PLAN_DESCRIBE_H
#define TDP_PLAN_DESCRIBE_H

#include "base/json.h"
#include "hardware/cluster.h"
#include "model/model.h"

typedef struct Plan Plan; /* plan/plan.h */

/* One line: "tp 8, pp 8, dp 16, 1f1b, ...". Newly allocated. */
char *plan_label(const Plan *plan);

/* Node types in the order of their stages, "a100 then v100"; "" where they have the cluster's. Newly allocated. */
char *plan_types_text(const Plan *plan);

/* Choices beside degrees for which a table of plans has a column: the short name of the key of column i, and a plan's
 * value of it in words, NULL where the key means nothing for the plan. Not owned by the caller. */
#define PLAN_SHOWN 6
const char *plan_shown_name(int i);
const char *plan_shown(const Plan *plan, int i);

/* Writes the whole plan as an object under `key`. */
void plan_write(const Plan *plan, JsonWriter *writer, const char *key);

/* The same with every key of one number or name, also those that mean nothing for this plan: what tells the plan from
 * others that a search may make of it. */
void plan_write_all(const Plan *plan, JsonWriter *writer, const char *key);

/* FALSE with the error of the first rule that the plan breaks, as plan_check() says it. */
gboolean plan_is_legal(const Plan *plan, const Model *model, const Cluster *cluster, GError **error);

#endif
