/*
 * SimGrid as the other opinion on shared links: runs graphs of flows in it.
 *
 * Built with C++ where Debian's libsimgrid-dev is installed, and only for
 * tests. SimGrid's own corrections are off: bandwidth and latency factors of
 * 1, no TCP window, no cross traffic, and equal penalties, so that its rates
 * are plain max-min shares.
 */
#ifndef TDP_TESTS_SIMGRID_H
#define TDP_TESTS_SIMGRID_H

#include "../flow_graph.h"

/*
 * Runs all graphs side by side in one simulation, ends[g][f] being the end of
 * flow f of graph g; once in a process. Sizes must be whole bytes, weights whole
 * eighths. Returns the seconds of processor time that the simulation took,
 * without building its platform.
 */
G_BEGIN_DECLS
double flow_graph_run_simgrid(const FlowGraph *const *graphs, int n, double *const *ends);
G_END_DECLS

#endif
