#include "cost/op_times.h"

#include "cost/price.h"

#include <string.h>

#define START_ROOM 1024 /* a power of two */

typedef struct {
  const Cluster *cluster;
  const Framework *framework;
  AttentionKernel attention;
  gboolean backward;
  Op op; /* without its marks and what it keeps */
} Key;

typedef struct {
  Key key;
  double seconds;
  gboolean used;
} Entry;

struct OpTimes {
  Entry *entries;
  gsize room, n;
};

OpTimes *op_times_new(void)
{
  OpTimes *t = g_new(OpTimes, 1);

  *t = (OpTimes) { .entries = g_new0(Entry, START_ROOM), .room = START_ROOM };
  return t;
}

void op_times_free(OpTimes *t)
{
  if (!t)
    return;
  g_free(t->entries);
  g_free(t);
}

/* Compared as memory: what differs between members only makes an op unknown. */
static void fill_key(Key *key, const Op *op, const Plan *plan, const Cluster *cluster)
{
  memset(key, 0, sizeof *key);
  key->cluster = cluster;
  key->framework = plan->framework;
  key->attention = plan->attention;
  key->backward = op->pass != PASS_FORWARD;
  key->op = *op;
  key->op.name = NULL;
  key->op.pass = PASS_FORWARD;
  key->op.redone = key->op.dropped = 0;
  key->op.async = key->op.joins = FALSE;
  key->op.flops = key->op.saved_bytes = 0;
}

static guint64 hash_of(const Key *key)
{
  guint64 words[sizeof *key / sizeof(guint64)], hash = 0;

  G_STATIC_ASSERT(sizeof *key % sizeof(guint64) == 0);
  memcpy(words, key, sizeof words);
  for (gsize i = 0; i < G_N_ELEMENTS(words); i++) {
    hash = (hash ^ words[i]) * G_GUINT64_CONSTANT(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
  }
  return hash;
}

/* The key's entry, or where it belongs. */
static Entry *find(const OpTimes *t, const Key *key)
{
  gsize at = hash_of(key) & (t->room - 1);

  while (t->entries[at].used && memcmp(&t->entries[at].key, key, sizeof *key) != 0)
    at = (at + 1) & (t->room - 1);
  return &t->entries[at];
}

static void grow(OpTimes *t)
{
  OpTimes more = { g_new0(Entry, 2 * t->room), 2 * t->room, t->n };

  for (gsize i = 0; i < t->room; i++)
    if (t->entries[i].used)
      *find(&more, &t->entries[i].key) = t->entries[i];
  g_free(t->entries);
  *t = more;
}

double op_times_s(OpTimes *t, const Op *op, const Plan *plan, const Cluster *cluster)
{
  Key key;

  if (!t || op->kind == OP_MEMORY)
    return op_s(op, plan, cluster);
  fill_key(&key, op, plan, cluster);
  Entry *entry = find(t, &key);
  if (entry->used)
    return entry->seconds;
  double seconds = op_s(op, plan, cluster);
  *entry = (Entry) { key, seconds, TRUE };
  if (2 * ++t->n > t->room)
    grow(t);
  return seconds;
}
