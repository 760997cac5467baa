#include "exec/control_state.h"

#include <mpi.h>

char *control_mpi_start(int rank, int size)
{
  int own[2] = { 0, 0 };

  MPI_Init(NULL, NULL);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &own[0]);
  MPI_Comm_size(MPI_COMM_WORLD, &own[1]);
  if (own[0] == rank && own[1] == size)
    return NULL;
  return g_strdup_printf("MPI says that this is rank %d of %d, the launcher that it is rank %d of %d: expected a start "
                         "by mpirun, or by srun --mpi=pmix", own[0], own[1], rank, size);
}

void control_mpi_tell(void *data, int n)
{
  MPI_Bcast(data, n, MPI_BYTE, 0, MPI_COMM_WORLD);
}

guint32 control_mpi_common(guint32 bits)
{
  guint32 common = 0;

  MPI_Allreduce(&bits, &common, 1, MPI_UINT32_T, MPI_BAND, MPI_COMM_WORLD);
  return common;
}

void control_mpi_stop(void)
{
  MPI_Finalize();
}
