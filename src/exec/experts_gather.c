/* Ranks that hold one copy of all experts gather each other's rows and sum what their experts make of them. */
#include "exec/experts.h"

static int block_ranks(const Experts *w)
{
  return w->ep * w->etp;
}

static ExecRoute seen(const LayerRun *r, const LayerState *state, const Experts *w)
{
  ExecRoute route = route_in(r, w, state->kept[VISITS], w->rows * block_ranks(w), w->local);

  route.capacity = w->capacity * block_ranks(w);
  return route;
}

/* Copies that visit this rank's experts get places, in the order of experts, then rows; `first` counts them. */
static void give_places(const LayerRun *r, const Experts *w, const ExecRoute *all, int32_t *first)
{
  gsize n = (gsize)all->rows * all->top;
  g_autofree int32_t *chosen = experts_download(r, all->chosen, n), *place = experts_download(r, all->place, n);

  memset(first, 0, (w->local + 1) * sizeof *first);
  for (gsize i = 0; i < n; i++) {
    int expert = chosen[i] - w->first_expert;
    if (expert < 0 || expert >= w->local)
      place[i] = -1;
    if (place[i] >= 0)
      place[i] = first[expert + 1]++;
  }
  for (int e = 0; e < w->local; e++)
    first[e + 1] = first[e] + (r->shape.layout->expert_padded ? all->capacity : first[e + 1]);
  for (gsize i = 0; i < n; i++)
    if (place[i] >= 0)
      place[i] += first[chosen[i] - w->first_expert];
  r->b->upload(r->b, r->s, all->place, place, n * sizeof *place);
  r->b->upload(r->b, r->s, all->first, first, (w->local + 1) * sizeof *first);
}

static void agree(const LayerRun *r, LayerState *state, const Experts *w, Visits *v)
{
  ExecRoute own = route_of(r, state, w);
  gsize n = (gsize)w->rows * w->top, bytes = route_bytes(r, w, w->rows * block_ranks(w), w->local);

  state->kept[VISITS] = memory_alloc(r->memory, r->s, r->kept_as, bytes);
  ExecRoute all = seen(r, state, w);
  EXCHANGE(r, GROUP_EXPERT_BLOCK, all_gather, own.weight, all.weight, n, exec_wide(r->b->dtype));
  EXCHANGE(r, GROUP_EXPERT_BLOCK, all_gather, own.chosen, all.chosen, n, EXEC_I32);
  EXCHANGE(r, GROUP_EXPERT_BLOCK, all_gather, own.place, all.place, n, EXEC_I32);
  give_places(r, w, &all, v->first);
  v->own = v->copies = v->first[w->local];
}

static void *gather(const LayerRun *r, const Experts *w, const void *x, int width)
{
  gsize n = (gsize)w->rows * width;
  void *all = run_buffer(r, n * block_ranks(w));

  EXCHANGE(r, GROUP_EXPERT_BLOCK, all_gather, x, all, n, r->b->dtype);
  return all;
}

static void *sum(const LayerRun *r, const Experts *w, void *all, int width, ExecType type)
{
  gsize n = (gsize)w->rows * width;
  void *own = memory_alloc(r->memory, r->s, PART_BUFFERS, n * exec_type_bytes(type));

  EXCHANGE(r, GROUP_EXPERT_BLOCK, reduce_scatter, all, own, n, type);
  run_drop(r, &all);
  return own;
}

const ExpertPath expert_path_gather = { .agree = agree, .seen = seen, .gather = gather, .sum = sum };
