/* Backends by name, for tests that run on any. */
#ifndef TDP_TESTS_MPI_BACKEND_H
#define TDP_TESTS_MPI_BACKEND_H

#include "exec/control.h"
#include "exec/exec.h"

#include <stdlib.h>

enum { MEET_S = 60 };

/* NULL and a line in `message` if this build has no such backend or it does not open. */
static inline Backend *backend_open(const char *name, const BackendOptions *options, char *message)
{
  for (const BackendKind *kind = backends; kind->name; kind++)
    if (g_str_equal(kind->name, name))
      return kind->open(options, message);
  g_snprintf(message, EXEC_ERROR_SIZE, "%s: not among the backends of this build", name);
  return NULL;
}

/* Of the rank that the launcher's variables say; ends the program where there is none. The channel is closed behind the
 * backend. */
static inline Backend *backend_open_rank(const char *name, ExecType dtype, Control **control)
{
  char message[EXEC_ERROR_SIZE] = "";
  GError *error = NULL;
  Launch l;

  if (!launch_detect(&l, &error))
    g_error("%s", error->message);
  ControlOptions watched = control_options_default(&l);
  watched.meet_s = watched.silence_s = MEET_S;
  *control = control_open(&watched);
  BackendOptions options = { .rank = l.rank, .size = l.size, .local_rank = l.local_rank, .dtype = dtype,
                             .share = control_share_in_place, .share_data = *control };
  Backend *b = backend_open(name, &options, message);
  if (!b)
    control_fail(*control, EXIT_FAILURE, message);
  return b;
}

#endif
