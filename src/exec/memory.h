/*
 * The executor's allocator: hands out memory of the backend and keeps account of
 * bytes by part, so that what a rank really held can stand beside what was
 * predicted. Blocks are freed in the order of the stream that is named, and are held
 * until it comes to that, unless it is the one that computes, whose next block takes
 * their place. Memory that is out ends in the `fatal` function, which does not return.
 */
#ifndef TDP_EXEC_MEMORY_H
#define TDP_EXEC_MEMORY_H

#include "exec/backend.h"
#include "program/program.h"

typedef struct {
  Backend *backend;
  GHashTable *blocks;        /* pointer to its Block */
  BackendStream *computes;   /* NULL = of a device, to which the host is ahead: it hands on what is freed by itself */
  GArray *leaving;           /* blocks that other streams have yet to free */
  double held[PART_COUNT];   /* bytes, as of the last change: memory_held */
  GHashTable *host_blocks;   /* on the host: pointer to its bytes */
  double host_held;          /* bytes, apart from the device's */
  double limit;              /* bytes in all, 0 = none */
  double peak_activations, peak_buffers; /* held at the largest sum since memory_mark */
  double most_buffers;       /* alone, since memory_mark */
  void (*fatal)(void *data, const char *message);
  void *data;
} Memory;

void memory_init(Memory *memory, Backend *backend, double limit);
void memory_clear(Memory *memory); /* frees every block */

void *memory_alloc(Memory *memory, BackendStream *s, MemoryPart part, gsize bytes);
void *memory_alloc_zero(Memory *memory, BackendStream *s, MemoryPart part, gsize bytes);
void memory_release(Memory *memory, BackendStream *s, void *block); /* NULL is nothing */

/* Counts a block to another part from here on: a received buffer that is kept. */
void memory_retag(Memory *memory, void *block, MemoryPart part);

/* Allocates zeroed memory of the host, which is counted apart and held until memory_clear. */
void *memory_alloc_host(Memory *memory, gsize bytes);

/* Tells the bytes of a part that are held now. */
double memory_held(Memory *memory, MemoryPart part);

/* Forgets the largest sum and the largest buffers so far. */
void memory_mark(Memory *memory);

#endif
