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
  g_autoptr(ScheduleOrder) order = NULL;

  for (int rank = 0; rank < shape->ranks; rank++) {
    HeldRanks own = { 1, schedule_held(schedule, shape, rank) };
    if (own.held == 0) {
      order = order ? order : schedule_order_new(schedule, shape);
      own.held = schedule_order_held(schedule, shape, order, rank);
    }
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

gboolean block_kind_same_states(const BlockKind *a, const BlockKind *b)
{
  return a->params == b->params && a->expert_params == b->expert_params &&
         memcmp(a->narrow, b->narrow, sizeof a->narrow) == 0 && memcmp(a->frozen, b->frozen, sizeof a->frozen) == 0;
}

static gboolean same_kind(const BlockKind *a, const BlockKind *b)
{
  return block_kind_same_states(a, b) && a->saved_bytes == b->saved_bytes;
}

BlockKinds block_kinds(const Model *model, const PriceTable *prices)
{
  BlockKinds all = { 0 };

  for (int block = 1; block <= model->blocks; block++) {
    const LayerPrice *p = price_of_layer(prices, model, 0, block);
    const BlockKind own = { 0, p->params, p->expert_params, { p->narrow[0], p->narrow[1] }, p->saved_bytes,
                            { p->frozen[0], p->frozen[1] } };
    int i = 0;
    while (i < all.n && !same_kind(&all.kinds[i], &own))
      i++;
    if (i == all.n && i < BLOCK_KINDS)
      all.kinds[all.n++] = own;
    if (i < BLOCK_KINDS)
      all.kinds[i].blocks++;
  }
  return all;
}

/* ---- bytes ---- */

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

HeldBlocks held_blocks(const Layout *l, const Device *device, const BlockKinds *kinds)
{
  HeldBlocks all = { .n = kinds->n, .overhead = op_overhead_bytes(l) };

  for (int i = 0; i < kinds->n; i++) {
    all.blocks[i] = kinds->kinds[i].blocks;
    all.each[i] = block_bytes(l, device, &kinds->kinds[i]);
  }
  return all;
}

gboolean held_blocks_lower(HeldBlocks *all, const HeldBlocks *others)
{
  gboolean alike = all->n == others->n && memcmp(all->blocks, others->blocks, sizeof all->blocks) == 0;

  all->overhead = fmin(all->overhead, others->overhead);
  for (int i = 0; i < all->n && alike; i++) {
    all->each[i].states = fmin(all->each[i].states, others->each[i].states);
    all->each[i].saved = fmin(all->each[i].saved, others->each[i].saved);
  }
  return alike;
}

double held_blocks_bytes(const HeldBlocks *all, const GArray *held, double room_bytes)
{
  double room = room_bytes / (1 - 1e-9) - all->overhead, most = 0;

  for (int i = 0; i < all->n; i++) {
    const BlockBytes *each = &all->each[i];
    int blocks = 0;
    for (int k = 0; k < all->n; k++)
      blocks += all->each[k].states >= each->states && all->each[k].saved >= each->saved ? all->blocks[k] : 0;
    most = fmax(most, fullest_bytes(held, each, blocks, room));
  }
  return (most + all->overhead) * (1 - 1e-9);
}

double fullest_rank_bytes(const Layout *l, const Device *device, const GArray *held, const BlockKinds *kinds,
                          double room_bytes)
{
  const HeldBlocks all = held_blocks(l, device, kinds);

  return held_blocks_bytes(&all, held, room_bytes);
}
