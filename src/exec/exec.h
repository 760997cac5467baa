/*
 * Runs a plan for real: each rank walks its row's lanes of the program, in order
 * and waiting for the same dependencies as the simulator, on a backend; and a
 * trace of what was measured comes out, of the same rows and segments.
 *
 * One Exec a process. exec_check says beforehand what cannot be executed
 * (TDP_ERROR_INPUT). What fails later, a lost rank, memory that is out, or a loss or
 * gradients that are not finite and that no smaller loss scale would mend, ends in
 * the `fatal` function of the options, which must not return. Weights and optimizer
 * states never take up gradients that are not finite.
 *
 * To add a backend: a folder that fills backend.h's table and a line in
 * backends.c.
 */
#ifndef TDP_EXEC_EXEC_H
#define TDP_EXEC_EXEC_H

#include "exec/backend.h"
#include "exec/loss_scaler.h"
#include "layout/layout.h"
#include "trace/trace.h"

typedef struct Exec Exec;

/* This is what a drill does to this rank. */
typedef enum { FAULT_KILL, FAULT_STOP, FAULT_HANG, FAULT_MEMORY, FAULT_ERROR, FAULT_NAN, FAULT_COUNT } ExecFault;
extern const char *const exec_fault_names[];

typedef struct {
  guint64 seed;
  const char *tokens;  /* file of 16-bit tokens, NULL = made from the seed */
  double rate, beta1, beta2, epsilon, decay; /* AdamW */
  double max_norm;     /* of the gradient, 0 = not clipped */
  LossScaler scaler;   /* as it starts; zeros = the loss is not scaled */
  double memory_limit; /* bytes a rank, 0 = none */
  ExecFault fault;     /* of a drill */
  gint64 fault_at;     /* task, counted from the start of the run, that it strikes before; -1 = none */
  void (*fatal)(void *data, const char *message);
  void *data;
} ExecOptions;

ExecOptions exec_options_default(void);

/* What tasks of a kind did in a step for this rank's row, the receives of others' sends among them, and what the
 * program says of them. Counted where the backend is called, in elements: a format may differ from the program's. */
typedef struct {
  int tasks, differing;      /* that move something; of them, those that moved something else than the program says */
  double elements, expected; /* what pads parts to one size is left out */
} ExecMoved;

typedef struct {
  double loss;      /* mean over the tokens of the global batch; as the norm not finite only in a skipped step, or
                       where a 16-bit logit was not */
  double grad_norm; /* before clipping, of the loss that is not scaled */
  double loss_scale; /* that the gradients were made with, 0 = none */
  gboolean skipped; /* on all ranks, since the gradients were not finite: nothing was updated */
  double step_s;    /* of this rank, barrier to end */
  double withheld;  /* largest share of it that a rank lacked its processor, alike on all ranks; -1 = not known */
  ExecMoved moved[TASK_KIND_COUNT]; /* between ranks, by tasks of their own: zeros for passes, norm and optimizer */
  double held_bytes; /* of device memory when the step had ended */
  int remade, remade_expected;      /* blocks whose activations were made again, and of how many the program says it */
} ExecStep;

/* Takes a plan with its layout and program; the plan alone knows which choices it takes (plan/keys.h). */
gboolean exec_check(const Model *model, const Plan *plan, const Layout *layout, const Program *program, GError **error);

/* Makes groups and parameters: called by all ranks at once. The arguments
 * outlive the Exec, which does not own the backend. */
Exec *exec_new(const Model *model, const Layout *layout, const Program *program, Backend *backend,
               const ExecOptions *options, GError **error);
void exec_free(Exec *exec);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Exec, exec_free)

/* Does one training step; all ranks call it at once. */
void exec_step(Exec *exec, ExecStep *out);

/* Tells what all rows did in the last step; all ranks call it at once and get the same. */
Trace *exec_trace(Exec *exec);

/* Tells what this rank is doing, for messages; another thread may ask. */
void exec_phase(const Exec *exec, char *text, gsize size);

/* Grows with every task and kernel, from the first task on, and is 0 until then; another thread may ask. */
guint64 exec_progress(const Exec *exec);

/* Grows while this rank waits for others. */
guint64 exec_waits(const Exec *exec);

#endif
