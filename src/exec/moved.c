/* Whether a step did what the program says, counted where the backend is called. */
#include "exec/rank.h"
#include "op/op.h"

#include <math.h>

/* Bytes that the program counts for an element; 0 = what tasks of the kind move is not counted here. */
static double element_bytes(const Exec *x, int task)
{
  const Segment *s = exec_segment(x, task);
  const StateLayout *states = &x->layout->states[s->experts];

  switch (s->kind) {
  case TASK_GATHER:
    return op_gathered_bytes(states, 1, 0);
  case TASK_REDUCE:
  case TASK_TIED:
  case TASK_COPIES:
    return x->layout->states[0].reduce_bytes;
  case TASK_SEND:
    return MIN(x->run.bytes, exec_type_bytes(EXEC_F32));
  default:
    return 0;
  }
}

static void note_task(const Exec *x, int task, ExecMoved *moved)
{
  double bytes = element_bytes(x, task), expected = bytes > 0 ? exec_segment(x, task)->comm_bytes / bytes : 0;
  double elements = x->runs[task].moved;

  moved->tasks += bytes > 0;
  moved->differing += fabs(elements - expected) >= x->shards.units->len; /* parts of units are rounded up */
  moved->elements += elements;
  moved->expected += expected;
}

/* Blocks of a pass that find no activations: of a schedule's own slots for that, else of what goes back. */
static int remade_by(const Exec *x, const Task *t)
{
  const Segment *s = &g_array_index(x->program->segments, Segment, t->segment);
  gboolean remakes = x->program->remakes ? t->pass == PASS_RECOMPUTE : t->pass == PASS_BACKWARD || t->pass == PASS_INPUT;
  int n = 0;

  for (int layer = s->first_layer; remakes && layer < s->first_layer + s->n_layers; layer++)
    n += model_layer(x->model, layer)->kind == LAYER_BLOCK;
  return n;
}

void moved_note(Exec *x, ExecStep *out)
{
  for (guint i = 0; i < x->program->tasks->len; i++) {
    const Task *t = exec_task(x, i);
    if (t->row == x->row || x->runs[i].arrives)
      note_task(x, i, &out->moved[t->kind]);
    if (t->row == x->row && t->kind == TASK_PASS && x->layout->passes.recompute.granularity != RECOMPUTE_NONE)
      out->remade_expected += remade_by(x, t);
  }
  out->remade = x->remade;
  for (int part = 0; part < PART_COUNT; part++)
    out->held_bytes += memory_held(&x->memory, part);
}
