/*
 * Which of how many processes this one is, from what its launcher left in the
 * environment. The innermost launcher comes first: torchrun under srun sets both
 * groups of variables, and so does mpirun inside sbatch. In the shell of a batch
 * script SLURM_PROCID is set without a step; that is a single process.
 *
 * Ranks meet at MASTER_ADDR, at the port behind MASTER_PORT (29500), which torchrun
 * keeps for itself; under srun without it at the step's first host, at a port made
 * from the job's number. Where MPI can be started (by mpirun, by srun --mpi=pmix, by others that set PMI_RANK and no
 * MASTER_ADDR) rank 0 says over MPI where they meet.
 */
#ifndef TDP_EXEC_LAUNCH_H
#define TDP_EXEC_LAUNCH_H

#include <glib.h>

typedef struct {
  const char *launcher; /* "torchrun", "mpirun", "pmi", "srun", "none" */
  int rank, size, local_rank;
  int local_size;    /* ranks on this host, 0 = not known */
  gboolean mpi;      /* a rank of MPI, once MPI is started */
  char address[320]; /* "host:port" where ranks meet rank 0; empty = not known */
  char job[128];     /* the launcher's name of the run, "" = it has none; no secret */
} Launch;

/* Fails with TDP_ERROR_INPUT where a variable is no number. */
gboolean launch_detect(Launch *out, GError **error);

#endif
