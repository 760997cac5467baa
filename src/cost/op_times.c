#include "cost/op_times.h"

#include "base/hash.h"
#include "cost/price.h"

#include <string.h>

typedef struct {
  const Cluster *cluster;
  const Framework *framework;
  AttentionKernel attention;
  Op op; /* without its marks and what it keeps */
} Key;

typedef struct Entry {
  Key key;
  double seconds;
  struct Entry *next; /* that was asked for behind it the last time: most layouts ask for ops in the same order */
} Entry;

struct OpTimes {
  GHashTable *entries; /* Entry, known by its key, which comes first */
  Entry *last;         /* asked for; NULL = none */
};

/* Compared as memory: what differs between members only makes an op unknown. */
static void fill_key(Key *key, const Op *op, const PassLayout *passes, const Cluster *cluster)
{
  memset(key, 0, sizeof *key);
  key->cluster = cluster;
  key->framework = passes->framework;
  key->attention = passes->attention;
  key->op = *op;
  key->op.name = NULL;
  key->op.redone = key->op.dropped = 0;
  key->op.async = key->op.overlaps = key->op.joins = key->op.counted = FALSE;
  key->op.part = 0;
  key->op.flops = key->op.saved_bytes = key->op.spare = 0;
}

static guint hash_of(gconstpointer entry)
{
  G_STATIC_ASSERT(sizeof(Key) % sizeof(guint64) == 0);
  return hash_words(entry, sizeof(Key));
}

static gboolean same(gconstpointer a, gconstpointer b)
{
  return memcmp(a, b, sizeof(Key)) == 0;
}

OpTimes *op_times_new(void)
{
  OpTimes *t = g_new(OpTimes, 1);

  *t = (OpTimes) { .entries = g_hash_table_new_full(hash_of, same, g_free, NULL) };
  return t;
}

void op_times_free(OpTimes *t)
{
  if (!t)
    return;
  g_hash_table_unref(t->entries);
  g_free(t);
}

static Entry *entry_of(OpTimes *t, const Key *key, const Op *op, const PassLayout *passes, const Cluster *cluster)
{
  Entry *entry = g_hash_table_lookup(t->entries, key);

  if (entry)
    return entry;
  entry = g_new(Entry, 1);
  *entry = (Entry) { *key, op_s(op, passes, cluster), NULL };
  g_hash_table_add(t->entries, entry);
  return entry;
}

double op_times_s(OpTimes *t, const Op *op, const PassLayout *passes, const Cluster *cluster)
{
  Key key;

  if (!t || op->kind == OP_MEMORY)
    return op_s(op, passes, cluster);
  fill_key(&key, op, passes, cluster);
  Entry *entry = t->last ? t->last->next : NULL;
  if (!entry || !same(entry, &key)) {
    entry = entry_of(t, &key, op, passes, cluster);
    if (t->last)
      t->last->next = entry;
  }
  t->last = entry;
  return entry->seconds;
}
