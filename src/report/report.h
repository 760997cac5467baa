/*
 * What people and programs read of a trace: summary, JSON, CSV, timeline as
 * text, plots. One file a format; all of them read only a Result and its trace,
 * so that a measured step is reported as a simulated one. Texts are newly
 * allocated, in UTF-8, and end in a newline; only plots can fail. Rows of a
 * trace are called stages.
 *
 * To add a format: a file here and its declaration.
 */
#ifndef TDP_REPORT_REPORT_H
#define TDP_REPORT_REPORT_H

#include "accuracy/accuracy.h"
#include "base/json.h"
#include "layout/layout.h"
#include "plan/describe.h"
#include "trace/trace.h"

/* One plan with what came out of it, in the contract's terms. Model, cluster and plan
 * are not owned and outlive it; reports name the plan, and read its layout. */
typedef struct {
  const Model *model;
  const Cluster *cluster;
  const Plan *plan;
  Layout layout;
  Metrics metrics;
  StepParts parts;                 /* of the critical stage */
  gboolean slow_ranks;             /* some are slow of themselves, which is with COMPUTE_SLOWED */
  double tokens;                   /* of a step */
  double tokens_per_s, tokens_per_s_per_gpu;
  double model_flops_per_s_per_gpu;    /* without recomputation */
  double hardware_flops_per_s_per_gpu; /* with it */
  double mfu, hfu;                 /* shares of the dense peak of the plan's precision */
  gboolean fits;                   /* within what the cluster's margin leaves (cluster_keep_free) */
  const Accuracy *accuracy;        /* that `estimate` is by; not owned, NULL = by none */
  Estimate estimate;
} Result;

Result result_of(const Model *model, const Cluster *cluster, const Plan *plan, const Trace *trace);

/* The same where the trace is gone and its metrics are kept. */
Result result_of_metrics(const Model *model, const Cluster *cluster, const Plan *plan, const Metrics *metrics);

/* The share of what MFU counts that kernels do: the rest are scores of attention that causal masks and windows hide. */
double result_unmasked(const Result *result);

/* FALSE with TDP_ERROR_RUNTIME if a prediction would use more than all of the devices' arithmetic: no answer is better
 * than that one. What causal masks hide, which MFU and HFU count and kernels leave out, is deducted. */
gboolean result_check(const Result *result, GError **error);

/* Fills in how far the prediction holds; NULL = nothing is known. */
void result_estimate(Result *result, const Accuracy *accuracy);

/* Of a result with an estimate: "12.1 to 14.4 s". Of any: "13.2 s (12.1 to 14.4)", "fits in the 80.0 GiB of
 * a device with a probability of 93 %", and a line on what is beyond all measured runs, or nothing. */
char *result_interval_text(const Result *result);
char *result_step_text(const Result *result);
char *result_fit_text(const Result *result);
char *result_beyond_text(const Result *result);

/* The cluster whose devices a row runs on: a node type of a mixed one. */
const Cluster *result_site(const Result *result, int row);

/* "h100-sxm5-80gb", of mixed clusters "a100-sxm4-40gb and v100-sxm2-32gb"; with numbers "16 × h100-sxm5-80gb". And what
 * the stage of Metrics.peak_row is: "the fullest stage"; devices that differ are compared by the room that is left. */
char *result_devices_text(const Result *result, gboolean numbers);
const char *result_peak_text(const Result *result);

/* Of whom Metrics.data_comm_s is: "data parallel", and where no weights stand on several ranks of a stage what else
 * ends a step: the "embedding group", "model copies" (DualPipe's) or the "gradient norm". As an adjective, newly
 * allocated: "data-parallel". */
const char *result_data_text(const Result *result);
char *result_data_adjective(const Result *result);

/* The keys of the contract, as an object under `key`; with a trace also `stages`:
 * peak memory by part, idle share and computation of each. */
void result_write(const Result *result, const Trace *trace, JsonWriter *writer, const char *key);

/* The same with what such a document begins with: its schema, tdp-sim-1, and the question. */
void result_put_document(const Result *result, const Trace *trace, JsonWriter *writer);

/* Inputs with the provenance of their constants, speed, time by cause, memory by part. */
char *report_inputs(const Result *result);                       /* model, cluster, links, software, batch */
char *report_summary(const Result *result);                      /* plan, speed, time breakdown, memory by part */

/* Why the step takes what it takes: where the critical stage's time goes, how
 * stages differ, how the bubble compares to the schedule's own, what is full. */
char *report_explain(const Result *result, const Trace *trace);

/* A table of each distinct communication: what it is for, kind, size, group, the
 * algorithm chosen with its time and bus bandwidth, the runner-up with its time,
 * and how often the critical stage does it in a step. The longest in all comes
 * first. The trace is of a program that describes its passes. */
char *report_collectives(const Result *result, const Trace *trace);

/* The same as `communication` of an open object: each an object of the array, also those of other stages. */
void report_collectives_write(const Result *result, const Trace *trace, JsonWriter *writer);

/* Both into an open object: sentences as `why`, and report_collectives_write(). */
void report_explain_write(const Result *result, const Trace *trace, JsonWriter *writer);

char *report_stages(const Trace *trace);                         /* peak memory of each stage by part */
/* Of a mixed cluster: each stage's devices and load. */
char *report_placement(const Result *result, const Trace *trace);
/* Each operator of each distinct pass of a layer, as it runs; `layer` is the first that runs it. */
char *report_ops(const Result *result, const Trace *trace);

/* The same as `operators` of an open object: seconds of one, with its floating-point operations or, where it has none, the
 * bytes that it moves. */
void report_ops_write(const Result *result, const Trace *trace, JsonWriter *writer);

/* One line a stage, F and B with the micro-batch where there is room, bubble and
 * peak memory at the right, time below; `colored` by a terminal's escapes, in the
 * colours of the pictures. No line is longer than `columns`, if these are at least 16. */
char *report_timeline(const Trace *trace, int columns, gboolean colored);

/* The memory of the fullest stage over the step as an area of blocks; with colours by part, for a terminal. No line has
 * more columns than that. */
char *report_memory_drawn(const Result *result, const Trace *trace, int columns, gboolean colored);

/* One line a span, in order of stage, lane and time; `after` is the id of the span
 * that it waited for last. Empty cells do not apply. Behind them a line of each stage, whose kind is "fixed time", has
 * what the step takes after its tasks, so that the last line ends with the step; none where that is 0. */
char *report_csv(const Trace *trace);

/* timeline.svg and .png, memory.svg and .png, and for a step of too many passes timeline-start.svg and .png, in `folder`
 * (made if missing), through gnuplot and the scripts in plots/; with `pixels` above 0 the same as .six, sixels for a
 * terminal so wide. TDP_ERROR_RUNTIME if gnuplot is missing or fails, or the folder cannot be made or written. */
gboolean report_plots(const Result *result, const Trace *trace, const char *folder, int pixels, GError **error);

/* The timeline alone, of a schedule without a plan, below a title and what it says. */
gboolean report_schedule_plot(const Trace *trace, const char *title, const char *says, const char *folder, int pixels,
                              GError **error);

#endif
