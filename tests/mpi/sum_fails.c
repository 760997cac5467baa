/*
 * A sum that MPI does not make is said, and ends what waits for it. MPI's own call is replaced by one that fails.
 *
 *   mpirun -np 2 build/tests/mpi/sum_fails
 */
#include "backend.h"

#include <stdio.h>

enum { ERROR = 10, VALUES = 1000 };

/* Handles are ints or pointers, as MPIs have it: none is looked at. */
int MPI_Reduce_local(const void *in, void *sum, int n, void *type, void *op);

int MPI_Reduce_local(const void *in, void *sum, int n, void *type, void *op)
{
  (void)in, (void)sum, (void)n, (void)type, (void)op;
  return ERROR;
}

static void call(Backend *b, BackendComm *c, BackendStream *s, int scatters, float *x)
{
  if (scatters)
    b->reduce_scatter(b, c, s, x, x + b->rank * VALUES, VALUES, EXEC_F32);
  else
    b->all_reduce(b, c, s, x, b->size * VALUES, EXEC_F32, EXEC_SUM);
}

int main(int argc, char **argv)
{
  char message[EXEC_ERROR_SIZE] = "";
  int scatters = argc > 1 && g_str_equal(argv[1], "scatter");
  Control *control;
  Backend *b = backend_open_rank("cpu", EXEC_F32, &control);
  BackendComm *world = b->comm_new(b, 0, b->rank, message);
  BackendStream *s = b->stream_new(b, FALSE);
  gsize bytes = b->size * VALUES * sizeof(float);
  float *x = b->alloc(b, s, bytes);

  b->zero(b, s, x, bytes);
  call(b, world, s, scatters, x);
  b->sync(b, s);
  const char *said = b->failed(b);
  gboolean right = said && g_str_has_prefix(said, "MPI sum of parts: ");
  if (!right)
    printf("rank %d: %s\n", b->rank, said ? said : "nothing is said");
  else if (b->rank == 0)
    printf("%s\n", said);
  b->dealloc(b, s, x, bytes);
  b->stream_free(b, s);
  b->comm_free(b, world);
  b->free(b);
  control_close(control);
  return !right;
}
