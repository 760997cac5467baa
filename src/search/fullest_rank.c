#include "search/fullest_rank.h"

#include <math.h>
#include <string.h>

/* ---- what ranks hold ---- */

typedef struct {
  const Schedule *schedule;
  int ranks, micro, chunks, group, ahead;
} HeldKey;

typedef struct {
  HeldKey key; /* compared as memory */
  GArray *held;
} Held;

struct HeldTable {
  GHashTable *known; /* Held */
};

static guint held_hash(gconstpointer p)
{
  const HeldKey *k = p;
  guint shape = ((k->ranks * 8191u + k->micro) * 127u + k->chunks) * 31u + 2 * k->group + k->ahead;

  return shape * 31u + g_direct_hash(k->schedule);
}

static gboolean held_equal(gconstpointer a, gconstpointer b)
{
  return memcmp(a, b, sizeof(HeldKey)) == 0;
}

static void held_free(gpointer data)
{
  Held *held = data;

  g_array_unref(held->held);
  g_free(held);
}

HeldTable *held_table_new(void)
{
  HeldTable *table = g_new(HeldTable, 1);

  table->known = g_hash_table_new_full(held_hash, held_equal, held_free, NULL);
  return table;
}

void held_table_free(HeldTable *table)
{
  g_hash_table_unref(table->known);
  g_free(table);
}

static GArray *find_held(const Schedule *schedule, const ScheduleShape *shape)
{
  GArray *all = g_array_new(FALSE, FALSE, sizeof(HeldRanks));
  g_autoptr(ScheduleOrder) order = shape->chunks > 1 ? schedule_order_new(schedule, shape) : NULL;

  for (int rank = 0; rank < shape->ranks; rank++) {
    HeldRanks own = { 1, order ? schedule_order_held(schedule, shape, order, rank) : schedule_peak(schedule, shape, rank) };
    HeldRanks *last = all->len ? &g_array_index(all, HeldRanks, all->len - 1) : NULL;
    if (last && last->held == own.held)
      last->ranks++;
    else
      g_array_append_val(all, own);
  }
  return all;
}

const GArray *held_ranks(HeldTable *table, const Layout *l)
{
  const Schedule *schedule = l->pipeline.schedule;
  ScheduleShape shape = l->pipeline.shape;
  HeldKey key;

  if (schedule->split || schedule->recompute || schedule->vocabulary || schedule->by_time ||
      schedule->placement != PLACE_LOOP || shape.table || shape.ranks < 2 || offload_keeps(&l->states[0].offload))
    return NULL;
  /* more micro-batches never hold less */
  shape.micro = MIN(shape.micro, 2 * MAX(shape.ranks, shape.group));
  memset(&key, 0, sizeof key);
  key.schedule = schedule;
  key.ranks = shape.ranks;
  key.micro = shape.micro;
  key.chunks = shape.chunks;
  key.group = shape.group;
  key.ahead = shape.ahead;
  Held *known = g_hash_table_lookup(table->known, &key);
  if (!known) {
    known = g_new(Held, 1);
    memcpy(&known->key, &key, sizeof key);
    known->held = find_held(schedule, &shape);
    g_hash_table_add(table->known, known);
  }
  return known->held;
}

/* ---- blocks ---- */

static gboolean same_kind(const BlockKind *kind, const LayerPrice *p)
{
  return kind->params == p->params && kind->expert_params == p->expert_params && kind->saved_bytes == p->saved_bytes &&
         memcmp(kind->narrow, p->narrow, sizeof kind->narrow) == 0 &&
         memcmp(kind->frozen, p->frozen, sizeof kind->frozen) == 0;
}

BlockKinds block_kinds(const Model *model, const PriceTable *prices)
{
  BlockKinds all = { 0 };

  for (int block = 1; block <= model->blocks; block++) {
    const LayerPrice *p = price_of_layer(prices, model, 0, block);
    int i = 0;
    while (i < all.n && !same_kind(&all.kinds[i], p))
      i++;
    if (i == all.n && i < BLOCK_KINDS)
      all.kinds[all.n++] = (BlockKind) { 0, p->params, p->expert_params, { p->narrow[0], p->narrow[1] },
                                         p->saved_bytes, { p->frozen[0], p->frozen[1] } };
    if (i < BLOCK_KINDS)
      all.kinds[i].blocks++;
  }
  return all;
}

/* ---- bytes ---- */

/* Of a block: its states, and what a forward leaves. */
typedef struct {
  double states, saved;
} BlockBytes;

static BlockBytes block_bytes(const Layout *l, const Device *device, const BlockKind *kind)
{
  HeldBytes dense = op_held(&l->states[0], device, kind->params, kind->narrow[0], kind->frozen[0], 0);
  HeldBytes apart = op_held(&l->states[1], device, kind->expert_params, kind->narrow[1], kind->frozen[1], 0);

  return (BlockBytes) { held_state_bytes(&dense) + (l->passes.experts_apart ? held_state_bytes(&apart) : 0),
                        kind->saved_bytes * (1 + l->passes.framework->fragmentation) };
}

/* The fullest rank of so many blocks, each at least that; `room` as of fullest_rank_bytes(), for blocks alone. */
static double fullest_bytes(const GArray *held, const BlockBytes *each, int blocks, double room)
{
  double parts = 0, most = 0, next = INFINITY;

  for (guint i = 0; i < held->len; i++) {
    const HeldRanks *h = &g_array_index(held, HeldRanks, i);
    double block = each->states + h->held * each->saved, whole = floor(MAX(room, 0) / block);
    if (block <= 0)
      return 0;
    parts += h->ranks / block;
    most += h->ranks * whole;
    next = MIN(next, (whole + 1) * block);
  }
  return most < blocks ? MAX(next, blocks / parts) : blocks / parts;
}

double fullest_rank_bytes(const Layout *l, const Device *device, const GArray *held, const BlockKinds *kinds,
                          double room_bytes)
{
  BlockBytes each[BLOCK_KINDS];
  double overhead = op_overhead_bytes(l), room = room_bytes / (1 - 1e-9) - overhead, most = 0;

  for (int i = 0; i < kinds->n; i++)
    each[i] = block_bytes(l, device, &kinds->kinds[i]);
  for (int i = 0; i < kinds->n; i++) {
    int blocks = 0;
    for (int k = 0; k < kinds->n; k++)
      blocks += each[k].states >= each[i].states && each[k].saved >= each[i].saved ? kinds->kinds[k].blocks : 0;
    most = fmax(most, fullest_bytes(held, &each[i], blocks, room));
  }
  return (most + overhead) * (1 - 1e-9);
}
