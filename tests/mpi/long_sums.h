/*
 * Sums of gradients that last: on streams beside the computation a sum ends only when its rank has computed since it
 * began, or after LONGEST_S where it computes nothing. So it is seen what computes beside sums, however fast sums are,
 * and whichever rank has the core. The backend's driver and some functions of its table are replaced by ones that go
 * on to the real ones. One backend a process.
 */
#ifndef TDP_TESTS_MPI_LONG_SUMS_H
#define TDP_TESTS_MPI_LONG_SUMS_H

#include "exec/cpu/cpu.h"

#define LONGEST_S 5e-3

typedef struct {
  int products; /* of this rank, when it began */
  double since_s;
} LongSum;

static struct {
  Backend table;        /* as it was */
  const CpuDriver *real;
  CpuDriver driver;
  GHashTable *comms;    /* of streams beside the computation */
  GHashTable *sums;     /* LongSum, of each message that may not end yet */
  int products;
} long_sums;

static inline void long_sums_begin(CpuBackend *b, CpuMessage *m)
{
  LongSum sum = { long_sums.products, b->base.now_s(&b->base) };

  long_sums.real->begin(b, m);
  if ((m->kind == COMM_ALL_REDUCE || m->kind == COMM_REDUCE_SCATTER) && g_hash_table_contains(long_sums.comms, m->comm))
    g_hash_table_insert(long_sums.sums, m, g_memdup2(&sum, sizeof sum));
}

static inline gboolean long_sums_test(CpuBackend *b, CpuMessage *m)
{
  const LongSum *sum = g_hash_table_lookup(long_sums.sums, m);

  if (sum && sum->products == long_sums.products && b->base.now_s(&b->base) < sum->since_s + LONGEST_S)
    return FALSE;
  g_hash_table_remove(long_sums.sums, m);
  return long_sums.real->test(b, m);
}

static inline void long_sums_gemm(Backend *b, BackendStream *s, const ExecGemm *g)
{
  long_sums.products++;
  long_sums.table.gemm(b, s, g);
}

static inline void long_sums_note(BackendComm *c, const BackendStream *s)
{
  if (!s->computes)
    g_hash_table_add(long_sums.comms, c);
}

static inline void long_sums_all_reduce(Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type,
                                        ExecReduce op)
{
  long_sums_note(c, s);
  long_sums.table.all_reduce(b, c, s, x, n, type, op);
}

static inline void long_sums_reduce_scatter(Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y,
                                            size_t n_each, ExecType type)
{
  long_sums_note(c, s);
  long_sums.table.reduce_scatter(b, c, s, x, y, n_each, type);
}

static inline void long_sums_comm_free(Backend *b, BackendComm *c)
{
  g_hash_table_remove(long_sums.comms, c);
  long_sums.table.comm_free(b, c);
}

/* Of a backend of cores that talk; of another, nothing. TRUE: its sums last from now on. */
static inline gboolean long_sums_start(Backend *b)
{
  CpuBackend *cpu = cpu_of(b);

  if (!g_str_equal(b->name, "cpu") || !cpu->driver)
    return FALSE;
  long_sums.table = *b;
  long_sums.real = cpu->driver;
  long_sums.driver = *cpu->driver;
  long_sums.driver.begin = long_sums_begin;
  long_sums.driver.test = long_sums_test;
  long_sums.comms = g_hash_table_new(NULL, NULL);
  long_sums.sums = g_hash_table_new_full(NULL, NULL, NULL, g_free);
  cpu->driver = &long_sums.driver;
  b->gemm = long_sums_gemm;
  b->all_reduce = long_sums_all_reduce;
  b->reduce_scatter = long_sums_reduce_scatter;
  b->comm_free = long_sums_comm_free;
  return TRUE;
}

static inline void long_sums_stop(void)
{
  g_clear_pointer(&long_sums.comms, g_hash_table_unref);
  g_clear_pointer(&long_sums.sums, g_hash_table_unref);
}

#endif
