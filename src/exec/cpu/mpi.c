/* Messages between processes by MPI, non-blocking, advanced by one thread. */
#include "exec/cpu/cpu.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

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

/* MPI counts elements, and places of all that a rank has, in an int. */
static gboolean too_long(const CpuMessage *m)
{
  gsize sums[2] = { m->n, m->n };

  for (int i = 0; m->counts && i < 2 * m->comm->size; i++)
    sums[i / m->comm->size] += m->counts[i];
  return MAX(sums[0], sums[1]) > INT_MAX;
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

/* The result may stand inside the source, which MPI does not allow. */
static void begin_scatter(CpuBackend *b, CpuMessage *m, MPI_Datatype type)
{
  m->scratch = malloc(m->n * exec_type_bytes(m->type) + 1);
  if (!m->scratch) {
    cpu_fail(b, "out of memory: %zu elements for a reduce-scatter", m->n);
    return;
  }
  check(b, MPI_Ireduce_scatter_block(m->x, m->scratch, m->n, type, MPI_SUM, comm_of(m), request_of(m)),
        "reduce-scatter");
}

/* Counts and places as MPI wants them; they stay until the end. */
static void begin_all_to_all(CpuBackend *b, CpuMessage *m, MPI_Datatype type)
{
  int size = m->comm->size, *counts = malloc(4 * size * sizeof *counts);

  m->scratch = counts;
  if (!counts) {
    cpu_fail(b, "out of memory: counts of an all-to-all");
    return;
  }
  int *places = counts + 2 * size;
  for (int i = 0; i < 2 * size; i++) {
    counts[i] = m->counts[i];
    places[i] = i % size == 0 ? 0 : places[i - 1] + counts[i - 1];
  }
  check(b, MPI_Ialltoallv(m->x, counts, places, type, m->y, counts + size, places + size, type, comm_of(m),
                          request_of(m)), "all-to-all");
}

static void begin(CpuBackend *b, CpuMessage *m)
{
  MPI_Datatype type = type_of(m->type);
  MPI_Request *request = request_of(m);

  *request = MPI_REQUEST_NULL;
  if (too_long(m)) {
    cpu_fail(b, "MPI: a message of %zu elements is too long", m->n);
    return;
  }
  switch (m->kind) {
  case COMM_ALL_REDUCE:
    check(b, MPI_Iallreduce(MPI_IN_PLACE, m->y, m->n, type, m->reduce == EXEC_MAX ? MPI_MAX : MPI_SUM, comm_of(m),
                            request), "all-reduce");
    break;
  case COMM_ALL_GATHER:
    begin_gather(b, m, type);
    break;
  case COMM_REDUCE_SCATTER:
    begin_scatter(b, m, type);
    break;
  case COMM_ALL_TO_ALL:
    begin_all_to_all(b, m, type);
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
  if (m->kind == COMM_REDUCE_SCATTER)
    memcpy(m->y, m->scratch, m->n * exec_type_bytes(m->type));
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
