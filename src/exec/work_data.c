/* What tasks beside and behind the passes do: parameters, gradients, the optimizer. */
#include "exec/rank.h"

/* Of the task's layers, those with the weights that it is for. */
static Unit *next_unit(Exec *x, int task, const Unit *previous)
{
  const Segment *s = exec_segment(x, task);
  Unit *u = shards_next(&x->shards, previous, s->first_layer, s->n_layers);

  while (u && !u->apart != !s->experts)
    u = shards_next(&x->shards, u, s->first_layer, s->n_layers);
  return u;
}

static BackendComm *comm_of(const Exec *x, const Unit *u)
{
  return u->apart ? x->expert_data : x->data;
}

void work_gather(Exec *x, int task, BackendStream *s)
{
  for (Unit *u = next_unit(x, task, NULL); u; u = next_unit(x, task, u)) {
    char *whole = u->weights;
    if (u->states->weight_parts > 1) {
      whole = memory_alloc(&x->memory, s, PART_BUFFERS, unit_size(u) * x->run.bytes);
      g_queue_push_tail(u->gathered, whole);
    }
    x->b->all_gather(x->b, comm_of(x, u), s, u->own_weights, whole, u->part, x->b->dtype);
    x->runs[task].moved += u->n;
  }
}

/* Sums a unit's gradients into the part that this rank owns. */
static void scatter_unit(Exec *x, Unit *u, BackendStream *s)
{
  ExecType wide = exec_wide(x->b->dtype);
  char *own = u->gradients + unit_own(u) * x->run.wide_bytes;

  x->b->reduce_scatter(x->b, comm_of(x, u), s, u->gradients, own, u->part, wide);
  if (u->states->gradient_parts == 1)
    return;
  x->b->add_wide(x->b, s, u->part, own, u->own_gradients);
  memory_release(&x->memory, s, g_steal_pointer(&u->gradients));
}

void work_reduce(Exec *x, int task, BackendStream *s)
{
  for (Unit *u = next_unit(x, task, NULL); u; u = next_unit(x, task, u)) {
    if (u->states->optimizer_parts == 1)
      x->b->all_reduce(x->b, comm_of(x, u), s, u->gradients, u->n, exec_wide(x->b->dtype), EXEC_SUM);
    else
      scatter_unit(x, u, s);
    x->runs[task].moved += u->n;
  }
}

void work_tied(Exec *x, int task, BackendStream *s)
{
  for (Unit *u = shards_next(&x->shards, NULL, 0, 0); u; u = shards_next(&x->shards, u, 0, 0))
    if (unit_is_table(u)) {
      gboolean whole = u->states->gradient_parts == 1;
      gsize n = whole ? u->n : u->part;
      x->b->all_reduce(x->b, x->tied, s, whole ? u->gradients : u->own_gradients, n, exec_wide(x->b->dtype), EXEC_SUM);
      x->runs[task].moved += n;
    }
}

void work_copies(Exec *x, int task, BackendStream *s)
{
  for (Unit *u = shards_next(&x->shards, NULL, 0, 0); u; u = shards_next(&x->shards, u, 0, 0)) {
    x->b->all_reduce(x->b, x->copies, s, u->own_gradients, u->part, exec_wide(x->b->dtype), EXEC_SUM);
    x->runs[task].moved += u->part;
  }
}

typedef void (*VisitOwn)(Exec *x, const Unit *u, const Param *p, char *gradient, gsize n, BackendStream *s, void *data);

/* Calls `visit` with each param of which this rank owns elements. */
static void each_own(Exec *x, VisitOwn visit, BackendStream *s, void *data)
{
  for (Unit *u = shards_next(&x->shards, NULL, 0, 0); u; u = shards_next(&x->shards, u, 0, 0))
    for (guint i = 0; i < u->params->len; i++) {
      const Param *p = &g_array_index(u->params, Param, i);
      gsize offset, n = shards_own(u, p, &offset);
      if (n > 0)
        visit(x, u, p, u->own_gradients + offset * x->run.wide_bytes, n, s, data);
    }
}

/* Gradients that lie behind each other. */
typedef struct {
  char *first;
  gsize n; /* elements */
} Stretch;

static void note_partial(Exec *x, const Unit *u, const Param *p, char *gradient, gsize n, BackendStream *s, void *data)
{
  (void)x, (void)u, (void)s;
  if (p->partial)
    g_array_append_vals(data, &(Stretch) { gradient, n }, 1);
}

/* Under sequence parallelism each tensor-parallel rank has seen its own rows only. */
static void sum_partial(Exec *x, BackendStream *s)
{
  g_autoptr(GArray) parts = g_array_new(FALSE, FALSE, sizeof(Stretch));
  gsize n = 0, wide = x->run.wide_bytes;

  each_own(x, note_partial, s, parts);
  for (guint i = 0; i < parts->len; i++)
    n += g_array_index(parts, Stretch, i).n;
  if (n == 0)
    return;
  char *packed = memory_alloc(&x->memory, s, PART_BUFFERS, n * wide);
  for (int back = 0; back < 2; back++) {
    char *at = packed;
    for (guint i = 0; i < parts->len; i++) {
      const Stretch *part = &g_array_index(parts, Stretch, i);
      x->b->copy(x->b, s, back ? part->first : at, back ? at : part->first, part->n * wide);
      at += part->n * wide;
    }
    if (!back)
      x->b->all_reduce(x->b, x->tensor_late, s, packed, n, exec_wide(x->b->dtype), EXEC_SUM);
  }
  memory_release(&x->memory, s, packed);
}

static void sum_stretch(Exec *x, const Stretch *stretch, BackendStream *s)
{
  if (stretch->n > 0)
    x->b->sum_squares(x->b, s, stretch->n, stretch->first, x->sums + SUM_NORM_SQ);
}

/* Each value of the model once. */
static void add_square(Exec *x, const Unit *u, const Param *p, char *gradient, gsize n, BackendStream *s, void *data)
{
  Stretch *stretch = data;
  gboolean twice = p->copy || (x->copies && x->row > x->program->n_rows - 1 - x->row) ||
                   (p->replicated && x->shape.tp_rank > 0) || (u->states->optimizer_parts == 1 && u->number > 0);

  if (twice)
    return;
  if (stretch->n > 0 && gradient == stretch->first + stretch->n * x->run.wide_bytes) {
    stretch->n += n;
    return;
  }
  sum_stretch(x, stretch, s);
  *stretch = (Stretch) { gradient, n };
}

void work_norm(Exec *x, int task, BackendStream *s)
{
  Stretch stretch = { 0 };

  (void)task;
  sum_partial(x, s);
  each_own(x, add_square, s, &stretch);
  sum_stretch(x, &stretch, s);
  x->b->copy(x->b, s, x->sums + SUM_OWN_NORM_SQ, x->sums, SUM_OWN_NORM_SQ * sizeof *x->sums);
  x->b->all_reduce(x->b, x->world, s, x->sums, SUM_OWN_NORM_SQ, EXEC_F64, EXEC_SUM);
}

/* Gradients down, the host's step, weights up. */
static void update_on_host(Exec *x, Unit *u, ExecAdam *a, BackendStream *s)
{
  gboolean narrow = x->run.bytes < x->run.wide_bytes;

  x->b->host_down(x->b, s, u->host_gradients, u->own_gradients, u->part * x->run.wide_bytes);
  a->gradient = u->host_gradients;
  a->weight = narrow ? u->host_gradients : NULL;
  a->norm_sq = &x->host_norm_sq;
  x->b->host_adam(x->b, s, a);
  x->b->host_up(x->b, s, u->own_weights, narrow ? u->host_gradients : u->master, u->part * x->run.bytes);
}

static void update(Exec *x, Unit *u, BackendStream *s)
{
  const ExecOptions *o = &x->options;
  ExecAdam a = {
    .n = u->part, .weight = u->own_weights, .master = u->master, .gradient = u->own_gradients, .m = u->m, .v = u->v,
    .rate = o->rate, .beta1 = o->beta1, .beta2 = o->beta2, .epsilon = o->epsilon, .decay = o->decay,
    .step = x->updates + 1, .loss_scale = x->run.loss_scale, .norm_sq = x->sums + SUM_NORM_SQ, .max_norm = o->max_norm,
  };

  if (x->shards.host)
    update_on_host(x, u, &a, s);
  else
    x->b->adam(x->b, s, &a);
  if (u->gradients)
    x->b->zero(x->b, s, u->gradients, unit_size(u) * x->run.wide_bytes);
  else
    x->b->zero(x->b, s, u->own_gradients, u->part * x->run.wide_bytes);
}

void work_optimizer(Exec *x, int task, BackendStream *s)
{
  (void)task;
  if (x->shards.host)
    x->b->download(x->b, s, &x->host_norm_sq, x->sums + SUM_NORM_SQ, sizeof x->host_norm_sq);
  for (Unit *u = shards_next(&x->shards, NULL, 0, 0); u; u = shards_next(&x->shards, u, 0, 0)) {
    update(x, u, s);
    memory_release(&x->memory, s, g_steal_pointer(&u->held));
  }
}
