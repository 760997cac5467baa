/* Copies of tokens travel to the ranks of their experts and back. */
#include "exec/experts.h"

/* Copies for expert e of this rank from rank j, told to rank i of those that share it: from[(i ep + j) local + e]. */
static void load(const Experts *w, Visits *v)
{
  v->sent = g_new0(gsize, w->ep);
  v->received = g_new0(gsize, w->ep);
  v->arrived = g_new0(gsize, w->etp);
  for (int i = 0; i < w->ep; i++)
    v->sent[i] = v->first[(i + 1) * w->local] - v->first[i * w->local];
  memset(v->first, 0, (w->local + 1) * sizeof *v->first);
  for (int i = 0; i < w->etp * w->experts; i++) {
    int sharer = i / w->experts;
    v->arrived[sharer] += v->from[i];
    v->first[i % w->local + 1] += v->from[i];
    if (sharer == w->etp_rank)
      v->received[i / w->local % w->ep] += v->from[i];
  }
  for (int e = 0; e < w->local; e++)
    v->first[e + 1] += v->first[e];
  v->copies = v->first[w->local];
}

/* Each rank tells each other how many copies it has for its experts, and those that
 * share matrices what each was told. */
static void agree(const LayerRun *r, LayerState *state, const Experts *w, Visits *v)
{
  gsize bytes = w->experts * sizeof(int32_t);
  g_autofree int32_t *own_counts = g_new(int32_t, w->experts);
  g_autofree gsize *each = g_new(gsize, w->ep);

  for (int e = 0; e < w->experts; e++)
    own_counts[e] = v->first[e + 1] - v->first[e];
  for (int i = 0; i < w->ep; i++)
    each[i] = w->local;
  void *counts = memory_alloc(r->memory, r->s, PART_BUFFERS, bytes);
  state->kept[VISITS] = memory_alloc(r->memory, r->s, r->kept_as, w->etp * bytes);
  char *own = (char *)state->kept[VISITS] + w->etp_rank * bytes;
  r->b->upload(r->b, r->s, counts, own_counts, bytes);
  EXCHANGE(r, GROUP_EXPERT, all_to_all, counts, own, (ExecCounts) { each, each }, EXEC_I32);
  if (w->etp > 1)
    EXCHANGE(r, GROUP_EXPERT_TENSOR, all_gather, own, state->kept[VISITS], w->experts, EXEC_I32);
  run_drop(r, &counts);
  v->from = experts_download(r, state->kept[VISITS], w->etp * w->experts);
  load(w, v);
}

/* Copies by source, then expert, to or from copies by expert, then source. */
static void sort(const LayerRun *r, const Experts *w, const Visits *v, void *by_source, void *by_expert, gboolean back)
{
  g_autofree int32_t *next = g_memdup2(v->first, (w->local + 1) * sizeof *next);
  gsize row = r->shape.hidden, at = 0;

  for (int i = 0; i < w->etp * w->ep * w->local; i++) {
    gsize n = v->from[i] * row;
    void *one = core_at(r, by_source, at), *other = core_at(r, by_expert, next[i % w->local] * row);
    if (n > 0)
      r->b->copy(r->b, r->s, back ? one : other, back ? other : one, n * r->bytes);
    next[i % w->local] += v->from[i];
    at += n;
  }
}

/* x_rows[i] rows go to rank i of a group and y_rows[i] come. */
static void exchange(const LayerRun *r, Group group, int ranks, const void *x, const gsize *x_rows, void *y,
                     const gsize *y_rows)
{
  g_autofree gsize *x_n = g_new(gsize, ranks), *y_n = g_new(gsize, ranks);

  for (int i = 0; i < ranks; i++) {
    x_n[i] = x_rows[i] * r->shape.hidden;
    y_n[i] = y_rows[i] * r->shape.hidden;
  }
  EXCHANGE(r, group, all_to_all, x, y, (ExecCounts) { x_n, y_n }, r->b->dtype);
}

/* Where what arrived at rank i of those that share matrices starts, in rows. */
static gsize arrived_before(const Visits *v, int sharer)
{
  gsize rows = 0;

  for (int i = 0; i < sharer; i++)
    rows += v->arrived[i];
  return rows;
}

/* Ranks that share matrices give each other what they received: each has its own in place. */
static void share(const LayerRun *r, const Experts *w, const Visits *v, void *all)
{
  gsize row = r->shape.hidden;

  for (int i = 0; i < w->etp && w->etp > 1; i++)
    if (v->arrived[i] > 0)
      EXCHANGE(r, GROUP_EXPERT_TENSOR, broadcast, core_at(r, all, arrived_before(v, i) * row), v->arrived[i] * row,
               r->b->dtype, i);
}

/* Sums their parts of what each received; takes `all` over. */
static void *sum_shares(const LayerRun *r, const Experts *w, const Visits *v, void *all)
{
  g_autofree gsize *mine = g_new(gsize, w->etp);
  gsize own = v->arrived[w->etp_rank], n = own * r->shape.hidden;

  if (w->etp == 1)
    return all;
  for (int i = 0; i < w->etp; i++)
    mine[i] = own;
  void *parts = run_buffer(r, n * w->etp), *sum = run_buffer(r, n);
  exchange(r, GROUP_EXPERT_TENSOR, w->etp, all, v->arrived, parts, mine);
  run_drop(r, &all);
  r->b->copy(r->b, r->s, sum, parts, n * r->bytes);
  for (int i = 1; i < w->etp; i++)
    r->b->add(r->b, r->s, n, core_at(r, parts, i * n), sum);
  run_drop(r, &parts);
  return sum;
}

static void *send_copies(const LayerRun *r, const Experts *w, const Visits *v, void *copies, MemoryPart part)
{
  gsize row = r->shape.hidden;
  void *by_source = run_buffer(r, v->copies * row), *own = core_at(r, by_source, arrived_before(v, w->etp_rank) * row);

  exchange(r, GROUP_EXPERT, w->ep, copies, v->sent, own, v->received);
  run_drop(r, &copies);
  share(r, w, v, by_source);
  void *by_expert = memory_alloc(r->memory, r->s, part, v->copies * row * r->bytes);
  sort(r, w, v, by_source, by_expert, FALSE);
  run_drop(r, &by_source);
  return by_expert;
}

static void *return_copies(const LayerRun *r, const Experts *w, const Visits *v, void *copies, MemoryPart part)
{
  gsize row = r->shape.hidden;
  void *by_source = run_buffer(r, v->copies * row);

  sort(r, w, v, by_source, copies, TRUE);
  run_drop(r, &copies);
  void *received = sum_shares(r, w, v, by_source);
  void *own = memory_alloc(r->memory, r->s, part, v->own * row * r->bytes);
  exchange(r, GROUP_EXPERT, w->ep, received, v->received, own, v->sent);
  run_drop(r, &received);
  return own;
}

const ExpertPath expert_path_all_to_all = { .agree = agree, .send = send_copies,
                                             .back = return_copies };
