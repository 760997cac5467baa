/*
 * When each task ran and what memory was held, predicted or measured. Every
 * report, plot and comparison reads only a trace: it does not know whether a
 * simulator or an executor made it. Times are seconds from the step's start.
 */
#ifndef TDP_TRACE_TRACE_H
#define TDP_TRACE_TRACE_H

#include "program/program.h"

#define REST_OF_NOTHING 1e-12 /* of a total: what subtractions of its parts leave where there is nothing */

typedef struct {
  double start, end;
  double exposed_tensor_s; /* of a pass: time in it that only communicates, over whichever group */
  double exposed_context_s, exposed_expert_s; /* of that: over context-parallel ranks, between experts' ranks, */
  double exposed_data_s;   /* and over all ranks of a stage */
  int segment;             /* into Trace.segments */
  guint32 micro;
  guint16 row;
  guint16 chunk;
  guint8 lane;
  guint8 kind; /* TaskKind */
  guint8 pass; /* Pass */
  guint8 paired; /* a pass that overlaps the next pass of its lane */
  int cause;   /* span that ended last among those it waited for, -1 = none */
} Span;

/* Memory of a row from a moment on. */
typedef struct {
  double time;
  double activations, buffers; /* bytes; the other parts do not change */
} MemoryPoint;

/* Rows at a rank's experts, over an even share of them; of these, those that came to the rank itself and not to one that
 * shares its experts' matrices, likewise. */
typedef struct {
  double rows, own;
} ExpertLoad;

typedef struct {
  double static_bytes[PART_COUNT];
  double cached_bytes, taken_bytes, capacity_bytes; /* as in the program */
  double used_bytes, reserved_bytes, device_bytes; /* measured by the device: most of its allocator's that tasks had,
                         that it held, and what was in use by all; 0 = not known, or predicted */
  double most_buffers; /* measured: bytes, at any moment; points have those beside which most is held */
  GArray *points; /* MemoryPoint, times rising */
} TraceRow;

typedef struct {
  int n_rows;
  TraceRow *rows;
  GArray *spans;    /* Span; each lane's spans are in the order they ran */
  ExpertLoad *loads; /* measured: by the model's copy, micro-batch and layer; NULL = predicted */
  GArray *segments; /* Segment, as in the program */
  double fragmentation;
  double step_s; /* fixed time behind the last span, part of the step */
  double end_s;  /* when the step ends, step_s included */
  gboolean unitless; /* times are in units of whoever gave them, not in seconds: a schedule alone */
} Trace;

/* An empty trace with the program's rows and segments. */
Trace *trace_new(const Program *program);
void trace_free(Trace *trace);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Trace, trace_free)

/* Of spans in the order of the program's tasks: the dependency that ended last, of equal ones the last. */
void trace_find_causes(Trace *trace, const Program *program);

/* Once all spans of a predicted trace have their times: the step's end, and what each pass exposes: of its time,
 * however slowed, its segment's share. */
void trace_finish(Trace *trace);

/* Bytes by part of a row at a moment. */
void trace_memory(const Trace *trace, int row, const MemoryPoint *point, double bytes[PART_COUNT]);

/*
 * A trace in numbers. The bubble is the mean over rows of the idle share of the
 * compute lane within the pipeline phase, from the step's start to the end of
 * the last pass. The breakdown is of the critical row, the one with the least
 * idle time, and adds up to iteration_s. Waiting is charged to what was waited
 * for.
 */
typedef struct {
  double iteration_s;
  double bubble_fraction;
  double compute_s, tensor_comm_s, context_comm_s, expert_comm_s, pipeline_comm_s, data_comm_s, offload_s,
      optimizer_s, idle_s;
  int critical_row;
  double peak_memory_bytes; /* of the worst row: whose device has least room left, or lacks most */
  double capacity_bytes;    /* of that device */
  int peak_row;
  double memory[PART_COUNT]; /* parts at that peak */
  double hardware_flops;     /* of the mean row's device in the step, recomputation included */
} Metrics;

void trace_metrics(const Trace *trace, Metrics *out);

typedef enum {
  HIDDEN_TENSOR, HIDDEN_CONTEXT, HIDDEN_EXPERT, HIDDEN_PIPELINE, HIDDEN_DATA, HIDDEN_OFFLOAD, HIDDEN_COUNT
} Hidden;

/* What a row's passes are made of, of a predicted trace whose program describes them: parts of their computation, which
 * add up to Metrics.compute_s of the critical row; what ran longer than it was priced, for what ran beside it or for a
 * slowed rank, is with COMPUTE_SLOWED. And communication and copies that ran beside: in passes beside their computation;
 * on its own lanes while passes, with what they expose, and the optimizer ran. */
typedef struct {
  gboolean known;
  double compute_s[COMPUTE_COUNT];
  double peak_s[COMPUTE_ATTENTION + 1]; /* PassParts' */
  double hidden_s[HIDDEN_COUNT];
} StepParts;

gboolean trace_parts(const Trace *trace, int row, StepParts *out); /* FALSE = not known */

/* Peak of one row, with the parts at that moment. */
double trace_row_peak(const Trace *trace, int row, double bytes[PART_COUNT]);

/* The same with what the allocator keeps of the step's copies beside the passes, where the device has room for it. */
double trace_row_reserved(const Trace *trace, int row);

/* By row, newly allocated: seconds that its passes compute, exposed communication left out; and the idle share of its
 * compute lane within the pipeline phase. */
double *trace_computes(const Trace *trace);
double *trace_bubbles(const Trace *trace);

#endif
