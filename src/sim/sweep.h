/*
 * The fast path: one program, many sets of durations, nothing shared.
 *
 * A program is compiled once into flat arrays in an order in which each task
 * comes behind what it waits for; a run is then one pass over them, each task
 * starting at the latest end of what it waits for. The result is simulate()'s:
 * to the last bit where no pass runs beside a collective that slows it, within
 * rounding (1e-12 of itself) where one does. A run allocates nothing.
 */
#ifndef TDP_SIM_SWEEP_H
#define TDP_SIM_SWEEP_H

#include "program/program.h"

typedef struct Sweep Sweep;

/* The program must outlive the sweep. NULL if one sweep cannot do it: devices of
 * a node slow one another, a lane other than the data lane slows computation,
 * collectives that slow rows wait for one another's passes across rows, or the
 * order depends on the times (Program.opportunistic). simulate() can. */
Sweep *sweep_new(const Program *program);
void sweep_free(Sweep *sweep);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Sweep, sweep_free)

/* Time of the step. `seconds` has an entry for each of the program's segments,
 * in place of Segment.seconds; NULL = those. */
double sweep_run(Sweep *sweep, const double *seconds);

/* End of a task in the last run. */
double sweep_end(const Sweep *sweep, int task);

/* Most activations and buffers (bytes) that a row holds at once, without its
 * static parts. NAN if it depends on the times: when more than the compute lane
 * takes or gives back memory. */
double sweep_row_peak(const Sweep *sweep, int row);

#endif
