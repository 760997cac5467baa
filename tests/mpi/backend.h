/* Backends by name, for tests that run on any. */
#ifndef TDP_TESTS_MPI_BACKEND_H
#define TDP_TESTS_MPI_BACKEND_H

#include "exec/exec.h"
#include "exec/launch.h"

/* NULL and a line in `message` if this build has no such backend or it does not open. */
static inline Backend *backend_open(const char *name, const BackendOptions *options, char *message)
{
  for (const BackendKind *kind = backends; kind->name; kind++)
    if (g_str_equal(kind->name, name))
      return kind->open(options, message);
  g_snprintf(message, EXEC_ERROR_SIZE, "%s: not among the backends of this build", name);
  return NULL;
}

/* Of the rank that the launcher's variables say. */
static inline Backend *backend_open_rank(const char *name, char *message)
{
  Launch l;

  if (!launch_detect(&l, NULL))
    return NULL;
  BackendOptions options = { .rank = l.rank, .size = l.size, .local_rank = l.local_rank, .dtype = EXEC_F32,
                             .address = l.address[0] ? l.address : NULL };
  return backend_open(name, &options, message);
}

#endif
