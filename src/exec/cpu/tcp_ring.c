/* Collectives as rings: each step sends one block to the next rank and receives one
 * from the previous (Patarasuk and Yuan 2009, doi 10.1016/j.jpdc.2008.09.002). */
#include "exec/cpu/tcp.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  TcpOut out;
  TcpIn in;
  int step, steps;
} Request;

typedef struct {
  int (*steps)(const CpuMessage *m);
  void (*start)(CpuBackend *b, CpuMessage *m, Request *r); /* a step's frames */
  void (*end)(CpuMessage *m, Request *r);                  /* when both have gone; may be NULL */
  gboolean reduces;                                        /* needs scratch of one block, or two */
} Kind;

static gsize bytes_of(const CpuMessage *m, gsize n)
{
  return n * exec_type_bytes(m->type);
}

static guint32 comm_id(const CpuMessage *m)
{
  return ((TcpComm *)m->comm->handle)->id;
}

/* The rank of the world that stands `distance` behind this one. */
static int neighbour(const CpuMessage *m, int distance)
{
  int size = m->comm->size;

  return ((TcpComm *)m->comm->handle)->ranks[((m->comm->rank + distance) % size + size) % size];
}

static int block_at(const CpuMessage *m, int distance)
{
  int size = m->comm->size;

  return ((m->comm->rank - distance) % size + size) % size;
}

static void exchange(CpuBackend *b, CpuMessage *m, Request *r, const void *out, gsize out_n, void *in, gsize in_n)
{
  tcp_recv(b, &r->in, comm_id(m), neighbour(m, -1), in, bytes_of(m, in_n));
  tcp_send(b, &r->out, comm_id(m), neighbour(m, 1), out, bytes_of(m, out_n));
}

#define REDUCE(type)                                                          \
  do {                                                                        \
    const type *from = x;                                                     \
    type *to = y;                                                             \
    for (gsize i = 0; i < n; i++)                                             \
      to[i] = op == EXEC_MAX ? MAX(to[i], from[i]) : to[i] + from[i];         \
  } while (0)

/* y = y op x */
static void reduce(ExecType dtype, ExecReduce op, const void *x, void *y, gsize n)
{
  switch (dtype) {
  case EXEC_F64:
    REDUCE(double);
    break;
  case EXEC_F32:
    REDUCE(float);
    break;
  case EXEC_I32:
    REDUCE(gint32);
    break;
  default:
    g_assert_not_reached(); /* 16-bit numbers are moved only */
  }
}

/* An all-reduce divides its n elements into a block a rank. */
static gsize block_first(const CpuMessage *m, int block)
{
  return m->n * block / m->comm->size;
}

static gsize block_size(const CpuMessage *m, int block)
{
  return block_first(m, block + 1) - block_first(m, block);
}

static int all_reduce_steps(const CpuMessage *m)
{
  return 2 * (m->comm->size - 1);
}

/* First blocks are summed around the ring, then handed around. */
static void all_reduce_start(CpuBackend *b, CpuMessage *m, Request *r)
{
  gboolean sums = r->step < m->comm->size - 1;
  int at = sums ? r->step : r->step - m->comm->size, out = block_at(m, at), in = block_at(m, at + 1);
  char *place = (char *)m->y + bytes_of(m, block_first(m, in));

  exchange(b, m, r, (char *)m->y + bytes_of(m, block_first(m, out)), block_size(m, out), sums ? m->scratch : place,
           block_size(m, in));
}

static void all_reduce_end(CpuMessage *m, Request *r)
{
  int in = block_at(m, r->step + 1);

  if (r->step < m->comm->size - 1)
    reduce(m->type, m->reduce, m->scratch, (char *)m->y + bytes_of(m, block_first(m, in)), block_size(m, in));
}

static int ring_steps(const CpuMessage *m)
{
  return m->comm->size - 1;
}

static void all_gather_start(CpuBackend *b, CpuMessage *m, Request *r)
{
  gsize block = bytes_of(m, m->n);

  if (r->step == 0)
    memmove((char *)m->y + m->comm->rank * block, m->x, block);
  exchange(b, m, r, (char *)m->y + block_at(m, r->step) * block, m->n, (char *)m->y + block_at(m, r->step + 1) * block,
           m->n);
}

/* Sums travel in two buffers by turns; the source stays as it is. */
static void scatter_start(CpuBackend *b, CpuMessage *m, Request *r)
{
  gsize block = bytes_of(m, m->n);
  char *sums = m->scratch, *out = sums + (r->step + 1) % 2 * block;

  exchange(b, m, r, r->step == 0 ? (const char *)m->x + block_at(m, 1) * block : out, m->n, sums + r->step % 2 * block,
           m->n);
}

static void scatter_end(CpuMessage *m, Request *r)
{
  gsize block = bytes_of(m, m->n);
  char *sum = (char *)m->scratch + r->step % 2 * block;

  reduce(m->type, m->reduce, (const char *)m->x + block_at(m, r->step + 2) * block, sum, m->n);
  if (r->step == r->steps - 1)
    memcpy(m->y, sum, block);
}

static gsize sum_before(const gsize *counts, int rank)
{
  gsize n = 0;

  for (int i = 0; i < rank; i++)
    n += counts[i];
  return n;
}

/* One partner behind the other, as far to send as to receive. */
static void all_to_all_start(CpuBackend *b, CpuMessage *m, Request *r)
{
  const gsize *out = m->counts, *in = m->counts + m->comm->size;
  int rank = m->comm->rank, to = block_at(m, -(r->step + 1)), from = block_at(m, r->step + 1);

  if (r->step == 0)
    memcpy((char *)m->y + bytes_of(m, sum_before(in, rank)), (const char *)m->x + bytes_of(m, sum_before(out, rank)),
           bytes_of(m, out[rank]));
  tcp_recv(b, &r->in, comm_id(m), neighbour(m, -(r->step + 1)), (char *)m->y + bytes_of(m, sum_before(in, from)),
           bytes_of(m, in[from]));
  tcp_send(b, &r->out, comm_id(m), neighbour(m, r->step + 1), (const char *)m->x + bytes_of(m, sum_before(out, to)),
           bytes_of(m, out[to]));
}

static int one_step(const CpuMessage *m)
{
  (void)m;
  return 1;
}

static void send_start(CpuBackend *b, CpuMessage *m, Request *r)
{
  r->in.done = TRUE;
  tcp_send(b, &r->out, comm_id(m), ((TcpComm *)m->comm->handle)->ranks[m->peer], m->x, bytes_of(m, m->n));
}

static void recv_start(CpuBackend *b, CpuMessage *m, Request *r)
{
  r->out.done = TRUE;
  tcp_recv(b, &r->in, comm_id(m), ((TcpComm *)m->comm->handle)->ranks[m->peer], m->y, bytes_of(m, m->n));
}

/* Around the ring from the root, in as many blocks as there are ranks: the rank
 * `distance` behind the root receives block k in step k + distance - 1. */
static int broadcast_distance(const CpuMessage *m)
{
  return (m->comm->rank - m->peer + m->comm->size) % m->comm->size;
}

static int broadcast_steps(const CpuMessage *m)
{
  return 2 * m->comm->size - 2;
}

static void broadcast_start(CpuBackend *b, CpuMessage *m, Request *r)
{
  int size = m->comm->size, distance = broadcast_distance(m), out = r->step - distance, in = out + 1;
  char *data = m->y;

  r->in.done = distance == 0 || in < 0 || in >= size;
  r->out.done = distance == size - 1 || out < 0 || out >= size;
  if (!r->in.done)
    tcp_recv(b, &r->in, comm_id(m), neighbour(m, -1), data + bytes_of(m, block_first(m, in)),
             bytes_of(m, block_size(m, in)));
  if (!r->out.done)
    tcp_send(b, &r->out, comm_id(m), neighbour(m, 1), data + bytes_of(m, block_first(m, out)),
             bytes_of(m, block_size(m, out)));
}

/* Dissemination (Hensgen, Finkel and Manber 1988): distances double. */
static int barrier_steps(const CpuMessage *m)
{
  return g_bit_storage(m->comm->size - 1);
}

static void barrier_start(CpuBackend *b, CpuMessage *m, Request *r)
{
  tcp_recv(b, &r->in, comm_id(m), neighbour(m, -(1 << r->step)), NULL, 0);
  tcp_send(b, &r->out, comm_id(m), neighbour(m, 1 << r->step), NULL, 0);
}

static const Kind kinds[] = {
  [COMM_ALL_REDUCE] = { all_reduce_steps, all_reduce_start, all_reduce_end, TRUE },
  [COMM_ALL_GATHER] = { ring_steps, all_gather_start, NULL, FALSE },
  [COMM_REDUCE_SCATTER] = { ring_steps, scatter_start, scatter_end, TRUE },
  [COMM_ALL_TO_ALL] = { ring_steps, all_to_all_start, NULL, FALSE },
  [COMM_SEND] = { one_step, send_start, NULL, FALSE },
  [COMM_RECV] = { one_step, recv_start, NULL, FALSE },
  [COMM_BROADCAST] = { broadcast_steps, broadcast_start, NULL, FALSE },
  [COMM_BARRIER] = { barrier_steps, barrier_start, NULL, FALSE },
};

void tcp_begin(CpuBackend *b, CpuMessage *m)
{
  const Kind *kind = &kinds[m->kind];
  Request *r = g_new0(Request, 1);

  m->request.p = r;
  r->steps = kind->steps(m);
  if (kind->reduces) {
    m->scratch = malloc(2 * bytes_of(m, m->n) + 1);
    if (!m->scratch) {
      cpu_fail(b, "out of memory: %zu elements for a reduction", m->n);
      return;
    }
  }
  kind->start(b, m, r);
}

gboolean tcp_test(CpuBackend *b, CpuMessage *m)
{
  const Kind *kind = &kinds[m->kind];
  Request *r = m->request.p;

  tcp_progress(b);
  while (r->out.done && r->in.done) {
    if (kind->end)
      kind->end(m, r);
    if (++r->step == r->steps) {
      g_clear_pointer(&m->scratch, free);
      g_free(r);
      return TRUE;
    }
    kind->start(b, m, r);
  }
  if (!r->out.done)
    tcp_check(b, r->out.rank);
  if (!r->in.done)
    tcp_check(b, r->in.rank);
  return FALSE;
}
