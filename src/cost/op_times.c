#include "cost/op_times.h"

#include "cost/price.h"

#include <string.h>

#define KEY_SIZES 5
#define START_ROOM 1024 /* a power of two */

typedef struct {
  const Cluster *cluster;
  const Framework *framework;
  double sizes[KEY_SIZES];
  GroupShape group;
  int which[6]; /* kind, and what counts of its marks */
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

/* Bytes between members are zero too: keys are compared as memory. */
static void fill_key(Key *key, const Op *op, const Plan *plan, const Cluster *cluster)
{
  double *sizes = key->sizes;
  int *which = key->which;

  memset(key, 0, sizeof *key);
  key->cluster = cluster;
  key->framework = plan->framework;
  which[0] = op->kind;
  if (op->kind == OP_MATMUL) {
    sizes[0] = op->matmul.m, sizes[1] = op->matmul.n, sizes[2] = op->matmul.k, sizes[3] = op->matmul.batch;
    sizes[4] = op->matmul.accumulate_bytes;
    which[1] = op->matmul.dtype, which[2] = op->matmul.activations;
  } else if (op->kind == OP_ATTENTION) {
    sizes[0] = op->attention.batch, sizes[1] = op->attention.heads, sizes[2] = op->attention.q_len;
    sizes[3] = op->attention.kv_len;
    which[1] = op->attention.dtype, which[2] = op->attention.head_dim, which[3] = op->attention.v_head_dim;
    which[4] = plan->attention;
    which[5] = op->attention.causal | op->attention.dropout << 1 | (op->pass != PASS_FORWARD) << 2;
  } else {
    sizes[0] = op->collective.bytes;
    key->group = op->collective.group;
    which[1] = op->collective.what;
  }
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
