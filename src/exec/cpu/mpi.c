/* Messages between processes by MPI, non-blocking, advanced by one thread. */
#include "exec/cpu/cpu.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_BYTES (1 << 20) /* above, parts won on four ranks that shared two cores */

G_STATIC_ASSERT(sizeof(MPI_Request) <= sizeof(((CpuMessage *)0)->request));

static MPI_Request *request_of(CpuMessage *m)
{
  return (MPI_Request *)&m->request;
}

static MPI_Datatype type_of(ExecType type)
{
  gboolean narrow = exec_type_bytes(type) == sizeof(uint16_t); /* moved only */

  return type == EXEC_F64 ? MPI_DOUBLE : type == EXEC_I32 ? MPI_INT32_T : narrow ? MPI_UINT16_T : MPI_FLOAT;
}

static gboolean check(CpuBackend *b, int status, const char *what)
{
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;

  if (status == MPI_SUCCESS)
    return TRUE;
  MPI_Error_string(status, text, &length);
  cpu_fail(b, "MPI %s: %s", what, text);
  return FALSE;
}

/* Elements that MPI counts, and the places of all that a rank has: in an int. */
static gsize counted(const CpuMessage *m)
{
  gsize all = m->kind == COMM_REDUCE_SCATTER ? m->n * m->comm->size : m->n, sums[2] = { 0, 0 };

  for (int i = 0; m->counts && i < 2 * m->comm->size; i++)
    sums[i / m->comm->size] += m->counts[i];
  return m->counts ? MAX(sums[0], sums[1]) : all;
}

static MPI_Comm comm_of(const CpuMessage *m)
{
  return *(MPI_Comm *)m->comm->handle;
}

static BackendComm *comm_new(CpuBackend *b, int color, int key, char *error)
{
  MPI_Comm split = MPI_COMM_NULL;
  BackendComm *c = NULL;

  if (!check(b, MPI_Comm_split(MPI_COMM_WORLD, color < 0 ? MPI_UNDEFINED : color, key, &split), "Comm_split"))
    g_strlcpy(error, b->error, EXEC_ERROR_SIZE);
  else if (split != MPI_COMM_NULL) {
    c = g_new0(BackendComm, 1);
    c->handle = g_memdup2(&split, sizeof split);
    MPI_Comm_set_errhandler(split, MPI_ERRORS_RETURN);
    MPI_Comm_rank(split, &c->rank);
    MPI_Comm_size(split, &c->size);
  }
  return c;
}

static void comm_free(BackendComm *c)
{
  MPI_Comm_free(c->handle);
  g_free(c->handle);
}

static void begin_gather(CpuBackend *b, CpuMessage *m, MPI_Datatype type)
{
  gboolean in_place = m->x == (char *)m->y + m->comm->rank * m->n * exec_type_bytes(m->type);

  check(b, MPI_Iallgather(in_place ? MPI_IN_PLACE : m->x, m->n, type, m->y, m->n, type, comm_of(m), request_of(m)),
        "all-gather");
}

/* Counts and places as MPI wants them, to each rank and then from each, and room behind them: they stay
 * to the end. */
static int *take_counts(CpuBackend *b, CpuMessage *m, gsize room)
{
  m->scratch = malloc(4 * m->comm->size * sizeof(int) + room);
  if (!m->scratch)
    cpu_fail(b, "out of memory: %zu bytes for an exchange of parts", room);
  return m->scratch;
}

/* Parts lie one behind the other; of `own`, which stays where it is, a rank sends nothing. */
static void exchange_parts(CpuBackend *b, CpuMessage *m, int *counts, int own, void *to)
{
  int size = m->comm->size, *places = counts + 2 * size;
  MPI_Datatype type = type_of(m->type);

  for (int i = 0; i < 2 * size; i++)
    places[i] = i % size == 0 ? 0 : places[i - 1] + counts[i - 1] + (i == m->comm->rank + 1 ? own : 0);
  check(b, MPI_Ialltoallv(m->x, counts, places, type, to, counts + size, places + size, type, comm_of(m),
                          request_of(m)), "all-to-all");
}

static void begin_all_to_all(CpuBackend *b, CpuMessage *m)
{
  int *counts = take_counts(b, m, 0);

  for (int i = 0; counts && i < 2 * m->comm->size; i++)
    counts[i] = m->counts[i];
  if (counts)
    exchange_parts(b, m, counts, 0, m->y);
}

/* Elements of the vector that a rank adds up; those before them stand with the ranks before it. */
static int part_of(const CpuMessage *m, int rank)
{
  int size = m->comm->size;

  return m->kind == COMM_REDUCE_SCATTER ? m->n : m->n / size + (rank < (int)(m->n % size));
}

/* Each rank sends each other one its part and adds up its own, all at once: MPI's reductions that do not block take a
 * tree to one rank and back (Open MPI 4.1, libnbc), during which the others wait. The room for what comes is no more
 * than those take of their own accord, the whole vector once for an all-reduce and twice for a reduce-scatter; it is
 * counted as theirs was, as the library's. */
static void begin_sum(CpuBackend *b, CpuMessage *m)
{
  int size = m->comm->size, rank = m->comm->rank, mine = part_of(m, rank);
  int *counts = take_counts(b, m, (gsize)(size - 1) * mine * exec_type_bytes(m->type));

  for (int i = 0; counts && i < size; i++) {
    counts[i] = i == rank ? 0 : part_of(m, i);
    counts[size + i] = i == rank ? 0 : mine;
  }
  if (counts)
    exchange_parts(b, m, counts, mine, counts + 4 * size);
}

/* An all-reduce goes on as a gather of all parts. */
static gboolean end_sum(CpuBackend *b, CpuMessage *m)
{
  int size = m->comm->size, rank = m->comm->rank, *counts = m->scratch, *places = counts + 2 * size;
  MPI_Datatype type = type_of(m->type);
  gsize each = exec_type_bytes(m->type), bytes = part_of(m, rank) * each;
  const char *parts = (char *)(counts + 4 * size), *own = (const char *)m->x + places[rank] * each;
  char *sum = (char *)m->y + (m->kind == COMM_ALL_REDUCE ? places[rank] * each : 0);

  counts[rank] = part_of(m, rank);
  if (sum != own)
    memcpy(sum, own, bytes);
  gboolean added = TRUE;
  for (int i = 0; i < size - 1 && added; i++)
    added = check(b, MPI_Reduce_local(parts + i * bytes, sum, counts[rank], type, MPI_SUM), "sum of parts");
  if (m->kind == COMM_REDUCE_SCATTER || !added)
    return TRUE;
  m->kind = COMM_ALL_GATHER;
  check(b, MPI_Iallgatherv(MPI_IN_PLACE, 0, type, m->y, counts, places, type, comm_of(m), request_of(m)),
        "all-gather of sums");
  return FALSE;
}

/* Short vectors of several ranks are left to the tree: there messages count, not bytes. */
static void begin_reduce(CpuBackend *b, CpuMessage *m, MPI_Datatype type)
{
  gboolean is_short = m->comm->size > 2 && m->n * exec_type_bytes(m->type) < SHORT_BYTES;

  if (m->reduce == EXEC_SUM && !is_short)
    begin_sum(b, m);
  else
    check(b, MPI_Iallreduce(MPI_IN_PLACE, m->y, m->n, type, m->reduce == EXEC_MAX ? MPI_MAX : MPI_SUM, comm_of(m),
                            request_of(m)), "all-reduce");
}

static void begin(CpuBackend *b, CpuMessage *m)
{
  MPI_Datatype type = type_of(m->type);
  MPI_Request *request = request_of(m);

  *request = MPI_REQUEST_NULL;
  if (counted(m) > INT_MAX) {
    cpu_fail(b, "MPI: a message of %zu elements is too long: expected %d at most", counted(m), INT_MAX);
    return;
  }
  switch (m->kind) {
  case COMM_ALL_REDUCE:
    begin_reduce(b, m, type);
    break;
  case COMM_ALL_GATHER:
    begin_gather(b, m, type);
    break;
  case COMM_REDUCE_SCATTER:
    begin_sum(b, m);
    break;
  case COMM_ALL_TO_ALL:
    begin_all_to_all(b, m);
    break;
  case COMM_SEND:
    check(b, MPI_Isend(m->x, m->n, type, m->peer, 0, comm_of(m), request), "send");
    break;
  case COMM_RECV:
    check(b, MPI_Irecv(m->y, m->n, type, m->peer, 0, comm_of(m), request), "receive");
    break;
  case COMM_BROADCAST:
    check(b, MPI_Ibcast(m->y, m->n, type, m->peer, comm_of(m), request), "broadcast");
    break;
  case COMM_BARRIER:
    check(b, MPI_Ibarrier(comm_of(m), request), "barrier");
    break;
  }
}

static gboolean test(CpuBackend *b, CpuMessage *m)
{
  int done = 0;

  if (!check(b, MPI_Test(request_of(m), &done, MPI_STATUS_IGNORE), "test") || !done)
    return FALSE;
  if (m->scratch && (m->kind == COMM_REDUCE_SCATTER || m->kind == COMM_ALL_REDUCE) && !end_sum(b, m))
    return FALSE;
  g_clear_pointer(&m->scratch, free);
  return TRUE;
}

static const CpuDriver mpi_driver = {
  .comm_new = comm_new, .comm_free = comm_free, .begin = begin, .test = test,
};

Backend *cpu_mpi_open(const BackendOptions *options, char *error)
{
  int started = 0;

  MPI_Initialized(&started);
  if (started)
    return cpu_new(options, &mpi_driver);
  g_strlcpy(error, "ranks on cores talk by MPI: expected a start by mpirun, or by srun --mpi=pmix", EXEC_ERROR_SIZE);
  return NULL;
}
