/*
 * Which of how many processes this one is, from what its launcher left in the
 * environment. The innermost launcher comes first: torchrun under srun sets both
 * groups of variables, and so does mpirun inside sbatch. In the shell of a batch
 * script SLURM_PROCID is set without a step; that is a single process.
 *
 * Ranks meet at MASTER_ADDR, at the port behind MASTER_PORT (29500), which torchrun
 * keeps for itself; under srun without it at the step's first host, at a port made
 * from the job's number.
 */
#ifndef TDP_EXEC_LAUNCH_H
#define TDP_EXEC_LAUNCH_H

#include <glib.h>

typedef struct {
  const char *launcher; /* "torchrun", "mpirun", "pmi", "srun", "none" */
  int rank, size, local_rank, local_size;
  char address[320]; /* "host:port" where ranks meet rank 0; empty = MPI brings them together */
} Launch;

/* Errors: TDP_ERROR_INPUT, a variable that is no number. */
gboolean launch_detect(Launch *out, GError **error);

#endif
