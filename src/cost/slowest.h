/*
 * How much longer than their mean the slowest of several ranks takes, for which
 * the others wait.
 */
#ifndef TDP_COST_SLOWEST_H
#define TDP_COST_SLOWEST_H

#include "hardware/device.h"
#include "layout/layout.h"

/* The expected largest of n standard normal values: 0, 0.564, 0.846 ... 3.241 of 1,000. */
double expected_largest(int n);

/* Time on the slowest of `devices` devices of one kind over the mean: 1 + rate_spread times the expected largest. */
double slowest_device(const Device *device, int devices);

/*
 * Ranks that meet inside passes wait for the slowest of them in each pass, whose
 * rates differ from pass to pass (Device.rate_passing) beside what lasts.
 *
 * With rates that also change in time, a rank waits for the slowest of those it
 * meets, on average over the time since they met: those of its tensor- and
 * context-parallel group at each collective of a pass, those of other stages
 * about once for every micro-batch in flight, and all replicas once a step (or a
 * gather). Ranks met inside passes are in the layers' prices, the others are not.
 */
typedef struct {
  int met;                               /* PassLayout's */
  double passing_s;                      /* 0: the ranks of a stage meet behind no passes; else seconds of those
                                            between two meetings, over which deviations of passes average */
  double inside_s, stages_s, replicas_s; /* between meetings; only the first matters for `inside` */
} Meetings;

double slowest_inside(const Device *device, const PassLayout *passes, double inside_s);
double slowest_of_all(const Device *device, const Mesh *mesh, const Meetings *meetings);

/* Share of a fluctuation's variance that is left on average over an interval:
 * of an Ornstein-Uhlenbeck process with correlation time 1. */
double jitter_left(double interval);

#endif
