/*
 * A trace in the dialect of torch's profiler (Kineto), for Perfetto, Chrome's
 * trace viewer, TensorBoard and Holistic Trace Analysis.
 *
 * A rank is a process (pid: its device in a rank's own file, its rank in a
 * merged one), a stream is a thread:
 *
 *   7  passes and the optimizer         22       sends to other stages
 *   20 tensor-parallel communication    23, 25.. receives from other stages
 *   21 data-parallel communication
 *
 * Slices of a stream never overlap. Tensor-parallel communication is what of it
 * a pass does not hide, drawn as one kernel at the pass's end. Receives that
 * run at once have streams of their own. Flows lead from a send to its receive
 * (where both are in the file) and from a receive to the pass that it feeds.
 * What takes less than half a nanosecond is left out. The counter "memory" has
 * the bytes held by part. Times are microseconds from the step's start, exact
 * to the nanosecond.
 *
 * Communication kernels are called nccl..., by which such tools know them, and
 * MPI_... on cores of a CPU, which tdp-run and torch join by MPI. These are names
 * of operations, such as MPI_Reduce_scatter, not of calls: tdp-run makes a sum out
 * of several. Sizes are given as elements of one byte.
 *
 * Rows of a trace hold equally many consecutive ranks.
 */
#ifndef TDP_KINETO_KINETO_H
#define TDP_KINETO_KINETO_H

#include "report/report.h"

/* One trace among those of a merged file. */
typedef struct {
  const Result *result;
  const Trace *trace;
  const char *prefix; /* of its processes' names, as in "predicted "; may be "" */
  gboolean predicted; /* else measured */
  int first_pid;      /* pid of rank 0 */
} TraceView;

/* One file of several traces, one process a row: pid and name are those of the
 * row's first rank. "-" is stdout. TDP_ERROR_RUNTIME if it cannot be written. */
gboolean report_trace_merged(const TraceView *views, int n, const char *path, GError **error);

/* rank0.json, rank1.json, ... in `folder` (made if missing), one file a rank. */
gboolean report_trace_ranks(const TraceView *view, const char *folder, GError **error);

#endif
