#include "exec/memory.h"

#include <string.h>

typedef struct {
  gsize bytes;
  MemoryPart part;
} Block;

/* A block that is freed when a stream comes to it. */
typedef struct {
  Block block;
  BackendEvent *freed;
} Leaving;

void memory_init(Memory *m, Backend *backend, double limit)
{
  *m = (Memory) { .backend = backend, .limit = limit };
  m->leaving = g_array_new(FALSE, FALSE, sizeof(Leaving));
  m->blocks = g_hash_table_new_full(NULL, NULL, NULL, g_free);
  m->host_blocks = g_hash_table_new(NULL, NULL);
}

void memory_clear(Memory *m)
{
  GHashTableIter iter;
  gpointer block, info;
  BackendStream *s = m->backend->stream_new(m->backend, FALSE);

  g_hash_table_iter_init(&iter, m->blocks);
  while (g_hash_table_iter_next(&iter, &block, &info))
    m->backend->dealloc(m->backend, s, block, ((Block *)info)->bytes);
  m->backend->sync(m->backend, s);
  m->backend->stream_free(m->backend, s);
  for (guint i = 0; i < m->leaving->len; i++)
    m->backend->event_free(m->backend, g_array_index(m->leaving, Leaving, i).freed);
  g_clear_pointer(&m->leaving, g_array_unref);
  g_hash_table_iter_init(&iter, m->host_blocks);
  while (g_hash_table_iter_next(&iter, &block, NULL))
    m->backend->host_free(m->backend, block);
  g_clear_pointer(&m->host_blocks, g_hash_table_unref);
  g_clear_pointer(&m->blocks, g_hash_table_unref);
}

static void note_peak(Memory *m)
{
  m->peak_activations = m->held[PART_ACTIVATIONS];
  m->peak_buffers = m->held[PART_BUFFERS];
}

static void count(Memory *m, MemoryPart part, double bytes)
{
  m->held[part] += bytes;
  if (m->held[PART_ACTIVATIONS] + m->held[PART_BUFFERS] > m->peak_activations + m->peak_buffers)
    note_peak(m);
  m->most_buffers = MAX(m->most_buffers, m->held[PART_BUFFERS]);
}

/* What has been freed by now is no longer held. */
static void settle(Memory *m)
{
  for (guint i = 0; i < m->leaving->len;) {
    Leaving *l = &g_array_index(m->leaving, Leaving, i);
    if (!m->backend->event_done(m->backend, l->freed)) {
      i++;
      continue;
    }
    count(m, l->block.part, -(double)l->block.bytes);
    m->backend->event_free(m->backend, l->freed);
    g_array_remove_index(m->leaving, i);
  }
}

double memory_held(Memory *m, MemoryPart part)
{
  settle(m);
  return m->held[part];
}

void memory_mark(Memory *m)
{
  settle(m);
  note_peak(m);
  m->most_buffers = m->held[PART_BUFFERS];
}

static void out_of_memory(Memory *m, const char *what, double held, gsize bytes)
{
  g_autofree char *message = g_strdup_printf("out of memory: %" G_GSIZE_FORMAT " bytes of %s beside %.0f bytes held",
                                             bytes, what, held);
  if (m->fatal)
    m->fatal(m->data, message);
  g_error("%s", message);
}

static double held_bytes(const Memory *m)
{
  double held = 0;

  for (int i = 0; i < PART_COUNT; i++)
    held += m->held[i];
  return held;
}

void *memory_alloc_host(Memory *m, gsize bytes)
{
  void *p = m->backend->host_alloc(m->backend, bytes);

  if (!p)
    out_of_memory(m, "the host", m->host_held, bytes);
  memset(p, 0, bytes);
  m->host_held += bytes;
  g_hash_table_add(m->host_blocks, p);
  return p;
}

void *memory_alloc(Memory *m, BackendStream *s, MemoryPart part, gsize bytes)
{
  void *p;

  settle(m);
  p = m->limit > 0 && held_bytes(m) + bytes > m->limit ? NULL : m->backend->alloc(m->backend, s, bytes);
  if (!p)
    out_of_memory(m, memory_part_names[part], held_bytes(m), bytes);
  Block *block = g_new(Block, 1);
  *block = (Block) { bytes, part };
  g_hash_table_insert(m->blocks, p, block);
  count(m, part, bytes);
  return p;
}

void *memory_alloc_zero(Memory *m, BackendStream *s, MemoryPart part, gsize bytes)
{
  void *p = memory_alloc(m, s, part, bytes);

  m->backend->zero(m->backend, s, p, bytes);
  return p;
}

void memory_release(Memory *m, BackendStream *s, void *p)
{
  const Block *found = p ? g_hash_table_lookup(m->blocks, p) : NULL;

  if (!p)
    return;
  g_assert(found);
  Block block = *found;
  g_hash_table_remove(m->blocks, p);
  m->backend->dealloc(m->backend, s, p, block.bytes);
  if (!m->computes || s == m->computes) {
    count(m, block.part, -(double)block.bytes);
    return;
  }
  Leaving leaving = { block, m->backend->event_new(m->backend) };
  m->backend->event_record(m->backend, leaving.freed, s);
  g_array_append_val(m->leaving, leaving);
}

void memory_retag(Memory *m, void *p, MemoryPart part)
{
  Block *block = g_hash_table_lookup(m->blocks, p);

  g_assert(block);
  count(m, block->part, -(double)block->bytes);
  count(m, part, block->bytes);
  block->part = part;
}
