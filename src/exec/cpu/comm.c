/* Communication: the table's calls become messages for the driver. */
#include "base/memory.h"
#include "exec/cpu/blas.h"
#include "exec/cpu/cpu.h"

#include <string.h>
#include <unistd.h>

enum { TOP_PAD_BYTES = 1 << 26, PRODUCT_US = 3000000 };

static BackendComm *comm_new(Backend *b, int color, int key, char *error)
{
  CpuBackend *cpu = cpu_of(b);

  if (cpu->driver)
    return cpu->driver->comm_new(cpu, color, key, error);
  if (color < 0)
    return NULL;
  BackendComm *c = g_new0(BackendComm, 1);
  c->size = 1;
  return c;
}

static void comm_free(Backend *b, BackendComm *c)
{
  if (!c)
    return;
  if (cpu_of(b)->driver)
    cpu_of(b)->driver->comm_free(c);
  g_free(c);
}

/* A group of one: nothing but a copy where the places differ. */
static void call(Backend *b, BackendStream *s, const CpuMessage *m)
{
  if (m->comm->size > 1)
    cpu_send(b, s, m);
  else if (m->x && m->x != m->y)
    b->copy(b, s, m->y, m->x, m->n * exec_type_bytes(m->type));
}

static void all_reduce(Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, ExecReduce op)
{
  call(b, s, &(CpuMessage) { .kind = COMM_ALL_REDUCE, .comm = c, .x = x, .y = x, .n = n, .type = type, .reduce = op });
}

static void all_gather(Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, size_t n_each,
                       ExecType type)
{
  call(b, s, &(CpuMessage) { .kind = COMM_ALL_GATHER, .comm = c, .x = x, .y = y, .n = n_each, .type = type });
}

static void reduce_scatter(Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, size_t n_each,
                           ExecType type)
{
  call(b, s, &(CpuMessage) { .kind = COMM_REDUCE_SCATTER, .comm = c, .x = x, .y = y, .n = n_each, .type = type });
}

static void all_to_all(Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, ExecCounts n,
                       ExecType type)
{
  CpuMessage m = { .kind = COMM_ALL_TO_ALL, .comm = c, .x = x, .y = y, .n = n.to[0], .type = type };

  if (c->size > 1) {
    m.counts = g_new(gsize, 2 * c->size);
    memcpy(m.counts, n.to, c->size * sizeof *n.to);
    memcpy(m.counts + c->size, n.from, c->size * sizeof *n.from);
  }
  call(b, s, &m);
}

static void send_to(Backend *b, BackendComm *c, BackendStream *s, const void *x, size_t n, ExecType type, int to)
{
  g_assert(c->size > 1);
  call(b, s, &(CpuMessage) { .kind = COMM_SEND, .comm = c, .x = x, .n = n, .type = type, .peer = to });
}

static void recv_from(Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, int from)
{
  g_assert(c->size > 1);
  call(b, s, &(CpuMessage) { .kind = COMM_RECV, .comm = c, .y = x, .n = n, .type = type, .peer = from });
}

static void broadcast(Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, int root)
{
  call(b, s, &(CpuMessage) { .kind = COMM_BROADCAST, .comm = c, .x = x, .y = x, .n = n, .type = type, .peer = root });
}

static void barrier(Backend *b, BackendComm *c, BackendStream *s)
{
  call(b, s, &(CpuMessage) { .kind = COMM_BARRIER, .comm = c });
}

static void backend_free(Backend *b)
{
  g_ptr_array_unref(cpu_of(b)->streams);
  g_free(b);
}

Backend *cpu_new(const BackendOptions *options, const CpuDriver *driver)
{
  CpuBackend *cpu = g_new(CpuBackend, 1);
  Backend *b = &cpu->base;

  *cpu = (CpuBackend) { .driver = driver, .streams = g_ptr_array_new() };
  *b = (Backend) { .name = "cpu", .units = 1, .dtype = options->dtype, .rank = options->rank, .size = options->size,
                   .free = backend_free, .comm_new = comm_new, .comm_free = comm_free, .all_reduce = all_reduce,
                   .all_gather = all_gather, .reduce_scatter = reduce_scatter, .all_to_all = all_to_all,
                   .send = send_to, .recv = recv_from, .broadcast = broadcast, .barrier = barrier };
  g_strlcpy(b->device, "one core, OpenBLAS ", sizeof b->device);
  g_strlcat(b->device, openblas_get_corename(), sizeof b->device);
  openblas_set_num_threads(1);
  memory_keep(G_MAXINT, TOP_PAD_BYTES);
  cpu_fill_streams(b);
  cpu_fill_withheld(b);
  if (options->dtype == EXEC_F64)
    cpu_fill_kernels_f64(b);
  else
    cpu_fill_kernels_f32(b);
  return b;
}

static gboolean computes_in(ExecType type, char *error)
{
  if (type == EXEC_F32 || type == EXEC_F64)
    return TRUE;
  g_strlcpy(error, "the cpu backend computes in fp32 or fp64", EXEC_ERROR_SIZE);
  return FALSE;
}

/* Larger than what OpenBLAS multiplies without its buffers. */
static gpointer multiply(gpointer data)
{
  enum { SIDE = 128 };
  g_autofree double *x = g_new0(double, SIDE * SIDE), *y = g_new0(double, SIDE * SIDE);

  blas_product_f64(FALSE, FALSE, SIDE, SIDE, SIDE, 1, x, SIDE, x, SIDE, 0, y, SIDE);
  g_atomic_int_set((gint *)data, TRUE);
  return NULL;
}

/* Where OpenBLAS finds no memory for its buffers, which it keeps from the first product on, it asks for ever. */
static gboolean multiplies(char *error)
{
  static gint done;
  GThread *thread = g_thread_try_new("product", multiply, &done, NULL);
  gint64 until = g_get_monotonic_time() + PRODUCT_US; /* naps last longer where others compute */

  while (thread && g_get_monotonic_time() < until && !g_atomic_int_get(&done))
    g_usleep(1000);
  if (g_atomic_int_get(&done)) {
    g_thread_join(thread);
    return TRUE;
  }
  g_snprintf(error, EXEC_ERROR_SIZE, "out of memory: OpenBLAS makes no first product: there is no room for its buffers "
             "or its thread");
  return FALSE;
}

Backend *cpu_open(const BackendOptions *options, char *error)
{
  cpu_choose_products();
  if (!computes_in(options->dtype, error) || !multiplies(error))
    return NULL;
  if (options->size == 1)
    return cpu_new(options, NULL);
#ifdef TDP_MPI
  return cpu_mpi_open(options, error);
#else
  g_strlcpy(error, "built without MPI, by which ranks on cores talk: expected one rank", EXEC_ERROR_SIZE);
  return NULL;
#endif
}
