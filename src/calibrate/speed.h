/*
 * The speed of the moment: seconds of the reference product of calibration
 * (calibrate/points.h), by all ranks at once. Processors that share a core or a
 * clock with others change theirs within seconds; a time with the reference beside
 * it can be told from that of other moments.
 */
#ifndef TDP_CALIBRATE_SPEED_H
#define TDP_CALIBRATE_SPEED_H

#include "exec/backend.h"

#include <glib.h>

typedef struct Speed Speed;

/* NULL if memory is out; `world` is of all ranks and outlives it. */
Speed *speed_new(Backend *backend, BackendComm *world);
void speed_free(Speed *speed);

/* Seconds of the product, the mean over ranks, on all of them. */
double speed_reference_s(Speed *speed);

#endif
