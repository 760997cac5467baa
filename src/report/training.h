/* A whole training run on a plan: steps, time, GPU-hours, money and energy for so
 * many tokens. Money only where the cluster has a price, energy only where the
 * device has a power; the device is taken to draw it all the time. */
#ifndef TDP_REPORT_TRAINING_H
#define TDP_REPORT_TRAINING_H

#include "report/report.h"

typedef struct {
  double steps, seconds, gpu_hours, usd, joules; /* usd, joules: 0 = not known */
} Training;

Training training_of(const Layout *layout, const Cluster *cluster, double step_s, double tokens);

char *training_text(const Result *result, double tokens);
void training_write(const Result *result, double tokens, JsonWriter *writer); /* as the object "training" */

/* What is said where there is no price. */
#define TRAINING_NO_PRICE "no price is known for this cluster; give one with --price"

#endif
