/* Copies of tokens travel to the ranks of their experts and back. */
#include "exec/experts.h"

static int32_t *download(const LayerRun *r, const void *from, gsize n)
{
  int32_t *host = g_new(int32_t, n);

  r->b->download(r->b, r->s, host, from, n * sizeof *host);
  return host;
}

/* Each rank tells each other how many copies it has for its experts. */
void visits_agree(const LayerRun *r, LayerState *state, const Experts *w)
{
  ExecRoute route = route_of(r, state, w);
  gsize bytes = w->experts * sizeof(int32_t);
  g_autofree int32_t *first = download(r, route.first, w->experts + 1);
  g_autofree gsize *each = g_new(gsize, w->ep);

  if (!w->apart)
    return;
  for (int e = 0; e < w->experts; e++)
    first[e] = first[e + 1] - first[e];
  for (int i = 0; i < w->ep; i++)
    each[i] = w->local;
  void *counts = memory_alloc(r->memory, r->s, PART_BUFFERS, bytes);
  state->kept[VISITS] = memory_alloc(r->memory, r->s, r->kept_as, bytes);
  r->b->upload(r->b, r->s, counts, first, bytes);
  r->b->all_to_all(r->b, r->expert, r->s, counts, each, state->kept[VISITS], each, EXEC_I32);
  run_drop(r, &counts);
}

void visits_load(const LayerRun *r, const LayerState *state, const Experts *w, Visits *v)
{
  ExecRoute route = route_of(r, state, w);
  int32_t *first = download(r, route.first, w->experts + 1);

  *v = (Visits) { .first = first, .copies = w->copies };
  if (!w->apart)
    return;
  v->from = download(r, state->kept[VISITS], w->experts);
  v->sent = g_new0(gsize, w->ep);
  v->received = g_new0(gsize, w->ep);
  v->first = g_new0(int32_t, w->local + 1);
  for (int i = 0; i < w->ep; i++) {
    v->sent[i] = first[(i + 1) * w->local] - first[i * w->local];
    for (int e = 0; e < w->local; e++) {
      v->received[i] += v->from[i * w->local + e];
      v->first[e + 1] += v->from[i * w->local + e];
    }
  }
  for (int e = 0; e < w->local; e++)
    v->first[e + 1] += v->first[e];
  v->copies = v->first[w->local];
  g_free(first);
}

void visits_clear(Visits *v)
{
  g_free(v->first);
  g_free(v->from);
  g_free(v->sent);
  g_free(v->received);
}

/* Copies by rank, then expert, to or from copies by expert, then rank. */
static void sort(const LayerRun *r, const Experts *w, const Visits *v, void *by_rank, void *by_expert, gboolean back)
{
  g_autofree int32_t *next = g_memdup2(v->first, (w->local + 1) * sizeof *next);
  gsize row = r->shape.hidden, at = 0;

  for (int i = 0; i < w->ep * w->local; i++) {
    gsize n = v->from[i] * row;
    void *one = core_at(r, by_rank, at), *other = core_at(r, by_expert, next[i % w->local] * row);
    if (n > 0)
      r->b->copy(r->b, r->s, back ? one : other, back ? other : one, n * r->bytes);
    next[i % w->local] += v->from[i];
    at += n;
  }
}

static void *exchange(const LayerRun *r, const Experts *w, void *x, const gsize *x_rows, gsize *y_rows, gsize rows,
                      MemoryPart part)
{
  g_autofree gsize *x_n = g_new(gsize, w->ep), *y_n = g_new(gsize, w->ep);
  gsize width = r->shape.hidden;
  void *y = memory_alloc(r->memory, r->s, part, rows * width * r->bytes);

  for (int i = 0; i < w->ep; i++) {
    x_n[i] = x_rows[i] * width;
    y_n[i] = y_rows[i] * width;
  }
  r->b->all_to_all(r->b, r->expert, r->s, x, x_n, y, y_n, r->b->dtype);
  run_drop(r, &x);
  return y;
}

void *copies_send(const LayerRun *r, const Experts *w, const Visits *v, void *copies, MemoryPart part)
{
  if (!w->apart) {
    memory_retag(r->memory, copies, part);
    return copies;
  }
  void *by_rank = exchange(r, w, copies, v->sent, v->received, v->copies, PART_BUFFERS);
  void *by_expert = memory_alloc(r->memory, r->s, part, (gsize)v->copies * r->shape.hidden * r->bytes);
  sort(r, w, v, by_rank, by_expert, FALSE);
  run_drop(r, &by_rank);
  return by_expert;
}

void *copies_return(const LayerRun *r, const Experts *w, const Visits *v, void *copies, MemoryPart part)
{
  if (!w->apart) {
    memory_retag(r->memory, copies, part);
    return copies;
  }
  void *by_rank = run_buffer(r, (gsize)v->copies * r->shape.hidden);
  sort(r, w, v, by_rank, copies, TRUE);
  run_drop(r, &copies);
  return exchange(r, w, by_rank, v->received, v->sent, w->copies, part);
}
